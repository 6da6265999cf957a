"""Levels of effort and budgets."""

from typing import Any

import pytest
from msgspec.structs import replace

from trilogue.model import Effort, Ledger, Protocol
from trilogue.protocols.codec import Target
from trilogue.protocols.fit.thinking import BUDGETS, effort_of_budget, nearest_effort
from trilogue.translate.requests import fit_own
from trilogue.vendors.profile import UNCHANGED, Profile

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


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("profile", [UNCHANGED, replace(UNCHANGED, efforts=SOME)], ids=["unknown", "known"])
def test_an_unknown_name_in_its_own_protocol(protocol: Protocol, profile: Profile) -> None:
    """It stays unless a profile says which levels there are: the upstream may be newer than this table."""
    given: dict[Protocol, dict[str, Any]] = {
        Protocol.CHAT: {"reasoning_effort": "ultra", "messages": [{"role": "user", "content": "Hi"}]},
        Protocol.MESSAGES: {"output_config": {"effort": "ultra"}, "messages": [{"role": "user", "content": "Hi"}]},
        Protocol.RESPONSES: {"reasoning": {"effort": "ultra"}, "input": "Hi"},
    }
    body, ledger = {"model": "m", "max_tokens": 9, **given[protocol]}, Ledger()
    fitted = fit_own(body, Target(protocol=protocol, model="m", profile=profile), ledger)
    if profile is UNCHANGED:
        assert fitted is body
        assert not ledger.losses
    else:
        place = fitted.get("output_config") or fitted.get("reasoning") or {}
        assert (fitted.get("reasoning_effort") or place["effort"]) == "high"
        assert "ultra" not in str(fitted)
        assert {loss.code for loss in ledger.losses} == {"effort.clamped"}
        assert ledger.losses[0].detail == "ultra"
