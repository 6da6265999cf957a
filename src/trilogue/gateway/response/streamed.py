"""Streamed responses: read the upstream's stream, convert it event by event, and write it to the client."""

from __future__ import annotations

import asyncio
import time

from trilogue.errors import UpstreamError, UpstreamFailure, UpstreamProtocolError
from trilogue.gateway.response.attempt import RelayResult, UpstreamAttempt
from trilogue.gateway.response.client_response import ClientResponse, ResponseState
from trilogue.gateway.response.first_bytes import FirstBytes
from trilogue.gateway.response.kept_items import keep_items
from trilogue.gateway.response.pass_through import PassThrough, RenamingPassThrough, StreamPath
from trilogue.gateway.setup.services import Services
from trilogue.jsontext.text import parse_upstream
from trilogue.protocols.stream.reply import Reply
from trilogue.translate.responses import StreamTranslator
from trilogue.upstream import UpstreamResponse

AFTERWARDS_SECONDS = 0.5
AFTERWARDS_BYTES = 64 * 1024
"""What an upstream may still send after the last event of a response."""

_STREAMING = ResponseState.STREAMING


class StreamRelay:
    """One upstream stream on its way to the client."""

    __slots__ = ("_attempt", "_client", "_first", "_path", "_progress", "_redactor", "_responder", "_services")

    def __init__(self, client: ClientResponse, attempt: UpstreamAttempt, services: Services) -> None:
        self._client = client
        self._responder = client.responder
        self._attempt = attempt
        self._progress = attempt.progress
        self._redactor = attempt.redactor
        self._services = services
        self._path = _path_for(client, attempt)
        self._first = FirstBytes(attempt.response)

    async def run(self) -> RelayResult:
        """Stream the response to the client. Raises UpstreamError; `client.is_final` says whether it has a part of it.

        What the upstream says about a failure must be `redacted` before it is logged or sent.
        """
        response, path, first = self._attempt.response, self._path, self._first
        await response.pour(self._take)
        if first.bare:
            body, whole = await first.gathered(response, self._services.limits.max_body_bytes)
            self._forward(path.whole(parse_upstream(body, whole=True)) if whole else path.feed(body))
            if not _is_over(path):
                await response.pour(self._take)
        if self._client.state is not _STREAMING and first.too_long:
            raise UpstreamProtocolError("the upstream has sent too much without any content")
        if path.started or path.failed is None:
            await self._read_end(response)
        self._commit()
        response.release(AFTERWARDS_SECONDS)
        return self._finish()

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
            self._client.hold_back(self._redactor.body(out))
            return True
        if path.done or path.finish is not None:
            self._client.hold_back(out)
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
        return _is_over(path) or (self._client.state is not _STREAMING and first.too_long)

    async def _read_end(self, response: UpstreamResponse) -> None:
        """Read to the end of the stream. Once the response is complete, the upstream cannot make it fail any more."""
        path, until, behind = self._path, time.monotonic() + AFTERWARDS_SECONDS, 0
        more = True
        while more and not path.done:
            if not response.complete:
                self._client.send()
            over = _is_over(path)
            data = await (_rest(response, until) if over else response.chunk())
            behind += len(data) if over else 0
            more = bool(data) and behind <= AFTERWARDS_BYTES
            out = path.feed(data) if more else path.close()
            if out:
                # After the end there is nothing of the response itself, which must not be changed by the redactor.
                self._forward(self._redactor.body(out) if over else out)

    def _forward(self, out: bytes) -> None:
        """Send bytes to the client, or hold them if there was no content yet."""
        path = self._path
        if path.failed is not None:
            out = self._redactor.body(out)
        if self._client.state is _STREAMING:
            self._client.send(out)
            return
        self._first.hold(out)
        if path.started and self._first.held:
            self._commit()

    def _commit(self) -> None:
        """Give the client this response: it has content or is over. Raises UpstreamFailure if it failed without any."""
        if self._client.state is _STREAMING:
            return
        path = self._path
        if path.failed is not None and not path.started:
            raise UpstreamFailure(path.failed.failure)
        self._client.commit(self._attempt, path, b"".join(self._first.held))

    def _finish(self) -> RelayResult:
        client, path, outbound = self._client, self._path, self._attempt.outbound
        record = client.record
        record.usage = path.usage
        if outbound.losses or path.losses:
            record.declare([*outbound.losses, *path.losses])
        record.empty = path.finish is not None and not path.has_content
        failure = self._redactor.failure(path.failed.failure) if path.failed is not None else None
        if failure is not None:
            record.mark_failed(failure)
        client.end()
        if isinstance(path, StreamTranslator):
            keep_items(client.call, outbound, path.snapshot, self._services.items)
        response_id = path.response_id if isinstance(path, PassThrough) else ""
        return RelayResult(usage=path.usage, response_id=response_id, failure=failure)


def _path_for(client: ClientResponse, attempt: UpstreamAttempt) -> StreamPath:
    """Return the translator, or the pass-through if both sides speak the same protocol."""
    outbound, call, stamp = attempt.outbound, client.call, client.stamp()
    if outbound.exchange is not None:
        return StreamTranslator(source=outbound.protocol, target=call.client, exchange=outbound.exchange, stamp=stamp)
    reply = Reply(model=call.model, created=stamp.now, seed=stamp.seed, request_id=stamp.request_id, source=call.client)
    return (RenamingPassThrough if outbound.renamed else PassThrough)(outbound.protocol, reply)


def _is_over(path: StreamPath) -> bool:
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
