"""Translation of streamed responses from any protocol to any other, event by event."""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.base.json_text import SUSPECT, blame
from trilogue.errors import UpstreamError, UpstreamProtocolError
from trilogue.model import (
    BlockStart,
    Delta,
    Event,
    Failed,
    Finish,
    Json,
    Loss,
    Protocol,
    Reasoning,
    ReasoningDelta,
    ResponseStart,
    Stop,
    StopReason,
    Usage,
    events_of,
    protocol_of,
)
from trilogue.protocols.failure import failure_of
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.decoder import MOST_TEXT, PIECE, too_long
from trilogue.protocols.stream.repeated_deltas import RepeatedText
from trilogue.protocols.stream.response_context import Reply
from trilogue.translate.content.continuation import Find, PauseStage, SearchStage
from trilogue.translate.content.usage import UsageCounter
from trilogue.translate.pipeline import Exchange, Pipeline, ResponsePolicies, unsigned
from trilogue.translate.reasoning.kept import KeptReasoning
from trilogue.translate.responses import Stamp, reply_of


class StreamTranslator:
    """A translator for one streamed response: feed it the upstream's bytes, and send the client what it returns.

    If an upstream is cut off, sends invalid data, sends more than the limit or reports an error, the client gets an
    error in its own protocol, never an invented end. `done` is set once the client has its last event; the upstream is
    not needed any more then.

    `continues`: the caller continues a response that the upstream has paused: it is `paused` and `finish` is set until
    `resume` is called, or `end_paused` if it is not to be continued.

    `policies`: what judges the response, usually a `policies.PolicyRun`. What it holds is not returned yet: call
    `release` with the events that it lets go on later.
    """

    def __init__(
        self,
        *,
        source: Protocol | str,
        target: Protocol | str,
        exchange: Exchange | None = None,
        stamp: Stamp | None = None,
        continues: bool = False,
        policies: ResponsePolicies | None = None,
    ) -> None:
        if type(source) is not Protocol or type(target) is not Protocol:
            source, target = protocol_of(source), protocol_of(target)
        reply = reply_of(source, exchange, stamp or Stamp())
        self._source = source
        self._foreign = source is not target
        self._counter = UsageCounter(reply, target)
        self._ledger = reply.ledger
        self._decoder = CODECS[source].decoder()
        self._repeated = RepeatedText(self._decoder)
        self._encoder = CODECS[target].encoder(reply)
        self._pipeline = Pipeline(source, target, exchange, reply.ledger)
        self._pauses = PauseStage() if continues else None
        self._search: SearchStage | None = None
        self._exchange = exchange
        self._target = target
        self._policies = policies
        if policies is not None:
            policies.attach(reply.ledger, unsigned(source, target, exchange), target)
        self._stop_path = reply.stop_path(Stop(reason=StopReason.PAUSE))
        self._room = MOST_TEXT
        """the number of characters that the response may still have"""
        self.done = False
        self.moved = False
        """whether the last bytes completed an event, so that the upstream makes progress"""
        self.started = False
        """whether the first block has started, or the response ended without one"""
        self.has_content = False
        """whether there was content other than reasoning"""
        self.start: ResponseStart | None = None
        """the start of the response, once it has come"""
        self.finish: Finish | None = None
        """the end of a complete response"""
        self.failed: Failed | None = None
        """the end of a response that failed"""

    def answer_searches(self, find: Find) -> None:
        """Answer the model's searches with this function, for a request whose translation was asked for `searches`.

        Call this before anything else. A response in which the model has only searched is paused, like one that
        `continues`. The next request is that of the client with `so_far` at its end.
        """
        exchange, form = self._exchange, CODECS[self._target].tools.search
        if exchange is not None and exchange.search is not None and form is not None:
            self._search = SearchStage(exchange.search, form, exchange.names, find, self._ledger)
            self._pauses = self._search

    @property
    def losses(self) -> list[Loss]:
        """All losses of the response so far."""
        return self._ledger.losses

    @property
    def usage(self) -> Usage | None:
        """The usage of the response once it is complete, else None."""
        return self.finish.usage if self.finish else None

    @property
    def kept(self) -> KeptReasoning | None:
        """The reasoning that the next request needs, once the response is complete, if the exchange asks for it."""
        return self._pipeline.kept

    @property
    def paused(self) -> bool:
        """Whether the upstream has paused the response."""
        return self._pauses is not None and self._pauses.paused is not None and not self.done

    def resume(self) -> None:
        """Expect the stream that continues a paused response."""
        if self._pauses is not None:
            self._pauses.resume()
            self.finish = None
            self._decoder = CODECS[self._source].decoder()
            self._repeated = RepeatedText(self._decoder)

    def end_paused(self) -> bytes:
        """Return the end of a paused response that is not continued: it is cut short, which is declared."""
        paused = self._pauses.paused if self._pauses is not None else None
        if self._pauses is None or paused is None:
            return b""
        self._pauses.paused = self.finish = None
        if self._search is not None:
            return self._relay([self._search.end(paused, CODECS[self._target].turns.pauses is not None)])
        self._ledger.add("stop.pause_turn", self._stop_path)
        return self._relay([replace(paused, stop=replace(paused.stop, reason=StopReason.LENGTH))])

    def so_far(self) -> dict[str, Json]:
        """Return the response of the client so far, in its own protocol, for the request that continues it.

        It also has the reasoning that the client has not asked for: the model needs it to go on.
        """
        if self._search is None:
            return {}
        return CODECS[self._target].encode_response(self._search.so_far(self._source), Reply(source=self._source))

    @property
    def snapshot(self) -> dict[str, Json]:
        """The complete response as the client got it, if its protocol's stream ends with that; else empty."""
        return self._encoder.snapshot

    def feed(self, data: bytes) -> bytes:
        """Return the bytes for the client that these bytes of the upstream lead to."""
        if self.done:
            return b""
        repeated = self._repeated
        form = repeated.form
        # Most events differ from the last one only in their text, which is found without parsing.
        text = "" if form is None else form.take(data)
        if not text:
            events = repeated.feed(data)
            self.moved = bool(events)
            return self._relay(events) if events else b""
        self.moved = True
        pipeline = self._pipeline
        if repeated.event.index == pipeline.direct and self._room > 0:
            self._counter.characters += len(text)
            if self._policies is not None:
                self._room -= len(text) + PIECE
                return self.release(self._policies.feed([repeated.more(text)]))
            # No step changed the last delta of this block, so none changes this one.
            if type(repeated.event) is Delta:
                self._room -= len(text) + PIECE
                return self._encoder.encode_text(text)
            if not pipeline.takes_reasoning:
                self._room -= len(text) + PIECE
                return self._encoder.encode([repeated.more(text)])
        return self._relay([repeated.more(text)])

    def feed_event(self, name: str, data: bytes) -> bytes:
        """Return the bytes for the client for one event, for transports that do not frame events as SSE."""
        return b"" if self.done else self._relay(self._decoder.feed_event(name, data))

    def whole(self, body: dict[str, Json]) -> bytes:
        """Return a complete response as a stream, for an upstream that was asked for a stream and did not send one."""
        if self.done:
            return b""
        try:
            return self._relay(list(events_of(CODECS[self._source].decode_response(body))))
        except SUSPECT:
            blame(body, UpstreamProtocolError)
            raise

    def close(self) -> bytes:
        """Return the rest of the response at the end of the upstream's stream, or an error if it was not complete."""
        return b"" if self.done else self._relay(self._decoder.close())

    def fail(self, error: UpstreamError) -> bytes:
        """Return the client's form of an error of the connection to the upstream. What policies hold is dropped."""
        if self.done:
            return b""
        if self._policies is not None:
            self._policies.close()
        return self._encode([Failed(failure_of(error, self._source))])

    def release(self, events: list[Event]) -> bytes:
        """Return the bytes for events that the policies let go on."""
        if self.done or not events:
            return b""
        last = events[-1]
        # If a policy has stopped the response, the upstream's own figures are missing.
        if type(last) is Finish and (self._foreign or (self._policies and self._policies.stopped)):
            events[-1] = replace(last, usage=self._counter.complete(last.usage))
        try:
            return self._encode(events)
        except UpstreamError as error:
            return self.fail(error)

    def keepalive(self) -> bytes:
        """Return bytes that keep the client's connection open while the upstream is silent."""
        return b"" if self.done else self._encoder.keepalive()

    def _relay(self, events: list[Event]) -> bytes:
        if self._pauses is not None:
            events = self._pauses(events)
            self.finish = self._pauses.paused
        for event in events:
            if type(event) is Delta or type(event) is ReasoningDelta:
                self._room -= len(event.text) + PIECE
        # An upstream that never ends would fill the memory.
        if self._room < 0:
            return self.fail(too_long())
        pipeline = self._pipeline
        if len(events) == 1 and type(events[0]) is Delta and events[0].index in (pipeline.direct, pipeline.steady):
            self._counter.characters += len(events[0].text)
            if self._policies is not None:
                return self.release(self._policies.feed(events))
            return self._encoder.encode(events)
        try:
            events = pipeline(events)
            if self._search is not None:
                self._search.note(events)
            self._counter.note(events)
            if self._policies is not None:
                return self.release(self._policies.feed(events))
            last = events[-1] if events else None
            # Clients of the same protocol get the upstream's own figures.
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
            elif type(event) is ResponseStart:
                self.start = event
            elif type(event) is Failed:
                self.done, self.failed = True, event
        return out
