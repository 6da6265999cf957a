"""Every cell of the table: which event is allowed in which phase, and which phase follows."""

from __future__ import annotations

import pytest

from tests.policies.making import Judging, passing
from trilogue.errors import InternalError
from trilogue.model import (
    Block,
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
    ToolCall,
)
from trilogue.policies import Context, Policy, PolicyRun, Scan, phrase_scan
from trilogue.policies.machine import TABLE, RunPhase


class Flowing(Policy):
    """A policy that looks at text while it flows."""

    text = "flow"
    find = phrase_scan(["zzz"])


START = ResponseStart(protocol=Protocol.CHAT, id="r", model="m")
CALL = ToolCall(id="c", name="n")
LEADS_TO: dict[RunPhase, list[Event]] = {
    RunPhase.IDLE: [],
    RunPhase.OPEN: [START],
    RunPhase.PASSING: [START, BlockStart(0, Text(text="", extras={"passes": True}))],
    RunPhase.FILTERING: [START, BlockStart(0, Text(text=""))],
    RunPhase.HOLDING: [START, BlockStart(0, CALL)],
    RunPhase.DONE: [START, Finish(stop=Stop(reason=StopReason.END))],
}
CITATION = Citation(kind=CitationKind.WEB, native={})
EVENTS: dict[type[Event], Event] = {
    ResponseStart: START,
    BlockStart: BlockStart(0, Text(text="")),
    Delta: Delta(0, "x"),
    ReasoningDelta: ReasoningDelta(0, "x"),
    CitationDelta: CitationDelta(0, CITATION),
    LogprobsDelta: LogprobsDelta(0, []),
    BlockStop: BlockStop(0),
    Finish: Finish(stop=Stop(reason=StopReason.END)),
    Failed: Failed(Failure(kind=FailureKind.SERVER, message="x")),
}


class SometimesFlowing(Flowing):
    """It lets text pass that is marked."""

    def scan(self, block: Block, context: Context) -> Scan | None:
        """Return nothing to find in marked text."""
        return None if block.extras else self.find


def run_in(phase: RunPhase) -> PolicyRun:
    """Return a run in a phase."""
    run = PolicyRun([SometimesFlowing(), Judging(passing)])
    run.feed(LEADS_TO[phase])
    assert run._machine.phase is phase
    return run


@pytest.mark.parametrize("phase", list(RunPhase))
@pytest.mark.parametrize("kind", EVENTS)
def test_each_cell(phase: RunPhase, kind: type[Event]) -> None:
    """An event that the table does not list is a bug of the caller, except that nothing matters after the end."""
    run = run_in(phase)
    row = TABLE[phase].get(kind)
    if phase is RunPhase.DONE:
        assert run.feed([EVENTS[kind]]) == []
    elif row is None:
        with pytest.raises(InternalError, match=f"{kind.__name__} is not allowed in phase {phase.name}"):
            run.feed([EVENTS[kind]])
    else:
        run.feed([EVENTS[kind]])
        ended = kind in (Finish, Failed)
        assert run._machine.phase is (RunPhase.DONE if ended else row[1] or RunPhase.FILTERING)
