"""The response to one client, over all attempts: what the client has got so far, and what may still follow.

As long as the client has no content, an upstream that fails gives it an HTTP error or another account's response. From
the first content on, or once a silent upstream made a keep-alive necessary, errors go into the stream. `LIFECYCLE` says
which step is possible when. What the upstream sends is read in `whole` and `streamed`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from enum import IntEnum, auto
from functools import lru_cache

from msgspec import Struct

from trilogue.base.json_text import dump, parse_request
from trilogue.base.sse import COMMENT, before_last_event
from trilogue.errors import InternalError, UpstreamError, UpstreamFailure
from trilogue.gateway.observer import Observers
from trilogue.gateway.record import RequestRecord
from trilogue.gateway.request.call import ModelCall
from trilogue.gateway.request.failures import for_client
from trilogue.gateway.response.attempt import UpstreamAttempt
from trilogue.gateway.response.pass_through import StreamPath
from trilogue.model import Failed, Failure, Loss, Usage, events_of, loss_header_value
from trilogue.net.client.interface import UpstreamResponse
from trilogue.net.server.responder import Headers, Responder
from trilogue.policies import PolicyRun
from trilogue.protocols.failure import failure_of
from trilogue.protocols.parts import digest
from trilogue.protocols.registry import CODECS, codec
from trilogue.protocols.stream.response_context import Reply
from trilogue.translate.learning.remedies import Remedy
from trilogue.translate.responses import Stamp

_NUMBERS = re.compile(rb'"sequence_number":\s*(\d+)')


class ResponseState(IntEnum):
    """What the client has got."""

    HOLDING = auto()
    """Nothing: what the upstream sends is held until there is content."""
    KEPT_ALIVE = auto()
    """Headers and keep-alives, but nothing of a response: another account may still respond."""
    STREAMING = auto()
    """The start of a stream, which only this attempt can continue."""
    ENDED = auto()
    """Everything."""


class ResponseStep(IntEnum):
    """What happens to a response."""

    ATTEMPT = auto()
    """An attempt begins."""
    KEEP_ALIVE = auto()
    """The upstream is silent, and the client gets a keep-alive."""
    COMMIT = auto()
    """The stream of this attempt has content, or is over: the client gets it."""
    REPLY = auto()
    """The client gets a whole response."""
    END = auto()
    """The client gets the end of the stream."""
    FAIL = auto()
    """The client gets an error inside the stream."""


_State, _Step = ResponseState, ResponseStep
LIFECYCLE: dict[ResponseState, dict[ResponseStep, ResponseState]] = {
    _State.HOLDING: {
        _Step.ATTEMPT: _State.HOLDING,
        _Step.KEEP_ALIVE: _State.KEPT_ALIVE,
        _Step.COMMIT: _State.STREAMING,
        _Step.REPLY: _State.ENDED,
        _Step.FAIL: _State.ENDED,
    },
    _State.KEPT_ALIVE: {
        _Step.ATTEMPT: _State.KEPT_ALIVE,
        _Step.KEEP_ALIVE: _State.KEPT_ALIVE,
        _Step.COMMIT: _State.STREAMING,
        _Step.FAIL: _State.ENDED,
    },
    _State.STREAMING: {
        _Step.KEEP_ALIVE: _State.STREAMING,
        _Step.END: _State.ENDED,
        _Step.FAIL: _State.ENDED,
    },
    _State.ENDED: {},
}


class ClientResponse(Struct, eq=False):
    """The response to one request."""

    call: ModelCall
    responder: Responder
    record: RequestRecord
    _observers: Observers
    state: ResponseState = ResponseState.HOLDING
    _attempt: UpstreamAttempt | None = None
    """the latest attempt"""
    _path: StreamPath | None = None
    """what the client's stream comes from, as soon as there is one"""
    _held_back: bytes = b""
    """the last piece of the stream, which is sent together with its end"""
    _stamp: Stamp | None = None
    _next_number: int = 0
    """the number of the next event, if its protocol numbers them and the end was dropped"""
    _declared: bool = False
    """the stream has the comment about its losses"""

    @property
    def streams(self) -> bool:
        """Whether the client gets a stream."""
        return self.call.stream

    @property
    def is_final(self) -> bool:
        """Whether the client has a part of a response, so that no other account can respond any more."""
        return self.state >= ResponseState.STREAMING

    def changed_for(self, failure: Failure) -> tuple[Remedy, ...] | None:
        """Change the request for another attempt after a failure; return what that shows of the model.

        None if there is nothing to change but parameters that the failure names.
        """
        return None

    def begin_attempt(self, attempt: UpstreamAttempt) -> None:
        """Make this attempt the one whose response the client will get, unless it fails early enough."""
        self._advance(ResponseStep.ATTEMPT)
        self._attempt = attempt

    def reply(self, attempt: UpstreamAttempt, losses: list[Loss], body: bytes) -> None:
        """Send a response that is not streamed, with the headers that the upstream sent and the losses."""
        self._advance(ResponseStep.REPLY)
        headers = [*JSON_HEADERS, *kept_headers(attempt.response, own_limits=self.call.own_limits)]
        if losses:
            self.record.declare(losses)
            headers += loss_header(losses)
        if self._observers.response_began is not None:
            self._observers.response_began(self.record)
        if self._observers.request_settled is not None and not self.record.settled:
            self._observers.request_settled(self.record)
        self.responder.reply(200, headers, body)

    def commit(self, attempt: UpstreamAttempt, path: StreamPath, held: bytes) -> None:
        """Start to stream the response of this attempt. `held`: its bytes so far."""
        self._advance(ResponseStep.COMMIT)
        self._path = path
        if path.started:
            self.record.content_at = time.monotonic()
            if self._observers.response_began is not None:
                self._observers.response_began(self.record)
        self._start(kept_headers(attempt.response, own_limits=self.call.own_limits))
        self.send(held)
        if not path.done:
            self.responder.follow(attempt.response.hold)

    def send(self, out: bytes = b"") -> None:
        """Send the piece that was held back, and then this one."""
        out, self._held_back = self._held_back + out, b""
        if out:
            self.responder.send(out)

    def hold_back(self, out: bytes) -> None:
        """Keep the last piece of a stream until its end: one write instead of two."""
        self._held_back = out

    def hold_more(self, out: bytes) -> None:
        """Keep this piece back as well."""
        self._held_back += out

    @property
    def held_back(self) -> bytes:
        """What will be sent with the end."""
        return self._held_back

    def drop_end(self) -> None:
        """Forget the end of a stream that the client must not get: an error takes its place."""
        numbers = _NUMBERS.findall(self._held_back)
        self._held_back, self._path = b"", None
        self._next_number = int(numbers[-1]) if numbers else 0

    def with_losses(self, out: bytes, losses: Sequence[Loss]) -> bytes:
        """Return the end of a stream with a comment that declares all losses, if the client wants one."""
        if self._declared or not out or not losses or not self.call.loss_comment:
            return out
        self._declared = True
        return before_last_event(out, loss_comment(losses))

    def settle(self) -> None:
        """Notify observers that the outcome is known, unless they know. Call this before the client gets the end."""
        if self._observers.request_settled is not None and not self.record.settled:
            self._observers.request_settled(self.record)

    def end(self) -> None:
        """End a stream, with the bytes that were held back for its end."""
        self._advance(ResponseStep.END)
        if self._observers.request_settled is not None and not self.record.settled:
            self._observers.request_settled(self.record)
        self.responder.end(self._held_back)
        # A path that policies judge refers back to this object.
        self._path = None

    def keepalive(self) -> None:
        """Send a keep-alive, unless the client is slow itself. The first one sends the headers, if nothing else has."""
        if self.responder.busy or self.responder.ended:
            return
        self._advance(ResponseStep.KEEP_ALIVE)
        self._start([])
        self.responder.send(COMMENT if self._path is None else self._path.keepalive())

    def must_fail_in_band(self, error: UpstreamError) -> bool:
        """Return whether clients understand this error only inside a stream, even as its first event."""
        client = self.call.client
        return self.streams and failure_of(error, client).kind in codec(client).turns.streamed_failures

    def fail_in_band(self, error: UpstreamError) -> None:
        """End the stream with an error."""
        self._advance(ResponseStep.FAIL)
        failure = for_client(failure_of(error, self.call.client), self.record)
        self.record.mark_failed(failure)
        self._start([])
        path = self._path
        if path is None:
            # The client knows nothing of a response that was held: the error is the whole stream.
            encoder = codec(self.call.client).encoder(self.own_reply())
            if self._next_number:
                encoder.resume(self._next_number)
            out = encoder.encode([Failed(failure)])
        else:
            out = b"" if path.done else path.fail(UpstreamFailure(failure))
        if self._observers.request_settled is not None and not self.record.settled:
            self._observers.request_settled(self.record)
        self.responder.end(self._held_back + self.with_losses(out, self.record.losses))
        self._path = None

    def stamp(self) -> Stamp:
        """Return the time and id of the response, which are the same in all of its parts."""
        if self._stamp is None:
            name, now, turn = self.call.request_id, time.time(), self.call.turn
            stored = turn is not None and turn.fields.stores
            kept = stored or (turn is not None and turn.connection is not None)
            # Upstreams may repeat their ids. One that begins with the time is found faster among many.
            identifier = f"resp_{int(now * 1000):012x}{digest(name, 6)}" if kept else ""
            self._stamp = Stamp(
                now=int(now), clock=time.time, seed=name, request_id=name, response_id=identifier, stored=stored
            )
        return self._stamp

    def _advance(self, step: ResponseStep) -> None:
        allowed = LIFECYCLE[self.state]
        if step not in allowed:
            raise InternalError(f"{step.name} is not possible for a response in state {self.state.name}")
        self.state = allowed[step]

    def _start(self, kept: Headers) -> None:
        """Send status and headers, unless a keep-alive already has. `kept`: headers of the upstream."""
        if not self.responder.started:
            losses = self._attempt.outbound.losses if self._attempt is not None else []
            self.responder.start(200, [*SSE_HEADERS, *kept, *loss_header(losses)])

    def own_reply(self) -> Reply:
        """Return what the encoder needs for a response that comes from the gateway alone."""
        stamp = self.stamp()
        return Reply(
            body=parse_request(self.call.sent),
            model=self.call.shown_model,
            created=stamp.now,
            clock=stamp.clock,
            seed=stamp.seed,
            request_id=stamp.request_id,
        )


SSE_HEADERS: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"connection", b"keep-alive"),
    # nginx would collect events and send them together.
    (b"x-accel-buffering", b"no"),
]
JSON_HEADERS: Headers = [(b"content-type", b"application/json")]
LOSS_HEADER = b"trilogue-loss"
LOSS_COMMENT = b": %b: " % LOSS_HEADER
"""how the comment about losses begins; the value of the header follows"""
_KEPT = ("x-ratelimit-", "anthropic-ratelimit-", "openai-processing-ms", "openai-version")


def kept_headers(response: UpstreamResponse, *, own_limits: bool = False) -> Headers:
    """Return the headers of an upstream that the client gets: those about limits. The others are for the gateway.

    `own_limits`: the client has limits here, which take the place of the upstream's.
    """
    if own_limits:
        return []
    return [(kept, value.encode("latin-1", "replace")) for name, value in response.headers if (kept := _kept(name))]


@lru_cache(1024)
def _kept(name: str) -> bytes:
    """Return the name of a header that is passed on, else b"". Cached: upstreams send the same few every time."""
    return name.encode("latin-1") if name.startswith(_KEPT) else b""


def loss_header(losses: Sequence[Loss]) -> Headers:
    """Return the header that declares losses to the client, with their paths; nothing if there are none."""
    return [(LOSS_HEADER, loss_header_value(losses).encode("ascii"))] if losses else []


def loss_comment(losses: Sequence[Loss]) -> bytes:
    """Return the comment that declares losses, as a part of a stream."""
    return b"%b%b\n\n" % (LOSS_COMMENT, loss_header_value(losses).encode("ascii"))


class WordsResponse(ClientResponse):
    """A response that comes from the gateway alone. No upstream is asked."""

    async def say(self, run: PolicyRun) -> None:
        """Send the words with which a policy has stopped the request, streamed or not. Raises StoreError."""
        call, stamp, codec = self.call, self.stamp(), CODECS[self.call.client]
        reply = self.own_reply()
        reply.response_id, reply.stored = stamp.response_id, stamp.stored
        if call.turn is not None:
            reply.body = call.turn.echoed(reply.body)
        words = run.words_response(call.client, id=stamp.response_id, model=call.shown_model, created=stamp.now)
        self.record.usage = Usage()
        self.record.declare(list(call.losses))
        if call.stream:
            encoder = codec.encoder(reply)
            out = encoder.encode(list(events_of(words)))
            await self._keep(dump(encoder.snapshot))
            self._advance(ResponseStep.COMMIT)
            self._start([])
            self._advance(ResponseStep.END)
            self.responder.end(out)
        else:
            body = dump(codec.encode_response(words, reply))
            await self._keep(body)
            self._advance(ResponseStep.REPLY)
            self.responder.reply(200, JSON_HEADERS, body)

    async def _keep(self, body: bytes) -> None:
        if self.call.turn is not None:
            await self.call.turn.keep(body, None)
