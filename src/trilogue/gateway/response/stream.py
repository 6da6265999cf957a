"""Streamed responses: read the upstream's stream, convert it event by event, and write it to the client."""

from __future__ import annotations

import asyncio
import time

from trilogue.base.json_text import dump, parse_upstream
from trilogue.errors import UpstreamError, UpstreamFailure, UpstreamProtocolError
from trilogue.gateway.conversations.store.types import StoreError
from trilogue.gateway.conversations.turn import StoredTurn, final_response
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.response.attempt import RelayResult, UpstreamAttempt
from trilogue.gateway.response.client_response import ClientResponse, ResponseState
from trilogue.gateway.response.continuation import Continuation
from trilogue.gateway.response.first_bytes import FirstBytes
from trilogue.gateway.response.pass_through import (
    EchoingPassThrough,
    EchoingRenamingPassThrough,
    PassThrough,
    RenamingPassThrough,
    StreamPath,
)
from trilogue.gateway.response.tool_finder import find_tools
from trilogue.gateway.response.tool_search import SearchContinuation
from trilogue.model import Failure, Loss
from trilogue.net.client.interface import UpstreamResponse
from trilogue.protocols.stream.response_context import Reply
from trilogue.translate.streams import StreamTranslator

AFTERWARDS_SECONDS = 0.5
AFTERWARDS_BYTES = 64 * 1024
"""What an upstream may still send after the last event of a response."""

_STREAMING = ResponseState.STREAMING
AnyContinuation = Continuation | SearchContinuation


class StreamRelay:
    """One upstream stream on its way to the client."""

    __slots__ = (
        "_attempt",
        "_client",
        "_continuation",
        "_failure",
        "_first",
        "_gateway",
        "_keeps",
        "_path",
        "_progress",
        "_redactor",
        "_responder",
        "_runs_upstream",
        "_settled",
    )

    def __init__(
        self,
        client: ClientResponse,
        attempt: UpstreamAttempt,
        gateway: Gateway,
        continuation: AnyContinuation | None = None,
        path: StreamPath | None = None,
    ) -> None:
        self._client = client
        self._continuation = continuation
        self._responder = client.responder
        self._attempt = attempt
        self._progress = attempt.progress
        self._redactor = attempt.redactor
        self._gateway = gateway
        self._keeps = client.call.turn is not None or client.call.memory is not None
        """whether something may have to be stored before the end of the response leaves"""
        turn = client.call.turn
        self._runs_upstream = turn is not None and turn.passes_background and attempt.origin is not None
        """whether the upstream runs the response in the background, and that was not stored yet"""
        self._path = _path_for(client, attempt) if path is None else path
        self._settled = False
        self._failure: Failure | None = None
        self._first = FirstBytes(attempt.response)

    async def run(self) -> RelayResult:
        """Stream the response to the client. Raises UpstreamError; `client.is_final` says whether it has a part of it.

        What the upstream says about a failure must be `redacted` before it is logged or sent.
        """
        path, first = self._path, self._first
        try:
            await self._read()
            while path.paused and await self._continue():
                await self._read()
            response = self._attempt.response
            if self._client.state is not _STREAMING and first.too_long:
                raise UpstreamProtocolError("the upstream has sent too much without any content")
            if path.started or path.failed is None:
                await self._read_end(response)
            if self._keeps:
                self._client.record.usage = path.usage  # also if it cannot be stored: it was paid for
                await self._keep()
            self._commit()
        except BaseException:
            # However the stream ends: what was lost until then must show.
            self._client.record.losses = self._losses
            raise
        response.release(AFTERWARDS_SECONDS)
        return self._finish()

    @property
    def _losses(self) -> list[Loss]:
        """All losses so far, of the request and of the response."""
        return [*self._attempt.outbound.losses, *self._path.losses]

    async def _read(self) -> None:
        """Read the stream until the response is complete, or this part of it."""
        response, path, first = self._attempt.response, self._path, self._first
        take = self._take if self._continuation is None else self._take_part
        await response.pour(take)
        if self._runs_upstream and self._has_begun():
            await self._keep_running()
            await response.pour(take)
        if first.bare:
            body, whole = await first.gathered(response, self._gateway.settings.max_body_bytes)
            first.bare = b""
            if self._continuation is not None:
                self._continuation.pieces = [body]
            self._forward(path.whole(parse_upstream(body, whole=True)) if whole else path.feed(body))
            if not is_over(path):
                await response.pour(take)

    async def _continue(self) -> bool:
        """Continue a response that the upstream has paused. Return False if that has been done too often."""
        path, continuation = self._path, self._continuation
        if continuation is None or not isinstance(path, StreamTranslator):
            return False
        if path.started:
            self._commit()
        self._client.send()
        if not await continuation.continue_stream(path):
            self._forward(path.end_paused())
            return False
        path.resume()
        self._progress = self._attempt.progress
        self._responder.follow(self._attempt.response.hold)
        return True

    def _take_part(self, data: bytes) -> bool:
        """Do the same as `_take` for a response that may be paused: then its bytes are needed to continue it."""
        if self._continuation is not None:
            self._continuation.pieces.append(data)
        return self._take(data)

    def _take(self, data: bytes) -> bool:
        """Take bytes of the upstream; return whether that is enough for `pour`.

        This is the hot path. It is called by the connection for all bytes that arrive, without a task in between.
        """
        if self._client.state is not _STREAMING:
            return self._take_first(data)
        path = self._path
        out = path.feed(data)
        now = time.monotonic()
        if path.moved:
            self._progress.since = now
        if path.failed is not None:
            self._client.hold_back(self._with_losses(self._redactor.body(out)))
            return True
        if path.done or path.finish is not None:
            self._client.hold_back(self._with_losses(out))
            return True
        if out:
            self._responder.piece(out, now)
        return False

    def _take_first(self, data: bytes) -> bool:
        """Do the same as `_take` while the client has nothing of this response."""
        first, path = self._first, self._path
        if not first.known and first.is_bare(data):
            return True
        out = path.feed(data)
        if path.moved:
            self._progress.since = time.monotonic()
            self._progress.began()
        self._forward(out)
        if self._runs_upstream and self._has_begun():
            return True
        return is_over(path) or (self._client.state is not _STREAMING and first.too_long)

    async def _read_end(self, response: UpstreamResponse) -> None:
        """Read to the end of the stream. Once the response is complete, the upstream cannot make it fail any more."""
        path, until, behind = self._path, time.monotonic() + AFTERWARDS_SECONDS, 0
        more = True
        while more and not path.done:
            if not response.complete:
                if self._keeps and path.finish is not None:
                    await self._keep()
                self._settle()
                self._client.send()
            over = is_over(path)
            data = await (_rest(response, until) if over else response.chunk())
            behind += len(data) if over else 0
            more = bool(data) and behind <= AFTERWARDS_BYTES
            out = path.feed(data) if more else path.close()
            if out:
                # After the end there is nothing of the response itself, which must not be changed by the redactor.
                self._forward(self._redactor.body(out) if over else out)

    def _with_losses(self, out: bytes) -> bytes:
        """Return the end of a stream, with a comment about its losses if the client wants one."""
        return self._client.with_losses(out, self._losses) if self._client.call.loss_comment else out

    def _forward(self, out: bytes) -> None:
        """Send bytes to the client, or hold them if there was no content yet."""
        path = self._path
        if path.failed is not None:
            out = self._redactor.body(out)
        if is_over(path):
            out = self._with_losses(out)
        ends = self._keeps and path.finish is not None
        if self._client.state is _STREAMING:
            if ends:
                self._client.hold_more(out)
            else:
                self._settle()
                self._client.send(out)
            return
        self._first.hold(out)
        if path.started and self._first.held and not ends and not self._runs_upstream:
            self._commit()

    async def _keep_running(self) -> None:
        """Store a response that the upstream runs in the background, before the client has anything of it.

        From then on it goes on without the client, and the client can ask for the rest.
        """
        self._runs_upstream = False
        turn = self._client.call.turn
        if turn is not None:
            await turn.keep_running(final_response(b"".join(self._first.held)), self._attempt.origin)
        self._commit()

    def _has_begun(self) -> bool:
        """Return whether the upstream has named the response, and goes on with it."""
        path = self._path
        return isinstance(path, PassThrough) and bool(path.response_id and self._first.held) and not is_over(path)

    async def _keep(self) -> None:
        """Store the response, and its reasoning if the client cannot send that back.

        Raises StoreError if the response cannot be stored; the client must not get its end then.
        """
        self._keeps = False
        path, turn, memory = self._path, self._client.call.turn, self._client.call.memory
        if path.finish is None:
            return
        if turn is not None:
            await self._store(turn)
        if memory is not None and isinstance(path, StreamTranslator):
            await memory.keep(path.kept)

    async def _store(self, turn: StoredTurn) -> None:
        path = self._path
        if isinstance(path, StreamTranslator):
            body = dump(path.snapshot)
        else:
            body = final_response(self._client.held_back or b"".join(self._first.held))
        try:
            await turn.keep(body, self._attempt.origin, self._attempt.account)
        except StoreError:
            self._first.held.clear()
            self._client.drop_end()
            raise

    def _commit(self) -> None:
        """Give the client this response: it has content or is over. Raises UpstreamFailure if it failed without any."""
        if self._client.state is _STREAMING:
            return
        path = self._path
        if path.failed is not None and not path.started:
            raise UpstreamFailure(path.failed.failure)
        self._settle()
        self._client.commit(self._attempt, path, b"".join(self._first.held))

    def _settle(self) -> None:
        """Settle the request if the response is over: the client must not have its end before that."""
        # A response that is paused goes on, and costs more.
        if is_over(self._path) and not self._path.paused and not self._settled:
            self._settled = True
            self._note_outcome()
            self._client.settle()

    def _note_outcome(self) -> None:
        client, path, outbound = self._client, self._path, self._attempt.outbound
        record = client.record
        record.usage = path.usage
        if path.start is not None:
            record.response_id, record.response_model = path.start.id, path.start.model
        if path.finish is not None:
            record.stop = path.finish.stop.reason
        if outbound.losses or path.losses:
            record.declare(self._losses)
        record.empty = path.finish is not None and not path.has_content
        if path.failed is not None:
            self._failure = self._redactor.failure(path.failed.failure)
            record.mark_failed(self._failure)

    def _finish(self) -> RelayResult:
        path = self._path
        self._note_outcome()
        self._client.end()
        response_id = path.response_id if isinstance(path, PassThrough) else ""
        return RelayResult(usage=path.usage, response_id=response_id, failure=self._failure)


def _path_for(client: ClientResponse, attempt: UpstreamAttempt) -> StreamPath:
    """Return the translator, or the pass-through if both sides speak the same protocol."""
    outbound, call, stamp = attempt.outbound, client.call, client.stamp()
    if outbound.exchange is not None:
        translator = StreamTranslator(
            source=outbound.protocol,
            target=call.client,
            exchange=outbound.exchange,
            stamp=stamp,
            continues=outbound.pauses is not None,
        )
        if outbound.exchange.search is not None:
            translator.answer_searches(find_tools)
        return translator
    reply = Reply(
        model=call.shown_model, created=stamp.now, seed=stamp.seed, request_id=stamp.request_id, source=call.client
    )
    if outbound.echo is None:
        return (RenamingPassThrough if outbound.renamed else PassThrough)(outbound.protocol, reply)
    path = (EchoingRenamingPassThrough if outbound.renamed else EchoingPassThrough)(outbound.protocol, reply)
    path.echo = outbound.echo
    return path


def is_over(path: StreamPath) -> bool:
    """Return whether the response is complete or has failed. The upstream's stream may still go on."""
    return path.done or path.finish is not None or path.failed is not None


async def _rest(response: UpstreamResponse, until: float) -> bytes:
    """Return what comes after the end, if it comes by then. Errors do not matter any more."""
    if response.complete:
        return await response.chunk()
    try:
        async with asyncio.timeout(until - time.monotonic()):
            return await response.chunk()
    except (UpstreamError, TimeoutError):
        return b""
