"""A part of the machine of `python -m tests.money`, with fixed seeds: one process, and two workers."""

from __future__ import annotations

import pytest

from tests.money.__main__ import world_of


@pytest.mark.parametrize("seed", [1, 3], ids=["one process", "two workers"])
def test_no_key_gets_more_than_it_may(seed: int) -> None:
    """And honest ones are charged what their upstreams say."""
    problems, statuses = world_of(seed, 300)
    assert problems == []
    assert sum(statuses.values()) == 300
    assert sum(count for label, count in statuses.items() if label.endswith("200")) > 30


def test_the_oracle_finds_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a gateway that reserves and charges nothing, keys spend more than they may."""
    monkeypatch.setattr("trilogue.gateway.limits.limiter.Limiter.settle", lambda *_: None)
    monkeypatch.setattr("trilogue.upstreams.upstreams.Upstreams.most_cost", lambda *_: 0)
    problems, _ = world_of(1, 600)
    assert any("are used, and" in one for one in problems)
