"""What all stream decoders share: bytes to SSE events, block numbering, and how a stream may end.

A decoder never raises because of what an upstream sent. Whatever is wrong with a stream comes out as one `Failed`
event; after `Finish` or `Failed` everything else is ignored.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from trilogue.errors import (
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTruncated,
)
from trilogue.jsontext.surrogates import SurrogateJoiner
from trilogue.jsontext.text import parse_upstream
from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    Delta,
    Event,
    Failed,
    Finish,
    Json,
    Opaque,
    Protocol,
    ReasoningDelta,
)
from trilogue.protocols.failure.convert import failure_of
from trilogue.protocols.stream.repeated import RepeatedEvent, learn
from trilogue.sse import SseEvent, SseParser

_LESSONS = 3
"""forms of the same event that are learnt one after the other: a server that has more is not worth the while"""
_MOST_NOTED = 100
"""fields that nobody knows, of one place; a server that makes up names must not fill the memory"""

MOST_TEXT = 16 * 1024 * 1024
"""Signs of one streamed answer: text, reasoning and arguments. Much of it is kept until the end, and the stream of a
Responses client then says it four times more. No model says a tenth as much in one answer.
"""
PIECE = 8
"""signs that each piece counts for besides its own: it takes memory for itself"""


def too_long() -> UpstreamProtocolError:
    """The failure of an answer that goes on and on."""
    return UpstreamProtocolError(f"the answer is longer than {MOST_TEXT} characters")


class StreamDecoder:
    """Base: feed bytes, get model events. Subclasses say what an SSE event means."""

    protocol: ClassVar[Protocol]

    def __init__(self) -> None:
        self._sse = SseParser()
        self._joiner: SurrogateJoiner | None = None
        self._out: list[Event] = []
        self._blocks = 0
        self._beside: dict[str, dict[str, Json]] = {}
        self.shape: RepeatedEvent | None = None
        """what an event looks like that does nothing but add to the block that the last one added to, if that is known

        Who has found a text with it must not feed the event; who goes by what is decoded must say what has `passed`.
        """
        self.sample: Delta | ReasoningDelta = Delta(-1, "")
        """the event that the shape was learnt from: those of this shape mean the same but for their text"""
        self._missed = 0
        self.sound = 0
        """how many events of the last bytes were understood before one that was not, if one was not"""
        self.done = False
        """a `Finish` or `Failed` has been given out"""

    def feed(self, data: bytes) -> list[Event]:
        """The model events that these bytes complete."""
        if self.done:
            return []
        fresh = self._sse.at_rest
        sound = 0
        try:
            for event in self._sse.feed(data):
                try:
                    self.handle(event)
                except UpstreamProtocolError as error:
                    self._handle_mended(event, error)
                if self.done:
                    break
                sound += 1
        except UpstreamError as error:
            self.sound = sound
            self.fail(error)
        events, self._out = self._out, []
        only = events[0] if len(events) == 1 else None
        if self._sse.at_rest and (type(only) is Delta or type(only) is ReasoningDelta):
            self._learn(data, only, fresh=fresh)
        elif events or not self._sse.at_rest:
            # Something else has happened.
            self.shape = None
        return events

    def _learn(self, data: bytes, event: Delta | ReasoningDelta, *, fresh: bool) -> None:
        """Remember what an event looks like that adds to a block."""
        if self.shape is None or self.more(event.text) != event:
            self.sample, self._missed = event, 0
            self.shape = self._shape_of(data, event) if fresh else None
        elif fresh and self._missed < _LESSONS:
            self._missed += 1
            self.shape = self._shape_of(data, event) or self.shape

    def _shape_of(self, data: bytes, event: Delta | ReasoningDelta) -> RepeatedEvent | None:
        return learn(data, event.text) if self.flows(event) else None

    def more(self, text: str) -> Event:
        """What an event of the known shape means that has this text."""
        sample = self.sample
        if isinstance(sample, ReasoningDelta):
            return ReasoningDelta(sample.index, text, sample.part, sample.raw)
        return Delta(sample.index, text)

    def feed_event(self, name: str, data: bytes) -> list[Event]:
        """As `feed`, for transports that frame events in another way than SSE."""
        if self.done:
            return []
        try:
            self.handle(SseEvent(name, data))
        except UpstreamError as error:
            self.fail(error)
        return self._flush()

    def _handle_mended(self, event: SseEvent, error: UpstreamProtocolError) -> None:
        """An event that was not understood. A ping and one without data say nothing, as for official clients; a text
        may hold a character that was cut in half. Raises the error if it is none of these.
        """
        if event.event == "ping" or not event.data.strip():
            return
        self._joiner = self._joiner or SurrogateJoiner()
        joined = self._joiner.join(event.data)
        if joined is None:
            raise error
        self.handle(SseEvent(event.event, joined))

    def close(self) -> list[Event]:
        """The upstream has ended: what is left, then a finish or a failure if there was none yet."""
        if self.done:
            return []
        try:
            for event in self._sse.close():
                self._handle_cut(event)
            if not self.done:
                self.handle_end()
        except UpstreamError as error:
            self.fail(error)
        return self._flush()

    def flows(self, event: Delta | ReasoningDelta) -> bool:
        """Whether events like the one just given out change nothing here but what `passed` notes."""
        raise NotImplementedError

    def passed(self, text: str) -> None:
        """The shape was enough to find this text: note what later events depend on."""

    def handle(self, event: SseEvent) -> None:
        """One SSE event. Raises UpstreamError for what the protocol does not allow."""
        raise NotImplementedError

    def handle_end(self) -> None:
        """End of stream before a terminal event: finish if the protocol allows that, else raise UpstreamTruncated."""
        raise NotImplementedError

    def fail(self, error: UpstreamError) -> None:
        """End the answer with a failure."""
        self.end(Failed(failure_of(error, self.protocol)))

    def emit(self, event: Event) -> None:
        """Give out one event."""
        self._out.append(event)

    def note(self, place: str, fields: dict[str, Json]) -> None:
        """Keep fields that nobody knows, and that belong to no block, until the answer ends."""
        noted = self._beside.setdefault(place, {})
        if len(noted) < _MOST_NOTED:
            noted.update(fields)

    def end(self, event: Event) -> None:
        """Give out the last event."""
        if self._beside and isinstance(event, Finish):
            event = replace(event, unknown_fields=self._beside)
        self._out.append(event)
        self.done = True

    def start_block(self, block: Block) -> int:
        """Open a block and give it the next index."""
        index = self._blocks
        self._blocks += 1
        self._out.append(BlockStart(index, block))
        return index

    def stop_block(self, index: int, opaque: Opaque | None = None, block: Block | None = None) -> None:
        """Close a block."""
        self._out.append(BlockStop(index, opaque, block))

    def whole_block(self, block: Block) -> None:
        """A block that came complete."""
        self.stop_block(self.start_block(block))

    def _handle_cut(self, event: SseEvent) -> None:
        """The last event came without its blank line. It counts if it is whole, and is a truncation if not."""
        if event.data.strip() != b"[DONE]":
            try:
                parse_upstream(event.data)
            except UpstreamProtocolError:
                raise UpstreamTruncated("the stream ended inside an event") from None
        self.handle(event)

    def _flush(self) -> list[Event]:
        out, self._out = self._out, []
        return out
