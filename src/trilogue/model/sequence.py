"""A sequencer that puts overlapping blocks one after the other.

Upstreams may interleave blocks (two tool calls whose arguments alternate). The official APIs never do, and clients
break on it. The events of the open block are passed on; other blocks wait in a queue until it stops.

In: events of one response, with blocks that overlap in any way. Out: the same events, with at most one block open and
`index` renumbered 0, 1, 2… in the order of emission. Nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from trilogue.errors import UpstreamProtocolError
from trilogue.model.blocks import Reasoning, Text
from trilogue.model.events import BlockStart, BlockStop, Delta, Event, Failed, Finish, ResponseStart

_WHOLE = frozenset({ResponseStart, Finish, Failed})
_FLOWING = frozenset({Text, Reasoning})


class Sequencer:
    """The sequencer of one response."""

    __slots__ = ("_emitted", "_open", "_open_as", "_waiting", "direct")

    def __init__(self) -> None:
        self._open: int | None = None
        self._open_as = 0
        self._emitted = 0
        self._waiting: dict[int, tuple[BlockStart, list[Event]]] = {}
        self.direct = -1
        """the index of the open block if it is text or reasoning and keeps its number, else -1; fast paths use it"""

    def feed(self, events: Iterable[Event]) -> list[Event]:
        """Return the events that can be sent now."""
        out: list[Event] = []
        for event in events:
            kind = type(event)
            if kind in _WHOLE:
                # Only a failure may leave blocks open; a finish with open blocks would be a bug in the decoder.
                out.append(event)
                continue
            index: int = event.index  # type: ignore[attr-defined]  # every other event has one
            # Most events of a stream belong to the open block, so this branch comes first.
            if index == self._open:
                out.append(event if index == self._open_as else _renumbered(event, self._open_as))
                if kind is BlockStop:
                    self._open = None
                    self.direct = -1
                    if self._waiting:
                        self._drain(out)
            elif self._open is None and type(event) is BlockStart:
                self._begin(index, event, out)
            else:
                self._wait(index, event)
        return out

    def _wait(self, index: int, event: Event) -> None:
        """Queue an event of a block that is not the open one. Raises if that block has not started."""
        if type(event) is BlockStart:
            self._waiting[index] = (event, [])
        elif index in self._waiting:
            self._waiting[index][1].append(event)
        else:
            raise UpstreamProtocolError(f"event for block {index}, which is not open")

    def _begin(self, index: int, event: BlockStart, out: list[Event]) -> None:
        self._open = index
        self._open_as = opened = self._emitted
        self._emitted += 1
        self.direct = index if index == opened and type(event.block) in _FLOWING else -1
        out.append(event if index == opened else _renumbered(event, opened))

    def _drain(self, out: list[Event]) -> None:
        """Emit the waiting blocks, in the order in which they started, until one of them is still open."""
        while self._waiting and self._open is None:
            # Dicts keep their insertion order, which is the order in which the blocks started.
            index = next(iter(self._waiting))
            start, rest = self._waiting.pop(index)
            self._begin(index, start, out)
            out += rest if index == self._open_as else [_renumbered(event, self._open_as) for event in rest]
            if rest and type(rest[-1]) is BlockStop:
                self._open = None
                self.direct = -1


def _renumbered(event: Event, index: int) -> Event:
    return Delta(index, event.text) if type(event) is Delta else replace(event, index=index)
