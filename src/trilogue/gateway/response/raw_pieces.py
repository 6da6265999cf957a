"""The bytes of a stream that policies judge: which of them may be forwarded as they came.

In: the events of the upstream as bytes, each with the model events that it led to, and the model events that policies
let go on. Out: the bytes of which everything has gone on, as long as nothing was changed. After that, what the client
has got (`sent`) and what has gone on besides (`rest`) is all that an encoder needs to continue the stream.

Policies may let text go on in other pieces than it came in, so positions are counted in characters.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from trilogue.model import BlockStart, BlockStop, Delta, Event, ReasoningDelta, Refusal, Text

_NUMBER = b'"sequence_number"'
_MOST_SHAPES = 1000
_JOINED = 256
"""pieces of text after which they are joined, so that a long text does not take many times its size"""


class Position(Struct):
    """How far a stream is: blocks that have stopped, and since then other events and characters of text."""

    blocks: int = 0
    marks: int = 0
    characters: int = 0

    def add(self, event: Event) -> None:
        """Move behind an event."""
        if isinstance(event, Delta | ReasoningDelta):
            self.characters += len(event.text)
        elif isinstance(event, BlockStop):
            self.blocks, self.marks, self.characters = self.blocks + 1, 0, 0
        else:
            self.marks += 1
            if isinstance(event, BlockStart) and isinstance(event.block, Text | Refusal):
                # A filter sends the text that a block starts with by itself, and so its citations.
                self.characters += len(event.block.text)
                self.marks += len(event.block.citations) if isinstance(event.block, Text) else 0

    def covers(self, other: Position) -> bool:
        """Return whether the stream is at least as far as the other position."""
        if self.blocks != other.blocks:
            return self.blocks > other.blocks
        return self.marks >= other.marks and self.characters >= other.characters


class _Piece(Struct, frozen=True):
    """One event of the upstream. `shapes`: it begins or ends a block, or is not about the content."""

    raw: bytes
    shapes: bool


class RawPieces:
    """The pieces of one stream."""

    def __init__(self) -> None:
        self._arrived, self._released = Position(), Position()
        self._waiting: deque[tuple[_Piece, Position | None]] = deque()
        """pieces that were not forwarded, and how far the policies must be for it; None: that is not known yet"""
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
        length = len(event.text)
        self._arrived.characters += length
        self._released.characters += length
        self._log(event)
        self._forward(raw)

    def add(self, raw: bytes, events: list[Event], *, shapes: bool, retained: bool) -> None:
        """Add a piece with its events. `shapes`: it is not only text. `retained`: more events will come of it."""
        for event in events:
            self._arrived.add(event)
        self._waiting.append((_Piece(raw, shapes), None))
        if not retained:
            here = replace(self._arrived)
            self._waiting = deque([(one, position or here) for one, position in self._waiting])

    def release(self, events: list[Event]) -> bytes:
        """Take events that the policies let go on, and return the bytes that may be forwarded."""
        for event in events:
            self._released.add(event)
            self._unsent.append((event, replace(self._released)))
        out = []
        while self._waiting and (position := self._waiting[0][1]) is not None and self._released.covers(position):
            piece = self._waiting.popleft()[0]
            out.append(piece.raw)
            self._forward(piece.raw)
            if piece.shapes:
                self.shapes.append(piece.raw)
            self._forwarded(position)
        return b"".join(out)

    def sent(self) -> list[Event]:
        """Return the events that the client has got, in larger pieces."""
        self._join()
        return self._sent

    def rest(self) -> list[Event]:
        """Return the events that have gone on and that the client has not got. Nothing waits any more after that."""
        rest = [event for event, _ in self._unsent]
        self._unsent.clear()
        self._waiting.clear()
        return rest

    def _forward(self, raw: bytes) -> None:
        if raw.find(_NUMBER) >= 0:
            self.numbered = raw

    def _forwarded(self, position: Position) -> None:
        """Move the events up to a position from those that were not sent to those that were."""
        while self._unsent:
            event, end = self._unsent[0]
            if position.covers(end):
                self._unsent.popleft()
                self._log(event)
                continue
            left = end.characters - position.characters
            if position.blocks == end.blocks and isinstance(event, Delta | ReasoningDelta) and left < len(event.text):
                self._log(replace(event, text=event.text[: len(event.text) - left]))
                self._unsent[0] = (replace(event, text=event.text[-left:]), end)
            return

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


def _continues(event: Delta | ReasoningDelta, before: Delta | ReasoningDelta) -> bool:
    """Return whether an event has more of the same text as the one before it."""
    if type(event) is not type(before) or event.index != before.index:
        return False
    return not isinstance(event, ReasoningDelta) or replace(event, text="") == replace(before, text="")
