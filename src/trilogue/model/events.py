"""A streamed response in neutral form: the blocks of a response, in pieces.

ResponseStart (BlockStart Delta* BlockStop)* Finish      — a complete response
ResponseStart? ... Failed                                — a failure, at any point

A decoder may emit overlapping blocks; `Sequencer` puts them one after the other. `index` counts the blocks in the order
in which they started.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import Json
from trilogue.errors import UpstreamProtocolError
from trilogue.model.blocks import Block, Citation, Extras, Opaque, Reasoning, Text
from trilogue.model.failure import Failure
from trilogue.model.protocol import Protocol
from trilogue.model.request import Tier
from trilogue.model.response import Stop, Usage


# Without gc=False, every delta of a long stream would be one more object for the garbage collector to visit.
class Event(Struct, frozen=True, gc=False):
    """The base class of all stream events."""


class ResponseStart(Event, frozen=True, kw_only=True):
    """The start of a response. `usage` and `tier` are what is known at this point (usually the input tokens)."""

    protocol: Protocol
    id: str
    model: str
    created: int | None = None
    # Chat and Responses upstreams report usage only at the end; Messages clients expect it here.
    usage: Usage | None = None
    tier: Tier | None = None
    extras: Extras = None


class BlockStart(Event, frozen=True):
    """The start of a block. `block` holds what is known: for most kinds everything but the text of the deltas.

    Blocks that arrive complete (opaque reasoning, hosted results, native blocks) are whole here and have no deltas.
    """

    index: int
    block: Block


class Delta(Event, frozen=True, gc=False):
    """More text of a block: prose, refusal, arguments, custom input or hosted input, depending on its kind."""

    index: int
    text: str


class ReasoningDelta(Event, frozen=True, gc=False):
    """More reasoning. `part` counts the parts of the summary, or of the raw text if `raw` is set."""

    index: int
    text: str
    part: int = 0
    raw: bool = False


class CitationDelta(Event, frozen=True):
    """One more citation of an open text block."""

    index: int
    citation: Citation


class LogprobsDelta(Event, frozen=True):
    """Token entries for text that the same block has just received."""

    index: int
    logprobs: list[Json]


class BlockStop(Event, frozen=True):
    """The end of a block. `opaque` is the value that closes reasoning.

    `block` is the complete block if the source repeats it at the end with more detail (ids, status, results). It takes
    precedence over what was collected.
    """

    index: int
    opaque: Opaque | None = None
    block: Block | None = None


class Finish(Event, frozen=True, kw_only=True):
    """The end of a complete response.

    `unknown_fields`: those that only events of the stream had, by the path of the object that they were in. They are
    declared as losses and not written again.
    """

    stop: Stop
    usage: Usage | None = None
    tier: Tier | None = None
    extras: Extras = None
    unknown_fields: dict[str, dict[str, Json]] | None = None


class Failed(Event, frozen=True):
    """The end of a response that failed before it was complete."""

    failure: Failure


_WHOLE = frozenset({ResponseStart, Finish, Failed})
_FLOWING = frozenset({Text, Reasoning})


class Sequencer:
    """Puts overlapping blocks of one response one after the other.

    Upstreams may interleave blocks (two tool calls whose arguments alternate). The official APIs never do, and clients
    break on it. The events of the open block are passed on; other blocks wait in a queue until it stops. What comes
    out has at most one open block and `index` renumbered 0, 1, 2… in the order of emission. Nothing is dropped.
    """

    __slots__ = ("_emitted", "_open", "_open_as", "_waiting", "direct")

    def __init__(self) -> None:
        self._open: int | None = None
        self._open_as = 0
        self._emitted = 0
        self._waiting: dict[int, tuple[BlockStart, list[Event]]] = {}
        self.direct = -1
        """the index of the open block if it is text or reasoning and keeps its number, else -1; fast paths use it"""

    @property
    def waits(self) -> bool:
        """Whether events of some block wait for another block to stop."""
        return bool(self._waiting)

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
