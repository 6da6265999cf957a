"""The base class of the stream decoders: bytes to SSE events, block numbers, and how a stream may end.

In: the bytes of an upstream's stream, in any split. Out: model events. The protocols' decoders know what an SSE event
means; nothing here does.

A decoder never raises because of what an upstream sent. Whatever is wrong with a stream comes out as one `Failed`
event. After `Finish` or `Failed` everything else is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from msgspec.structs import replace

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.base.json_text import SurrogateJoiner, parse_upstream
from trilogue.base.sse import SseEvent, SseParser
from trilogue.errors import UpstreamError, UpstreamProtocolError, UpstreamTruncated
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
from trilogue.protocols.failure import failure_of

_MAX_UNKNOWN = 100
"""how many unknown fields are kept per place, so that a server that invents names cannot fill the memory"""

MOST_TEXT = 16 * 1024 * 1024
"""The maximum number of characters of one streamed response: text, reasoning and arguments. Much of it is kept until
the end, and a Responses stream repeats it four times there. No model writes a tenth of that in one response.
"""
PIECE = 8
"""the number of characters that each piece counts for in addition to its text, because it takes memory of its own"""


_NO_EVENTS: frozenset[str] = frozenset()
NOTHING: frozenset[type[Block]] = frozenset()


def too_long() -> UpstreamProtocolError:
    """Return the error for a response with more than `MOST_TEXT` characters."""
    return UpstreamProtocolError(f"the response is longer than {MOST_TEXT} characters")


def ignore_text(text: str) -> None:
    """Do nothing: a `text_sink` for decoders that need not know the text."""


class StreamDecoder:
    """A decoder of one streamed response: feed it bytes, get model events. Subclasses implement `handle`."""

    protocol: ClassVar[Protocol]
    TEXT_EVENTS: ClassVar[frozenset[str]] = frozenset()
    """the names of the events that `take_text` should see; the empty name is for events without one"""

    def __init__(self) -> None:
        self.parser = SseParser()
        self._joiner: SurrogateJoiner | None = None
        self._text_events = self.TEXT_EVENTS if FAST_PATHS.on else _NO_EVENTS
        self._out: list[Event] = []
        self._blocks = 0
        self._unknown: dict[str, dict[str, Json]] = {}
        self.sound = 0
        """if the last bytes contained an invalid event, the number of valid events before it"""
        self.done = False
        """whether `Finish` or `Failed` has been returned"""

    def feed(self, data: bytes) -> list[Event]:
        """Return the model events that these bytes complete."""
        if self.done:
            return []
        sound = 0
        text_events = self._text_events
        try:
            for event in self.parser.feed(data):
                try:
                    if event.event not in text_events or not self.take_text(event):
                        self.handle(event)
                except UpstreamProtocolError as error:
                    self._handle_repaired(event, error)
                if self.done:
                    break
                sound += 1
        except UpstreamError as error:
            self.sound = sound
            self.fail(error)
        events, self._out = self._out, []
        return events

    def feed_event(self, name: str, data: bytes) -> list[Event]:
        """Return the model events of one event, for transports that do not frame events as SSE."""
        if self.done:
            return []
        try:
            self.handle(SseEvent(name, data))
        except UpstreamError as error:
            self.fail(error)
        return self._flush()

    def _handle_repaired(self, event: SseEvent, error: UpstreamProtocolError) -> None:
        """Handle an event that was not understood, or raise the error again.

        Pings and events without data are ignored, as official clients do. A character that was split between two events
        is joined.
        """
        if event.event == "ping" or not event.data.strip():
            return
        self._joiner = self._joiner or SurrogateJoiner()
        joined = self._joiner.join(event.data)
        if joined is None:
            raise error
        self.handle(SseEvent(event.event, joined))

    def close(self) -> list[Event]:
        """Return what is left at the end of the stream, with `Finish` or `Failed` if neither has been returned yet."""
        if self.done:
            return []
        try:
            for event in self.parser.close():
                self._handle_unterminated(event)
            if not self.done:
                self.handle_end()
        except UpstreamError as error:
            self.fail(error)
        return self._flush()

    def take_text(self, event: SseEvent) -> bool:
        """Handle an event in its usual form that only adds text to an open block; return False to leave it to `handle`.

        A fast path, which a decoder need not have. `handle` must give the same result for these events, but takes about
        twice as long: 2.6 µs more for Messages and Responses, 4.4 µs more for Chat. It is for the many events that
        arrive together with others, and for servers that vary more than `repeated.py` allows.
        """
        return False

    def text_sink(self, event: Delta | ReasoningDelta) -> Callable[[str], object] | None:
        """Return the function that takes the text of further events like the one that led to this model event.

        They are then recognised without the decoder (`repeated.py`), so it must take whatever the decoder would have
        noted of them. Return None if such events change anything else.
        """
        return None

    @property
    def retained(self) -> frozenset[type[Block]]:
        """The kinds of blocks of which something has arrived that no event has told yet."""
        return NOTHING

    @property
    def announces(self) -> bool:
        """Whether the upstream has begun something that begins a block only with its first content."""
        return False

    @property
    def finishing(self) -> bool:
        """Whether the upstream has said why the response ends, although it has not ended."""
        return False

    def handle(self, event: SseEvent) -> None:
        """Handle one SSE event. Raises `UpstreamError` if the protocol does not allow it."""
        raise NotImplementedError

    def handle_end(self) -> None:
        """Handle the end of a stream without a terminal event.

        Raises `UpstreamTruncated` unless the protocol allows it.
        """
        raise NotImplementedError

    def fail(self, error: UpstreamError) -> None:
        """End the response with a failure."""
        self.end(Failed(failure_of(error, self.protocol)))

    def emit(self, event: Event) -> None:
        """Add an event to the output."""
        self._out.append(event)

    def note(self, place: str, fields: dict[str, Json]) -> None:
        """Keep unknown fields that belong to no block until the response ends."""
        noted = self._unknown.setdefault(place, {})
        if len(noted) < _MAX_UNKNOWN:
            noted.update(fields)

    def end(self, event: Event) -> None:
        """Add the last event to the output."""
        if self._unknown and isinstance(event, Finish):
            event = replace(event, unknown_fields=self._unknown)
        self._out.append(event)
        self.done = True

    def start_block(self, block: Block) -> int:
        """Open a block and return its index, the next free one."""
        index = self._blocks
        self._blocks += 1
        self._out.append(BlockStart(index, block))
        return index

    def stop_block(self, index: int, opaque: Opaque | None = None, block: Block | None = None) -> None:
        """Close a block. `opaque`, `block`: see `BlockStop`."""
        self._out.append(BlockStop(index, opaque, block))

    def whole_block(self, block: Block) -> None:
        """Open and close a block that arrived complete."""
        self.stop_block(self.start_block(block))

    def _handle_unterminated(self, event: SseEvent) -> None:
        """Handle a last event without its blank line. Raises `UpstreamTruncated` if its data is incomplete."""
        if event.data.strip() != b"[DONE]":
            try:
                parse_upstream(event.data)
            except UpstreamProtocolError:
                raise UpstreamTruncated("the stream ended inside an event") from None
        self.handle(event)

    def _flush(self) -> list[Event]:
        out, self._out = self._out, []
        return out
