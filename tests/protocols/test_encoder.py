"""The life cycle of an answer, cell by cell, for every encoder."""

from __future__ import annotations

import pytest

from tests.each import each
from trilogue.errors import InternalError
from trilogue.model import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    CitationKind,
    Delta,
    Event,
    Failed,
    Failure,
    FailureKind,
    Finish,
    LogprobsDelta,
    Protocol,
    ReasoningDelta,
    ResponseStart,
    Stop,
    StopReason,
    Text,
)
from trilogue.protocols.registry import CODECS
from trilogue.protocols.stream.encoder import LIFECYCLE, ResponsePhase, StreamEncoder
from trilogue.protocols.stream.response_context import ResponseContext

SAMPLES: dict[type[Event], Event] = {
    ResponseStart: ResponseStart(protocol=Protocol.CHAT, id="r", model="m"),
    BlockStart: BlockStart(0, Text(text="")),
    Delta: Delta(0, "x"),
    ReasoningDelta: ReasoningDelta(0, ""),
    CitationDelta: CitationDelta(0, Citation(kind=CitationKind.DOCUMENT, native={})),
    LogprobsDelta: LogprobsDelta(0, []),
    BlockStop: BlockStop(0),
    Finish: Finish(stop=Stop(reason=StopReason.END)),
    Failed: Failed(Failure(kind=FailureKind.SERVER, message="x")),
}

WAY: dict[ResponsePhase, list[type[Event]]] = {
    ResponsePhase.IDLE: [],
    ResponsePhase.OPEN: [ResponseStart],
    ResponsePhase.BLOCK: [ResponseStart, BlockStart],
    ResponsePhase.DONE: [ResponseStart, Finish],
}
"""how to get into each state"""

EVENTS = tuple(StreamEncoder.HANDLERS)
CELLS = [(state, event) for state in ResponsePhase for event in EVENTS]


def test_every_event_has_a_column_and_a_sample() -> None:
    """A new event type must be thought about in every state."""
    assert set(SAMPLES) == set(EVENTS)
    assert {event for row in LIFECYCLE.values() for event in row} == set(EVENTS)


@pytest.mark.parametrize("protocol", list(Protocol), ids=lambda protocol: protocol.short)
@each(("state", "event"), CELLS, ids=[f"{s.name}-{e.__name__}" for s, e in CELLS])
def test_cell(protocol: Protocol, state: ResponsePhase, event: type[Event]) -> None:
    """A row in the table leads on; a missing one is the caller's bug, whatever the protocol."""
    encoder = CODECS[protocol].encoder(ResponseContext())
    encoder.encode(SAMPLES[kind] for kind in WAY[state])
    assert encoder.state is state
    following = LIFECYCLE[state].get(event)
    if following is None:
        with pytest.raises(InternalError, match=event.__name__):
            encoder.encode([SAMPLES[event]])
        assert encoder.state is state
    else:
        encoder.encode([SAMPLES[event]])
        assert encoder.state is following
