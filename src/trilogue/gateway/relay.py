"""One call from admission to its last byte: send, look whether the upstream has really started, relay.

Until content has come nothing is committed: an upstream that fails by then gives the client an HTTP error. From then
on, or once silence has lasted so long that the client needs a sign of life, errors are told inside the stream.
"""

from __future__ import annotations

import asyncio
import time

from msgspec import Struct

from trilogue.errors import UpstreamError, UpstreamFailure, UpstreamProtocolError
from trilogue.gateway.call import Call
from trilogue.gateway.failures import upstream_failure
from trilogue.gateway.heart import Progress
from trilogue.gateway.http import Headers, Responder
from trilogue.gateway.items import ItemStore
from trilogue.gateway.outbound import Outbound
from trilogue.gateway.passage import Passage, PassThrough
from trilogue.gateway.record import Record
from trilogue.gateway.redact import redacted
from trilogue.gateway.services import Limits
from trilogue.model import Failed, Failure, FailureKind, Json, Loss, Protocol, Usage
from trilogue.pool import reset_delay, with_headers
from trilogue.protocols.decoding import failure_of
from trilogue.protocols.jsontext import dump, parse_upstream
from trilogue.protocols.registry import codec
from trilogue.protocols.reply import Reply
from trilogue.state import steady_time
from trilogue.translate.responses import Stamp, StreamTranslator, collect_stream, translate_response
from trilogue.upstream import UpstreamResponse

SSE_HEADERS: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]
JSON_HEADERS: Headers = [(b"content-type", b"application/json")]

MAX_ERROR_BYTES = 1024 * 1024
AFTERWARDS_SECONDS = 0.5
"""what an upstream may still send after its terminal event"""
_KEPT = ("x-ratelimit-", "anthropic-ratelimit-", "openai-processing-ms", "openai-version")


class Answered(Struct, frozen=True, kw_only=True):
    """What came of an answer that the client has got, or as much of it as there was: `failure` is how it broke off.

    `response_id`: by which a client can continue it at this very upstream.
    """

    usage: Usage | None = None
    response_id: str = ""
    failure: Failure | None = None


class Relay:
    """The answer to one call, from one upstream response at a time."""

    def __init__(self, call: Call, responder: Responder, record: Record, stamp: Stamp, limits: Limits) -> None:
        self.call = call
        self.responder = responder
        self.record = record
        self._stamp = stamp
        self._limits = limits
        self._passage: Passage | None = None
        self.spoken = False
        """the client has got more of an answer than signs of life: nobody else can answer now"""
        self.progress: Progress | None = None
        """the clock on the upstream's events"""
        self.request_losses: list[Loss] = []
        """what the request under way has lost"""
        self.items: ItemStore | None = None
        """keeps what the client may refer to later"""

    async def answer(self, response: UpstreamResponse, upstream: Protocol, attempt: Outbound) -> Answered:
        """Relay one upstream response. Raises UpstreamError; `spoken` tells whether the client has a part of it."""
        if response.status >= 400:
            body = redacted(await response.read(MAX_ERROR_BYTES), attempt.request.headers)
            failure = codec(upstream).decode_error(response.status, dict(response.headers), body)
            if failure.kind is FailureKind.RATE_LIMIT:
                failure = with_headers(failure, reset_delay(dict(response.headers), steady_time()))
            raise UpstreamFailure(failure)
        if response.status >= 300:
            raise UpstreamProtocolError(
                f"the upstream answered with a redirect ({response.status}), not with an answer"
            )
        if self.call.stream:
            return await self._stream(response, upstream, attempt)
        return await self._whole(response, upstream, attempt)

    async def _whole(self, response: UpstreamResponse, upstream: Protocol, attempt: Outbound) -> Answered:
        body = await response.read(self._limits.max_body_bytes)
        losses = list(attempt.losses)
        if _content_type(response).startswith("text/event-stream") or _is_stream(body):
            # Some servers stream whatever they are asked for.
            body = dump(collect_stream(body, protocol=upstream))
        wire = parse_upstream(body)
        if attempt.exchange is None:
            answer = codec(upstream).decode_response(wire)
        else:
            down = translate_response(
                wire, source=upstream, target=self.call.client, exchange=attempt.exchange, stamp=self._stamp
            )
            answer, body = down.response, dump(down.body)
            losses += down.losses
            self._keep(attempt, down.body)
        self.record.answered(answer.usage, losses)
        headers = [*JSON_HEADERS, *kept_headers(response), *loss_header(losses)]
        self.spoken = True
        await self.responder.reply(200, headers, body)
        return Answered(usage=answer.usage, response_id="" if attempt.exchange else answer.id)

    async def _stream(self, response: UpstreamResponse, upstream: Protocol, attempt: Outbound) -> Answered:
        passage = self._passage = self._passage_for(upstream, attempt)
        held: list[bytes] = []
        content_type = _content_type(response)
        if content_type.startswith("text/html"):
            raise UpstreamProtocolError("the upstream answered with a web page")
        if content_type.startswith("application/json"):
            held.append(await self._labelled_json(response, passage))
        while not passage.done:
            data = await _next(response, passage)
            out = passage.feed(data) if data else passage.close()
            if passage.moved and self.progress is not None:
                self.progress.moved()
            if passage.started and self.record.first_token is None:
                self.record.first_token = time.monotonic()
            if self.spoken or passage.started:
                await self._commit(response, attempt.losses)
                await self._write(held, out)
            elif passage.failed is not None:
                raise UpstreamFailure(passage.failed.failure)
            else:
                held.append(out)
            if not data:
                break
        return await self._finish(passage, held, response, attempt)

    async def _labelled_json(self, response: UpstreamResponse, passage: Passage) -> bytes:
        """A whole answer, or the beginning of a stream that a server gave the wrong name."""
        first = await response.chunk()
        if _is_stream(first):
            return passage.feed(first)
        return passage.whole(parse_upstream(first + await response.read(self._limits.max_body_bytes)))

    async def _write(self, held: list[bytes], out: bytes) -> None:
        if held:
            out = b"".join(held) + out
            held.clear()
        if out:
            self.spoken = True
            await self.responder.write(out)

    async def _finish(
        self, passage: Passage, held: list[bytes], response: UpstreamResponse, attempt: Outbound
    ) -> Answered:
        if not self.spoken:
            if passage.failed is not None:
                raise UpstreamFailure(passage.failed.failure)
            await self._commit(response, attempt.losses)
        await self._write(held, b"")
        self.record.answered(passage.usage, [*attempt.losses, *passage.losses])
        failure = passage.failed.failure if passage.failed is not None else None
        if failure is not None:
            self.record.failed(failure)
        await self.responder.end()
        if isinstance(passage, StreamTranslator):
            self._keep(attempt, passage.snapshot)
        continued = passage.response_id if isinstance(passage, PassThrough) else ""
        return Answered(usage=passage.usage, response_id=continued, failure=failure)

    def _keep(self, attempt: Outbound, body: dict[str, Json]) -> None:
        """Items of an answer that the client did not ask us to forget."""
        asked = attempt.exchange.body if attempt.exchange else {}
        if self.items is not None and self.call.client is Protocol.RESPONSES and asked.get("store") is not False:
            self.items.put(self.call.key_name, body.get("output") or [], time.monotonic())

    async def _commit(self, response: UpstreamResponse | None, losses: list[Loss]) -> None:
        if not self.responder.started:
            kept = kept_headers(response) if response is not None else []
            await self.responder.start(200, [*SSE_HEADERS, *kept, *loss_header(losses)])

    def last_write(self) -> float:
        """When the client last got something."""
        return self.responder.last_write_at

    async def keepalive(self) -> None:
        """A sign of life. The first one commits the answer, if nothing else has."""
        if self.responder.busy or self.responder.ended:
            return
        await self._commit(None, self.request_losses)
        passage = self._passage if self.spoken else None
        await self.responder.write(passage.keepalive() if passage else b": keepalive\n\n")

    async def fail_in_band(self, error: UpstreamError) -> None:
        """Tell a client whose answer has begun that it will not be complete."""
        failure = upstream_failure(failure_of(error, self.call.client))
        self.record.failed(failure)
        # Of an answer that was held back the client knows nothing: the error stands for itself.
        passage = self._passage if self.spoken else None
        out = b"" if passage is None or passage.done else passage.fail(UpstreamFailure(failure))
        if passage is None:
            out = codec(self.call.client).encoder(self._reply()).encode([Failed(failure)])
        await self.responder.end(out)

    def _passage_for(self, upstream: Protocol, attempt: Outbound) -> Passage:
        if attempt.exchange is None:
            return PassThrough(upstream, self._reply())
        return StreamTranslator(source=upstream, target=self.call.client, exchange=attempt.exchange, stamp=self._stamp)

    def _reply(self) -> Reply:
        return Reply(
            model=self.call.model,
            created=self._stamp.now,
            seed=self._stamp.seed,
            request_id=self._stamp.request_id,
            source=self.call.client,
        )


def _content_type(response: UpstreamResponse) -> str:
    return dict(response.headers).get("content-type", "").lower()


def _is_stream(body: bytes) -> bool:
    """Whether a body begins as events do, whatever it is called."""
    return body[:64].lstrip(_BLANK).startswith((b"data:", b"event:", b":"))


_BLANK = b"\xef\xbb\xbf \r\n"


async def _next(response: UpstreamResponse, passage: Passage) -> bytes:
    """The next bytes. Once the answer is complete, how the upstream goes on is of no interest, nor whether it ends."""
    if passage.finish is None:
        return await response.chunk()
    try:
        async with asyncio.timeout(AFTERWARDS_SECONDS):
            return await response.chunk()
    except (UpstreamError, TimeoutError):
        return b""


def kept_headers(response: UpstreamResponse) -> Headers:
    """What an upstream says about limits is worth knowing; everything else it says is between it and us."""
    return [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in response.headers
        if name.startswith(_KEPT)
    ]


def loss_header(losses: list[Loss]) -> Headers:
    """The codes of what was lost, each once, in order."""
    codes = dict.fromkeys(loss.code for loss in losses)
    return [(b"trilogue-loss", ", ".join(codes).encode("latin-1"))] if codes else []
