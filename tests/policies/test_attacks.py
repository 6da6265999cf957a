"""A small part of `attacks.py`, on all ways to the client; and without what holds back or folds text, it leaks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.policies.attacks import POLICIES, attacked, tried
from tests.policies.proof import WAYS
from trilogue.gateway.response.untold import Untold
from trilogue.policies.flow import PolicyScan
from trilogue.policies.folding import BORDER, Folded
from trilogue.policies.scan import Scan

TRIALS = 360
"""`python -m tests.policies.attacks` runs as many as you like"""
MUTANT_TRIALS = 120


def test_nothing_forbidden_arrives() -> None:
    """Phrases, addresses and calls, cut anywhere and spelled in any way; streamed and whole."""
    counts, failed = attacked(range(TRIALS))
    assert failed == []
    assert min(counts["whole"], counts["streamed"]) > TRIALS / 6
    titles = [tried(number)[0] for number in range(3 * len(WAYS))]
    assert len({title.partition(": ")[2].partition(",")[0] for title in titles}) == len(WAYS)
    assert {title.split(", ")[1] for title in titles} == set(POLICIES)


def _joins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def border(scan: PolicyScan) -> str:
        return scan._settled(scan._filter.feed("", final=True)) + BORDER

    monkeypatch.setattr(PolicyScan, "_border", border)


def _folds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilogue.policies.scan.folded", lambda text: Folded(text, None, len(text)))


def _holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scan, "certain", lambda scan, text, start: len(text))


def _trusts_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Untold, "is_hidden", lambda untold, raw, events, **_: False)


def _takes_late_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilogue.gateway.response.judged_pass_through.is_late", lambda raw: False)


MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], int]] = {
    "blocks are not joined": (_joins_nothing, MUTANT_TRIALS),
    "texts are not folded": (_folds_nothing, MUTANT_TRIALS),
    "nothing is held": (_holds_nothing, MUTANT_TRIALS),
    "events are trusted": (_trusts_events, 4 * MUTANT_TRIALS),
    "late events go on": (_takes_late_events, 4 * MUTANT_TRIALS),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_without_a_part_of_the_engine_it_leaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail."""
    mutate, trials = MUTANTS[name]
    mutate(monkeypatch)
    assert any(tried(number)[1] for number in range(trials))
