"""Stop sequences, cut while relaying."""

from __future__ import annotations

import pytest

from trilogue.model import BlockStart, BlockStop, Delta, Event, Finish, Stop, StopReason, Text, ToolCall
from trilogue.translate.content.stages import StopStage

FINISH = Finish(stop=Stop(reason=StopReason.END))


@pytest.mark.parametrize(
    ("pieces", "text", "sequence"),
    [
        (["one END two"], "one ", "END"),
        (["one E", "ND two"], "one ", "END"),
        (list("one END two"), "one ", "END"),
        (["a##b END"], "a", "##"),
        (["no such thing E", "N"], "no such thing EN", None),
        (["END"], "", "END"),
    ],
)
def test_stop_sequences_are_cut(pieces: list[str], text: str, sequence: str | None) -> None:
    """Held back just as far as needed, cut at the first, and said which."""
    stage = StopStage(("END", "##"))
    events: list[Event] = [BlockStart(0, Text(text="")), *(Delta(0, piece) for piece in pieces), BlockStop(0), FINISH]
    out = [event for one in events for event in stage([one])]
    assert "".join(event.text for event in out if isinstance(event, Delta)) == text
    finish = out[-1]
    assert isinstance(finish, Finish)
    assert finish.stop.sequence == sequence
    assert stage.cut is (sequence is not None)
    assert sum(isinstance(event, BlockStop) for event in out) == 1


@pytest.mark.parametrize("pieces", [["a xENDy b"], list("a xENDy b"), ["a xE", "NDy b"]])
def test_of_two_stop_sequences_the_first_to_be_complete_counts(pieces: list[str]) -> None:
    """However the text is cut: a model that knew them would have stopped there."""
    for sequences in (("xENDy", "END", "ND"), ("ND", "END", "xENDy")):
        stage = StopStage(sequences)
        stage([BlockStart(0, Text(text=""))])
        out = [event for piece in pieces for event in stage([Delta(0, piece)])]
        assert "".join(event.text for event in out if isinstance(event, Delta)) == "a x"
        finish = out[-1]
        assert isinstance(finish, Finish)
        assert finish.stop.sequence == "END"


def test_stop_sequences_leave_other_blocks_alone() -> None:
    """Tool arguments may contain anything."""
    events: list[Event] = [BlockStart(0, ToolCall(id="1", name="f")), Delta(0, '"END"'), BlockStop(0)]
    assert StopStage(("END",))(events) == events
