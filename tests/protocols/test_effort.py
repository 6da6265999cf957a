"""Levels of effort and budgets."""

import pytest

from trilogue.model import Effort, Ledger
from trilogue.protocols.content.effort import BUDGETS, effort_of_budget, nearest_effort

SOME = (Effort.NONE, Effort.LOW, Effort.MEDIUM, Effort.HIGH)


@pytest.mark.parametrize(
    ("wanted", "taken", "nearest", "losses"),
    [
        (Effort.LOW, SOME, Effort.LOW, []),
        (Effort.NONE, SOME, Effort.NONE, []),
        (Effort.MINIMAL, SOME, Effort.LOW, ["effort.minimal"]),
        (Effort.MAX, SOME, Effort.HIGH, ["effort.clamped"]),
        (Effort.NONE, SOME[1:], Effort.LOW, ["effort.none"]),
        (Effort.XHIGH, (Effort.HIGH, Effort.MAX), Effort.HIGH, ["effort.clamped"]),
        (Effort.HIGH, (), None, ["param.dropped"]),
        (Effort.NONE, (), None, []),
    ],
)
def test_nearest(wanted: Effort, taken: tuple[Effort, ...], nearest: Effort | None, losses: list[str]) -> None:
    """Never more than is asked for if there is a choice, and never no thinking in place of some."""
    ledger = Ledger()
    assert nearest_effort(wanted, taken, "p", ledger) is nearest
    assert [loss.code for loss in ledger.losses] == losses


@pytest.mark.parametrize("effort", BUDGETS)
def test_budgets_come_back(effort: Effort) -> None:
    """The budget that stands for an effort means that effort."""
    assert effort_of_budget(BUDGETS[effort], "p", Ledger()) is effort
