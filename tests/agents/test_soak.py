"""A short soak with real agents: `python -m tests.agents.soak` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.clients import CLAUDE, CODEX, needs_claude, needs_codex
from tests.agents.soak import grown, soak, stretches
from tests.agents.upstream import LEGS

pytestmark = pytest.mark.slow
TURNS = 20


@pytest.mark.parametrize(
    "name", [pytest.param(CLAUDE, marks=needs_claude), pytest.param(CODEX, marks=needs_codex)], ids=str
)
def test_a_session_survives_everything(name: str, tmp_path: Path) -> None:
    """It goes through all upstreams, and every request is one that its vendor accepts."""
    outcome = soak(name, stretches(TURNS), tmp_path)
    assert outcome.problems == []
    assert {one.leg for one in outcome.upstream.asked} == set(LEGS)
    assert outcome.upstream.reached >= TURNS


def test_growth_is_measured_after_the_warm_up() -> None:
    assert grown([10.0] * 25 + [60.0] * 75) == 0
    assert grown([50.0] * 90 + [60.0] * 10) == pytest.approx(10, abs=2)
    assert grown([]) == 0
