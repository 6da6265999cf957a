"""Answers, from any protocol to any other: whole bodies and streams, through the same steps (`pipeline.py`)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import UpstreamError, UpstreamProtocolError
from trilogue.jsontext.text import SUSPECT, blame, parse_upstream
from trilogue.model import (
    BlockStart,
    Collector,
    Delta,
    Event,
    Failed,
    Finish,
    Json,
    Ledger,
    Loss,
    Protocol,
    Reasoning,
    ReasoningDelta,
    Response,
    Sequencer,
    Text,
    Usage,
    events_of,
    protocol_of,
)
from trilogue.protocols.failure.convert import failure_of
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.decoder import MOST_TEXT, PIECE, too_long
from trilogue.protocols.stream.reply import Reply
from trilogue.translate.content.usage import UsageCounter
from trilogue.translate.exchange import Exchange
from trilogue.translate.foreign import declare_answer
from trilogue.translate.pipeline import Pipeline


class ResponseTranslation(Struct, frozen=True):
    """A translated answer and what it lost."""

    body: dict[str, Json]
    losses: list[Loss]
    response: Response
    """the answer in neutral form, as the upstream gave it"""


class Stamp(Struct, frozen=True, kw_only=True):
    """What an answer's translation takes from outside, so that the same bytes give the same bytes.

    `now`: seconds, for protocols that show a time where the upstream gave none. `clock`: tells such seconds when an
    answer is complete; without one it is complete at `now`. `seed`: stands in for a missing id.
    """

    now: int = 0
    clock: Callable[[], float] | None = None
    seed: str = "0"
    request_id: str = ""


def translate_response(
    body: dict[str, Json] | bytes | str,
    *,
    source: Protocol | str,
    target: Protocol | str,
    exchange: Exchange | None = None,
    stamp: Stamp | None = None,
) -> ResponseTranslation:
    """Translate a whole answer from the upstream's protocol (`source`) to the client's (`target`).

    `exchange`: from the request's translation; without it tool names stay as they are and nothing is echoed.
    Raises `UpstreamError` if the body is not an answer of its protocol, `UpstreamFailure` if it is an error.
    """
    if type(source) is not Protocol or type(target) is not Protocol:
        source, target = protocol_of(source), protocol_of(target)
    wire = body if isinstance(body, dict) else parse_upstream(body, whole=True)
    reply = _reply(source, exchange, stamp or Stamp())
    reply.parsed = wire is not body and (exchange is None or exchange.parsed)
    try:
        answer = CODECS[source].decode_response(wire)
        told = _told(answer, target, exchange, reply.ledger)
        if source is not target:
            told = _with_usage(told, UsageCounter(reply, target))
        translated = CODECS[target].encode_response(told, reply)
    except SUSPECT:
        blame(wire, UpstreamProtocolError)
        raise
    return ResponseTranslation(translated, reply.ledger.losses, answer)


def _told(answer: Response, target: Protocol, exchange: Exchange | None, ledger: Ledger) -> Response:
    """The answer behind the steps between decoder and encoder, which take events."""
    source = answer.protocol
    if _is_plain(answer, exchange):
        # That saves an ordinary answer about a hundred calls, a third of all.
        if source is not target:
            declare_answer(answer, CODECS[source].response_fates, ledger)
        return answer
    collector = Collector()
    for event in Pipeline(source, target, exchange, ledger)(list(events_of(answer))):
        collector.feed(event)
    return collector.response()


def _with_usage(told: Response, counter: UsageCounter) -> Response:
    """The answer with what the upstream left out of its usage."""
    counter.note_whole(told)
    usage = counter.complete(told.usage)
    return told if usage is told.usage else replace(told, usage=usage)


def _is_plain(answer: Response, exchange: Exchange | None) -> bool:
    """Whether an answer is text that no step would change."""
    if not answer.blocks:
        return False
    for block in answer.blocks:
        if type(block) is not Text or block.citations:
            return False
    return exchange is None or not (exchange.stop or exchange.target.profile.think_tags)


class StreamTranslator:
    """Translates one streamed answer. Feed it the upstream's bytes as they come, send the client what comes back.

    An upstream that breaks off, sends nonsense, goes on without end or reports an error gives the client's own form of
    an error, never a made-up end. `done` is set when the client has its last event; then nobody needs the upstream.
    """

    def __init__(
        self,
        *,
        source: Protocol | str,
        target: Protocol | str,
        exchange: Exchange | None = None,
        stamp: Stamp | None = None,
    ) -> None:
        if type(source) is not Protocol or type(target) is not Protocol:
            source, target = protocol_of(source), protocol_of(target)
        reply = _reply(source, exchange, stamp or Stamp())
        self._source = source
        self._foreign = source is not target
        self._counter = UsageCounter(reply, target)
        self._ledger = reply.ledger
        self._decoder = CODECS[source].decoder()
        self._encoder = CODECS[target].encoder(reply)
        self._pipeline = Pipeline(source, target, exchange, reply.ledger)
        self._room = MOST_TEXT
        """for more of the answer"""
        self.done = False
        self.moved = False
        """the last bytes completed an event: the upstream makes progress"""
        self.started = False
        """content has come: the first block has begun, or the answer ended without one"""
        self.has_content = False
        """more than reasoning has come"""
        self.finish: Finish | None = None
        """how the answer ended, when it ended well"""
        self.failed: Failed | None = None
        """how the answer ended, when it did not"""

    @property
    def losses(self) -> list[Loss]:
        """What has been lost so far."""
        return self._ledger.losses

    @property
    def usage(self) -> Usage | None:
        """What the answer cost, once it is complete."""
        return self.finish.usage if self.finish else None

    @property
    def snapshot(self) -> dict[str, Json]:
        """The whole answer as the client got it, where its protocol's stream ends with that; else empty."""
        return self._encoder.snapshot

    def feed(self, data: bytes) -> bytes:
        """The client's bytes for these bytes of the upstream."""
        if self.done:
            return b""
        decoder = self._decoder
        shape = decoder.shape
        text = "" if shape is None else shape.text(data)
        if not text:
            events = decoder.feed(data)
            self.moved = bool(events)
            return self._relay(events) if events else b""
        self.moved = True
        decoder.passed(text)
        sample, pipeline = decoder.sample, self._pipeline
        if sample.index == pipeline.direct and self._room > 0:
            self._counter.said += len(text)
            # The usual event, and every step has seen one like it: none would change this one.
            if type(sample) is Delta:
                self._room -= len(text) + PIECE
                return self._encoder.more(text)
            if not pipeline.sums_up:
                self._room -= len(text) + PIECE
                return self._encoder.encode([decoder.more(text)])
        return self._relay([decoder.more(text)])

    def feed_event(self, name: str, data: bytes) -> bytes:
        """As `feed`, for transports that frame events in another way."""
        return b"" if self.done else self._relay(self._decoder.feed_event(name, data))

    def whole(self, body: dict[str, Json]) -> bytes:
        """A whole answer from an upstream that was asked for a stream: given out as one."""
        if self.done:
            return b""
        try:
            return self._relay(list(events_of(CODECS[self._source].decode_response(body))))
        except SUSPECT:
            blame(body, UpstreamProtocolError)
            raise

    def close(self) -> bytes:
        """The upstream has ended: the rest of the answer, or an error if it was not complete."""
        return b"" if self.done else self._relay(self._decoder.close())

    def fail(self, error: UpstreamError) -> bytes:
        """The connection to the upstream failed: the client's form of that error."""
        return b"" if self.done else self._encode([Failed(failure_of(error, self._source))])

    def keepalive(self) -> bytes:
        """Bytes that keep the client's connection open while the upstream is silent."""
        return b"" if self.done else self._encoder.keepalive()

    def _relay(self, events: list[Event]) -> bytes:
        for event in events:
            if type(event) is Delta or type(event) is ReasoningDelta:
                self._room -= len(event.text) + PIECE
        if self._room < 0:
            return self.fail(too_long())
        pipeline = self._pipeline
        if len(events) == 1 and type(events[0]) is Delta and events[0].index in (pipeline.direct, pipeline.steady):
            self._counter.said += len(events[0].text)
            return self._encoder.encode(events)
        try:
            events = pipeline(events)
            self._counter.note(events)
            last = events[-1] if events else None
            if type(last) is Finish and self._foreign:
                events[-1] = replace(last, usage=self._counter.complete(last.usage))
            return self._encode(events)
        except UpstreamError as error:
            return self.fail(error)

    def _encode(self, events: list[Event]) -> bytes:
        out = self._encoder.encode(events)
        for event in events:
            if type(event) is BlockStart:
                self.started = True
                self.has_content = self.has_content or type(event.block) is not Reasoning
            elif type(event) is Finish:
                self.started = self.done = True
                self.finish = event
            elif type(event) is Failed:
                self.done, self.failed = True, event
        return out


def collect_stream(data: bytes, *, protocol: Protocol | str) -> dict[str, Json]:
    """The whole answer that a recorded stream gives, in the same protocol.

    Raises `UpstreamTruncated` or `UpstreamFailure` if the stream does not hold a complete answer.
    """
    protocol = protocol_of(protocol)
    decoder = CODECS[protocol].decoder()
    collector, sequencer = Collector(), Sequencer()
    for events in (decoder.feed(data), decoder.close()):
        for event in sequencer.feed(events):
            collector.feed(event)
    return CODECS[protocol].encode_response(collector.response(), Reply(source=protocol))


def _reply(source: Protocol, exchange: Exchange | None, stamp: Stamp) -> Reply:
    return Reply(
        body=exchange.body if exchange else {},
        model=exchange.model if exchange else "",
        created=stamp.now,
        clock=stamp.clock,
        seed=stamp.seed,
        request_id=stamp.request_id,
        source=source,
        tokens=exchange.tokens if exchange else None,
    )
