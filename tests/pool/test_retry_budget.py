"""The retry budget: how much of the traffic may be retries."""

from __future__ import annotations

from random import Random

import pytest

from tests.pool.making import START
from trilogue.routing.pool.plan import Budget
from trilogue.routing.pool.settings import RetryBudget


def spend(budget: Budget, now: float, requests: int, retries_each: int) -> int:
    taken = 0
    for _ in range(requests):
        budget.request(now)
        taken += sum(budget.take(now) for _ in range(retries_each))
    return taken


def test_a_few_are_always_allowed() -> None:
    """Even the first request of the day may be retried."""
    assert spend(Budget(RetryBudget()), START, 1, 50) == 10


def test_a_fifth_of_the_requests() -> None:
    """The floor is not added to the ratio."""
    assert spend(Budget(RetryBudget()), START, 1_000, 10) == 200


def test_the_ratio_holds_at_every_moment() -> None:
    """The window slides, so the ratio holds at every moment and not only in the end."""
    budget, sent = Budget(RetryBudget()), []
    for second in range(300):
        now = START + second
        sent.append(spend(budget, now, 20, 9))
    for start in range(60, 240):
        assert sum(sent[start : start + 60]) <= 0.2 * 20 * 60 + 20


def test_old_traffic_does_not_count() -> None:
    """Neither old requests nor old retries count."""
    budget = Budget(RetryBudget(floor=0))
    assert spend(budget, START, 100, 1) == 20
    assert spend(budget, START + 61, 1, 1) == 0
    assert (budget.requests, budget.retries) == (1, 0)


def test_forced_retries_count() -> None:
    """Retries without reasoning are always allowed, and use up the budget of others."""
    budget = Budget(RetryBudget(floor=1))
    assert budget.take(START, forced=True)
    assert not budget.take(START)


def test_a_clock_that_goes_back_does_no_harm() -> None:
    """The count goes on in the current slot."""
    budget = Budget(RetryBudget())
    assert spend(budget, START, 100, 1) == 20
    assert spend(budget, START - 1_000, 100, 1) == 20


@pytest.mark.parametrize("window", [30.0, 60.0, 120.0])
def test_the_window_is_exact(window: float) -> None:
    """At every moment, the window is the current sixtieth and the 59 before it."""
    rng, slot = Random(4), window / 60
    budget, now = Budget(RetryBudget(window_seconds=window, floor=1_000)), START
    requests: list[float] = []
    retries: list[float] = []
    for _ in range(2_000):
        now += rng.choice([0.0, slot, slot * 0.4, slot * 7, slot * 59, slot * 60, slot * 200]) if requests else 0.0
        if rng.random() < 0.5:
            budget.request(now)
            requests.append(now)
        elif budget.take(now):
            retries.append(now)
        oldest = int(now / slot) - 59
        assert budget.requests == sum(int(at / slot) >= oldest for at in requests[-500:])
        assert budget.retries == sum(int(at / slot) >= oldest for at in retries[-500:])


def test_room_comes_back_with_time() -> None:
    """The first retry of a new minute finds room."""
    budget = Budget(RetryBudget(floor=1))
    assert budget.has_room(START)
    assert budget.take(START)
    assert not budget.has_room(START + 59)
    assert budget.has_room(START + 60)


def test_the_edge_of_the_window() -> None:
    """What happened exactly a minute ago no longer counts, requests and retries alike."""
    budget = Budget(RetryBudget(floor=1))
    for now in (START, START + 59, START + 60):
        budget.request(now)
    assert budget.requests == 2
    budget = Budget(RetryBudget(floor=1))
    assert budget.take(START)
    assert not budget.take(START + 59)
    assert budget.take(START + 60)
    assert budget.retries == 1
