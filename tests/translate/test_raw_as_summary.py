"""Raw reasoning becomes a summary, and only that."""

from __future__ import annotations

from trilogue.model import (
    BlockStart,
    BlockStop,
    Delta,
    Event,
    Opaque,
    OpaqueKind,
    Protocol,
    Provenance,
    Reasoning,
    ReasoningDelta,
    Text,
)
from trilogue.translate.reasoning.provenance import ResponseSealer
from trilogue.translate.reasoning.seal import Sealer
from trilogue.translate.reasoning.stages import SummaryStage

SEALER = Sealer([b"k" * 32])


def shown(*events: Event) -> list[Event]:
    return SummaryStage(ResponseSealer(SEALER, Provenance(protocol=Protocol.CHAT), False))(list(events))


def test_deltas() -> None:
    """Parts stay apart, and the end says what it was."""
    start = BlockStart(0, Reasoning())
    first, *rest, stop = shown(start, ReasoningDelta(0, "a", 0, True), ReasoningDelta(0, "b", 1, True), BlockStop(0))
    assert first == start
    assert [(event.text, event.raw) for event in rest if isinstance(event, ReasoningDelta)] == [
        ("a", False),
        ("b", False),
    ]
    assert len({event.part for event in rest if isinstance(event, ReasoningDelta)}) == 2
    assert isinstance(stop, BlockStop)
    assert stop.opaque is not None
    assert SEALER.open(stop.opaque.value).opaque == Opaque(kind=OpaqueKind.NONE, value="raw")


def test_whole_blocks() -> None:
    """Also those that come at once, or are repeated at the end."""
    own = Opaque(kind=OpaqueKind.ENCRYPTED, value="x")
    start, stop = shown(BlockStart(0, Reasoning(raw=("a",))), BlockStop(0, own, Reasoning(summary=("s",), raw=("a",))))
    assert start == BlockStart(0, Reasoning(summary=("a",)))
    assert stop == BlockStop(0, own, Reasoning(summary=("s", "a")))


def test_everything_else_stays() -> None:
    """Summaries are summaries, and text is text."""
    events: list[Event] = [
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "s"),
        BlockStop(0),
        BlockStart(1, Text(text="")),
        Delta(1, "t"),
        BlockStop(1),
    ]
    assert shown(*events) == events
