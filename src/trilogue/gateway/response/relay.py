"""One call from admission to its last byte: send, look whether the upstream has really started, relay.

Until content has come nothing is committed: an upstream that fails by then gives the client an HTTP error. From then
on, or once silence has lasted so long that the client needs a sign of life, errors are told inside the stream.
"""

from __future__ import annotations

import asyncio
import time
from codecs import BOM_UTF8
from collections.abc import Coroutine
from functools import lru_cache
from typing import Any, NoReturn

from msgspec import Struct

from trilogue.errors import UpstreamError, UpstreamFailure, UpstreamProtocolError
from trilogue.gateway.log.record import Record, loss_codes, milliseconds
from trilogue.gateway.log.redaction import Redactor
from trilogue.gateway.request.call import Call
from trilogue.gateway.request.failures import for_client, response_failure
from trilogue.gateway.request.large_bodies import LARGE_BYTES, beside
from trilogue.gateway.request.outbound import Outbound
from trilogue.gateway.response.beginning import ResponseBeginning, is_stream
from trilogue.gateway.response.pass_through import PassThrough, RenamingPassThrough, StreamPath, renamed
from trilogue.gateway.response.timing import ProgressLimit
from trilogue.gateway.setup.services import Services
from trilogue.jsontext.text import dump, parse_request, parse_upstream
from trilogue.model import Failed, Failure, FailureKind, Json, Loss, Protocol, Usage
from trilogue.protocols.codec import ResponseSummary
from trilogue.protocols.failure.convert import failure_of
from trilogue.protocols.failure.retry import reset_delay, with_retry_after
from trilogue.protocols.registry import codec
from trilogue.protocols.stream.reply import Reply
from trilogue.serving import Headers, Responder
from trilogue.state import steady_time
from trilogue.translate.learning.remedies import Remedy
from trilogue.translate.responses import (
    ResponseTranslation,
    Stamp,
    StreamTranslator,
    collect_stream,
    is_empty,
    summarize_response,
    translate_response,
)
from trilogue.upstream import UpstreamResponse

SSE_HEADERS: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]
JSON_HEADERS: Headers = [(b"content-type", b"application/json")]

MAX_ERROR_BYTES = 1024 * 1024
ERROR_SECONDS = 5.0
"""what the body of an error may take: its status is known, and that says most"""
AFTERWARDS_SECONDS = 0.5
AFTERWARDS_BYTES = 64 * 1024
"""what an upstream may still send after its terminal event"""
_BLANK = Redactor()
_KEPT = ("x-ratelimit-", "anthropic-ratelimit-", "openai-processing-ms", "openai-version")


class Answered(Struct, frozen=True, kw_only=True, gc=False):
    """What came of an answer that the client has got, or as much of it as there was: `failure` is how it broke off.

    `response_id`: by which a client can continue it at this very upstream.
    """

    usage: Usage | None = None
    response_id: str = ""
    failure: Failure | None = None


class Refused(Struct, frozen=True, gc=False):
    """Parameters that a provider has refused for a model, and what to send instead."""

    provider: str
    model: str
    remedies: tuple[Remedy, ...]


class Relay:
    """The answer to one call, from one upstream response at a time."""

    def __init__(self, call: Call, responder: Responder, record: Record, services: Services) -> None:
        self.call = call
        self.responder = responder
        self.record = record
        self.progress: ProgressLimit | None = None
        """the clock on the events of a streaming upstream"""
        self.spoken = False
        """the client has got more of an answer than signs of life: nobody else can answer now"""
        self.attempt: Outbound | None = None
        """the attempt under way"""
        self.refused: Refused | None = None
        """what an upstream has refused in an attempt at this call"""
        self.request_losses: list[Loss] = []
        """what the request under way has lost"""
        self.blank = _BLANK
        """for what the account under way must not have told of it"""
        self._services = services
        self._stamped: Stamp | None = None
        self._passage: StreamPath | None = None
        self._response: UpstreamResponse | None = None
        self._beginning: ResponseBeginning | None = None
        """what the client has not heard of yet; None once it has"""
        self._last = b""
        """the last piece of the answer: it goes out together with the end unless that takes a while"""

    def answer(
        self, response: UpstreamResponse, upstream: Protocol, attempt: Outbound
    ) -> Coroutine[Any, Any, Answered]:
        """Relay one upstream response. Raises UpstreamError; `spoken` tells whether the client has a part of it.

        What the upstream says of a failure must be `redacted` before it is logged or sent.
        """
        if response.status >= 300:
            return self._no_answer(response, upstream)
        if self.call.stream:
            return self._stream(response, upstream, attempt)
        return self._whole(response, upstream, attempt)

    async def _no_answer(self, response: UpstreamResponse, upstream: Protocol) -> NoReturn:
        if response.status < 400:
            raise UpstreamProtocolError(
                f"the upstream answered with a redirect ({response.status}), not with an answer"
            )
        failure = response_failure(response, await error_body(response), upstream, self.blank)
        if failure.kind is FailureKind.RATE_LIMIT:
            failure = with_retry_after(failure, reset_delay(dict(response.headers), steady_time()))
        raise UpstreamFailure(failure)

    async def _whole(self, response: UpstreamResponse, upstream: Protocol, attempt: Outbound) -> Answered:
        body = await response.read(self._services.limits.max_body_bytes)
        if body.startswith(BOM_UTF8):
            # Not every client's JSON parser takes it.
            body = body.removeprefix(BOM_UTF8)
        streamed = is_stream(response, body)
        if len(body) > LARGE_BYTES:
            seen, body, down = await beside(self._told, body, upstream, attempt, streamed)
        else:
            seen, body, down = self._told(body, upstream, attempt, streamed)
        losses = attempt.losses
        if down is not None:
            losses = [*losses, *down.losses]
            self._keep(attempt, down.body)
        self.record.answered(seen.usage, losses)
        self.record.empty = seen.empty
        headers = [*JSON_HEADERS, *kept_headers(response), *loss_header(self.record.losses)]
        self.spoken = True
        self.responder.reply(200, headers, body)
        return Answered(usage=seen.usage, response_id=seen.id)

    def _told(
        self, body: bytes, upstream: Protocol, attempt: Outbound, streamed: bool
    ) -> tuple[ResponseSummary, bytes, ResponseTranslation | None]:
        """A whole answer: what is to be known of it, as the client gets it, and its translation if it needs one."""
        if streamed:
            body = dump(collect_stream(body, protocol=upstream))
        if attempt.exchange is None:
            seen = summarize_response(body, source=upstream)
            return seen, renamed(body, self.call.model) if attempt.renamed else body, None
        down = translate_response(
            body, source=upstream, target=self.call.client, exchange=attempt.exchange, stamp=self._stamp()
        )
        return ResponseSummary("", down.response.usage, is_empty(down.response)), dump(down.body), down

    async def _stream(self, response: UpstreamResponse, upstream: Protocol, attempt: Outbound) -> Answered:
        passage = self._passage = self._passage_for(upstream, attempt)
        beginning = self._beginning = ResponseBeginning(response)
        self._response = response
        await response.pour(self._pass_on)
        if beginning.bare:
            body, whole = await beginning.gathered(response, self._services.limits.max_body_bytes)
            self._say(passage, passage.whole(parse_upstream(body, whole=True)) if whole else passage.feed(body))
            if not _is_over(passage):
                await response.pour(self._pass_on)
        if beginning.too_long and self._beginning is not None:
            raise UpstreamProtocolError("the upstream goes on and on, and has sent nothing of an answer")
        if passage.started or passage.failed is None:
            await self._last_words(response, passage)
        self._speak(passage)
        response.release(AFTERWARDS_SECONDS)
        return self._finish(passage, attempt)

    def _pass_on(self, data: bytes) -> bool:
        """The hot path: called for whatever has come, from where it comes, with no task in between."""
        passage = self._passage
        progress = self.progress
        if passage is None or progress is None:
            return True
        if self._beginning is not None:
            return self._begin(self._beginning, passage, progress, data)
        out = passage.feed(data)
        now = time.monotonic()
        if passage.moved:
            progress.since = now
        if passage.failed is not None:
            self._last = self.blank.body(out)
            return True
        if passage.done or passage.finish is not None:
            self._last = out
            return True
        if out:
            self.responder.piece(out, now)
        return False

    def _begin(self, beginning: ResponseBeginning, passage: StreamPath, progress: ProgressLimit, data: bytes) -> bool:
        """As `_pass_on`, for an answer of which the client has nothing yet."""
        if not beginning.known and beginning.is_bare(data):
            return True
        out = passage.feed(data)
        if passage.moved:
            progress.since = time.monotonic()
            progress.began()
        self._say(passage, out)
        return _is_over(passage) or beginning.too_long

    async def _last_words(self, response: UpstreamResponse, passage: StreamPath) -> None:
        """Once the answer is over, how the upstream goes on is of no interest, nor whether it ends."""
        until, behind = time.monotonic() + AFTERWARDS_SECONDS, 0
        more = True
        while more and not passage.done:
            if not response.complete:
                self._send()
            over = _is_over(passage)
            data = await (_rest(response, until) if over else response.chunk())
            behind += len(data) if over else 0
            more = bool(data) and behind <= AFTERWARDS_BYTES
            out = passage.feed(data) if more else passage.close()
            if out:
                # Nothing of the answer itself, of which not a letter may change, comes after its end.
                self._say(passage, self.blank.body(out) if over else out)

    def _say(self, passage: StreamPath, out: bytes) -> None:
        """To the client, or for later if no content has come yet."""
        if passage.failed is not None:
            out = self.blank.body(out)
        beginning = self._beginning
        if beginning is None:
            self._send(out)
            return
        beginning.hold(out)
        if passage.started and beginning.held:
            self._speak(passage)

    def _speak(self, passage: StreamPath) -> None:
        """Content has come, or the answer is over without: from here on the answer is this one."""
        beginning, self._beginning = self._beginning, None
        if beginning is None:
            return
        if passage.started:
            self.record.ttft_ms = milliseconds(self.responder.since)
        elif passage.failed is not None:
            raise UpstreamFailure(passage.failed.failure)
        self._commit(self._response, self.request_losses)
        self._send(b"".join(beginning.held))
        if not passage.done and self._response is not None:
            self.responder.follow(self._response.hold)

    def _send(self, out: bytes = b"") -> None:
        """This, after what was kept back."""
        out, self._last = self._last + out, b""
        if out:
            self.spoken = True
            self.responder.send(out)

    def _finish(self, passage: StreamPath, attempt: Outbound) -> Answered:
        self.record.answered(passage.usage, [*attempt.losses, *passage.losses])
        self.record.empty = passage.finish is not None and not passage.has_content
        failure = self.blank.failure(passage.failed.failure) if passage.failed is not None else None
        if failure is not None:
            self.record.failed(failure)
        self.responder.end(self._last)
        if isinstance(passage, StreamTranslator):
            self._keep(attempt, passage.snapshot)
        continued = passage.response_id if isinstance(passage, PassThrough) else ""
        return Answered(usage=passage.usage, response_id=continued, failure=failure)

    def _keep(self, attempt: Outbound, body: dict[str, Json]) -> None:
        """Items of an answer that the client did not ask us to forget."""
        asked = attempt.exchange.body if attempt.exchange else {}
        if codec(self.call.client).endpoint.continues and asked.get("store") is not False:
            self._services.items.put(self.call.key_name, body.get("output") or [], time.monotonic())

    def _commit(self, response: UpstreamResponse | None, losses: list[Loss]) -> None:
        if not self.responder.started:
            kept = kept_headers(response) if response is not None else []
            self.responder.start(200, [*SSE_HEADERS, *kept, *loss_header(loss_codes(losses))])

    def last_write(self) -> float:
        """When the client last got something."""
        return self.responder.last_write_at

    def keepalive(self) -> None:
        """A sign of life. The first one commits the answer, if nothing else has."""
        if self.responder.busy or self.responder.ended:
            return
        self._commit(None, self.request_losses)
        passage = self._passage if self.spoken else None
        self.responder.send(passage.keepalive() if passage else b": keepalive\n\n")

    def tells_in_band(self, error: UpstreamError) -> bool:
        """Whether clients understand this failure only inside a stream, even if that has to begin with it."""
        client = self.call.client
        return self.call.stream and failure_of(error, client).kind in codec(client).streamed_failures

    def fail_in_band(self, error: UpstreamError) -> None:
        """Tell a client inside the stream that its answer will not be complete."""
        failure = for_client(failure_of(error, self.call.client))
        self.record.failed(failure)
        self._commit(None, self.request_losses)
        # Of an answer that was held back the client knows nothing: the error stands for itself.
        passage = self._passage if self.spoken else None
        out = b"" if passage is None or passage.done else passage.fail(UpstreamFailure(failure))
        if passage is None:
            out = codec(self.call.client).encoder(self._own_reply()).encode([Failed(failure)])
        self.responder.end(self._last + out)

    def _passage_for(self, upstream: Protocol, attempt: Outbound) -> StreamPath:
        if attempt.exchange is None:
            return (RenamingPassThrough if attempt.renamed else PassThrough)(upstream, self._reply())
        return StreamTranslator(
            source=upstream, target=self.call.client, exchange=attempt.exchange, stamp=self._stamp()
        )

    def _stamp(self) -> Stamp:
        """When and under which name the answer was given: the same in all its parts."""
        if self._stamped is None:
            name = self.call.request_id
            self._stamped = Stamp(now=int(time.time()), clock=time.time, seed=name, request_id=name)
        return self._stamped

    def _own_reply(self) -> Reply:
        """For an answer that is nobody's but ours: it echoes the request as translated ones do."""
        stamp = self._stamp()
        return Reply(
            body=parse_request(self.call.body),
            model=self.call.model,
            created=stamp.now,
            clock=stamp.clock,
            seed=stamp.seed,
            request_id=stamp.request_id,
        )

    def _reply(self) -> Reply:
        stamp = self._stamp()
        return Reply(
            model=self.call.model,
            created=stamp.now,
            seed=stamp.seed,
            request_id=stamp.request_id,
            source=self.call.client,
        )


async def error_body(response: UpstreamResponse) -> bytes:
    """The words of an error; none if they do not come, do not end, or cannot be read: then its status has to do."""
    if dict(response.headers).get("content-encoding", "").lower() not in ("", "identity"):
        return b""
    try:
        async with asyncio.timeout(ERROR_SECONDS):
            return (await response.read(MAX_ERROR_BYTES)).removeprefix(BOM_UTF8)
    except (UpstreamError, TimeoutError):
        return b""


def _is_over(passage: StreamPath) -> bool:
    """The answer has come to its end, good or bad. Whether the stream has is another question."""
    return passage.done or passage.finish is not None or passage.failed is not None


async def _rest(response: UpstreamResponse, until: float) -> bytes:
    """What comes behind the end, if it comes until then; whatever happens to it."""
    if response.complete:
        return await response.chunk()
    try:
        async with asyncio.timeout(until - time.monotonic()):
            return await response.chunk()
    except (UpstreamError, TimeoutError):
        return b""


def kept_headers(response: UpstreamResponse) -> Headers:
    """What an upstream says about limits is worth knowing; everything else it says is between it and us."""
    return [(kept, value.encode("latin-1", "replace")) for name, value in response.headers if (kept := _kept(name))]


@lru_cache(1024)
def _kept(name: str) -> bytes:
    """The name of a header that is passed on; empty of others. Upstreams send the same few with every answer."""
    return name.encode("latin-1") if name.startswith(_KEPT) else b""


def loss_header(codes: tuple[str, ...]) -> Headers:
    """What was lost, for the client."""
    return [(b"trilogue-loss", ", ".join(codes).encode("latin-1"))] if codes else []
