"""Interleaved blocks come out one after the other, complete and in order."""

from __future__ import annotations

import random

import pytest

from trilogue.errors import UpstreamProtocolError
from trilogue.model import (
    BlockStart,
    BlockStop,
    Collector,
    Delta,
    Event,
    Finish,
    Protocol,
    ReasoningDelta,
    ResponseStart,
    Sequencer,
    Stop,
    StopReason,
    ToolCall,
)

START = ResponseStart(protocol=Protocol.CHAT, id="r", model="m")
FINISH = Finish(stop=Stop(reason=StopReason.TOOL_CALLS))


def call(name: str) -> ToolCall:
    return ToolCall(id=f"call_{name}", name=name)


def test_sequential_blocks_pass_untouched() -> None:
    """Sequential blocks are not copied: the very same events come out."""
    events: list[Event] = [START, BlockStart(0, call("a")), Delta(0, "{}"), BlockStop(0), FINISH]
    assert all(out is event for out, event in zip(Sequencer().feed(events), events, strict=True))


def test_interleaved_calls_are_untangled() -> None:
    """Events of the open call pass, the other call waits, and nothing is lost."""
    a, b = call("a"), call("b")
    events = [
        BlockStart(0, a), BlockStart(1, b), Delta(0, '{"x":'), Delta(1, '{"y":'), Delta(0, "1}"), Delta(1, "2}"),
        BlockStop(0), BlockStop(1),
    ]  # fmt: skip
    assert Sequencer().feed(events) == [
        BlockStart(0, a), Delta(0, '{"x":'), Delta(0, "1}"), BlockStop(0),
        BlockStart(1, b), Delta(1, '{"y":'), Delta(1, "2}"), BlockStop(1),
    ]  # fmt: skip


def test_block_that_waited_flows_once_it_is_its_turn() -> None:
    """A block is held back only while the one before it is open."""
    sequencer = Sequencer()
    sequencer.feed([BlockStart(0, call("a")), BlockStart(1, call("b")), Delta(1, "1")])
    assert [type(event) for event in sequencer.feed([BlockStop(0)])] == [BlockStop, BlockStart, Delta]
    assert sequencer.feed([Delta(1, "2")]) == [Delta(1, "2")]


def test_indices_are_renumbered_in_order_of_emission() -> None:
    """Encoders can rely on 0, 1, 2…, whatever the decoder used."""
    out = Sequencer().feed([BlockStart(7, call("a")), ReasoningDelta(7, "t"), BlockStop(7), BlockStart(3, call("b"))])
    assert [event.index for event in out] == [0, 0, 0, 1]  # type: ignore[attr-defined]


@pytest.mark.parametrize("event", [Delta(0, "x"), BlockStop(0), ReasoningDelta(4, "x")])
def test_event_of_no_open_block_is_the_upstreams_fault(event: Event) -> None:
    """An event without an open block must not corrupt the stream."""
    with pytest.raises(UpstreamProtocolError):
        Sequencer().feed([event])


def test_any_interleaving_gives_the_same_response() -> None:
    """Random interleavings of up to five calls give the same blocks as the sequential stream."""
    rng = random.Random(7)
    for _ in range(500):
        count = rng.randint(1, 5)
        queues: list[list[Event]] = []
        for index in range(count):
            pieces: list[Event] = [Delta(index, f"{index}.{n} ") for n in range(rng.randint(0, 6))]
            queues.append([BlockStart(index, call(str(index))), *pieces, BlockStop(index)])
        mixed: list[Event] = []
        for queue in queues:
            mixed.append(queue.pop(0))
        while any(queues):
            mixed.append(rng.choice([queue for queue in queues if queue]).pop(0))
        direct, sequenced = Collector(), Collector()
        for event in [START, *mixed, FINISH]:
            direct.feed(event)
        out = Sequencer().feed([START, *mixed, FINISH])
        for event in out:
            sequenced.feed(event)
        assert sequenced.response() == direct.response()
        depth = 0
        for event in out:
            depth += (type(event) is BlockStart) - (type(event) is BlockStop)
            assert depth in (0, 1)
