"""The bytes of a stream that policies judge: which of them may be forwarded as they came.

In: the events of the upstream as bytes, each with the model events that it led to, and the model events that policies
let go on. Out: the bytes of which everything has gone on, as long as nothing was changed. After that, what the client
has got (`sent`) and what has gone on besides (`rest`) is all that an encoder needs to continue the stream.

Policies may let text go on in other pieces than it came in, so positions are counted in characters.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from trilogue.model import BlockStart, BlockStop, Delta, Event, ReasoningDelta, Refusal, Text

_NUMBER = b'"sequence_number"'
_MOST_SHAPES = 1000
_JOINED = 256
"""pieces of text after which they are joined, so that a long text does not take many times its size"""


Position: TypeAlias = tuple[int, int, int]
"""how far a stream is: blocks that have stopped, and since then other events and characters of text"""


def after(position: Position, event: Event) -> Position:
    """Return the position behind an event."""
    blocks, marks, characters = position
    kind = type(event)
    if kind is Delta or kind is ReasoningDelta:
        return blocks, marks, characters + len(event.text)  # type: ignore[attr-defined]  # both have it
    if kind is BlockStop:
        return blocks + 1, 0, 0
    if isinstance(event, BlockStart) and isinstance(event.block, Text | Refusal):
        # A filter sends the text that a block starts with by itself, and so its citations.
        marks += len(event.block.citations) if isinstance(event.block, Text) else 0
        characters += len(event.block.text)
    return blocks, marks + 1, characters


def covers(position: Position, other: Position) -> bool:
    """Return whether a stream is at least as far as the other position."""
    if position[0] != other[0]:
        return position[0] > other[0]
    return position[1] >= other[1] and position[2] >= other[2]


class _Piece(Struct):
    """One event of the upstream, with its model events.

    `shapes`: it begins or ends a block, or is not about the content.
    """

    raw: bytes
    events: list[Event]
    shapes: bool
    needed: Position | None = None
    """how far the policies must be before it is forwarded; None: that is not known yet"""


class RawPieces:
    """The pieces of one stream."""

    def __init__(self) -> None:
        self._arrived: Position = (0, 0, 0)
        self._released: Position = (0, 0, 0)
        self._forwarded: Position = (0, 0, 0)
        self._waiting: deque[_Piece] = deque()
        """pieces that were not forwarded"""
        self._unsent: deque[tuple[Event, Position]] = deque()
        """events that have gone on and were not forwarded as bytes, with the position behind them"""
        self._sent: list[Event] = []
        self._texts: list[str] = []
        """text that belongs to the end of `_sent`"""
        self._open: Delta | ReasoningDelta = Delta(-1, "")
        """the event that this text was first part of"""
        self.numbered = b""
        """the last forwarded piece that has a number; comments have none"""
        self.shapes: deque[bytes] = deque(maxlen=_MOST_SHAPES)
        """the latest forwarded pieces that are not only text"""

    @property
    def idle(self) -> bool:
        """Whether everything that arrived was forwarded."""
        return not self._waiting and not self._unsent

    @property
    def stuck(self) -> bool:
        """Whether something waits."""
        return bool(self._waiting)

    def pass_text(self, raw: bytes, event: Delta | ReasoningDelta) -> None:
        """Note a piece with nothing but text that has gone on at once and unchanged. Only while it is `idle`."""
        self._arrived = self._released = self._forwarded = after(self._arrived, event)
        self._log(event)
        self._forward(raw)

    def add(self, raw: bytes, events: list[Event], *, shapes: bool, retained: bool) -> None:
        """Add a piece with its events. `shapes`: it is not only text. `retained`: more events will come of it."""
        for event in events:
            self._arrived = after(self._arrived, event)
        self._waiting.append(_Piece(raw, events, shapes))
        if retained:
            return
        for piece in reversed(self._waiting):
            if piece.needed is not None:
                break
            piece.needed = self._arrived

    def release(self, events: list[Event]) -> bytes:
        """Take events that the policies let go on, and return the bytes that may be forwarded."""
        for event in events:
            self._released = after(self._released, event)
            self._unsent.append((event, self._released))
        out = []
        while self._waiting and (needed := self._waiting[0].needed) is not None and covers(self._released, needed):
            piece = self._waiting.popleft()
            out.append(piece.raw)
            self._forward(piece.raw)
            if piece.shapes:
                self.shapes.append(piece.raw)
            for event in piece.events:
                self._log(event)
            self._forwarded = needed
        unsent = self._unsent
        while unsent and covers(self._forwarded, unsent[0][1]):
            unsent.popleft()
        return b"".join(out)

    def sent(self) -> list[Event]:
        """Return the events that the client has got, in larger pieces."""
        self._join()
        return self._sent

    def rest(self) -> list[Event]:
        """Return the events that have gone on and that the client has not got. Nothing waits any more after that."""
        rest = [event for event, _ in self._unsent]
        if rest:
            # Of a text that policies let go on in one piece, the client may have got the beginning.
            rest[0] = _beyond(*self._unsent[0], self._forwarded)
        self._unsent.clear()
        self._waiting.clear()
        return rest

    def _forward(self, raw: bytes) -> None:
        if raw.find(_NUMBER) >= 0:
            self.numbered = raw

    def _log(self, event: Event) -> None:
        if not isinstance(event, Delta | ReasoningDelta):
            self._join()
            self._sent.append(event)
            return
        if self._texts and not _continues(event, self._open):
            self._join()
        self._open = event
        self._texts.append(event.text)
        if len(self._texts) > _JOINED:
            self._texts = ["".join(self._texts)]

    def _join(self) -> None:
        if self._texts:
            self._sent.append(replace(self._open, text="".join(self._texts)))
            self._texts = []


def _beyond(event: Event, end: Position, position: Position) -> Event:
    """Return what is left of an event beyond a position. `end`: the position behind the event."""
    if position[0] != end[0] or not isinstance(event, Delta | ReasoningDelta):
        return event
    left = end[2] - position[2]
    return replace(event, text=event.text[-left:]) if 0 < left < len(event.text) else event


def _continues(event: Delta | ReasoningDelta, before: Delta | ReasoningDelta) -> bool:
    """Return whether an event has more of the same text as the one before it."""
    if type(event) is not type(before) or event.index != before.index:
        return False
    return not isinstance(event, ReasoningDelta) or replace(event, text="") == replace(before, text="")
