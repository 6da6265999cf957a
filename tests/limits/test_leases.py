"""Rows of a machine in a cluster: it may use what it was granted, as long as the lease is valid."""

from __future__ import annotations

import pytest

from trilogue.gateway.limits.counters import ROW
from trilogue.gateway.limits.counting import Estimate, Refused, Subject, admit, shortage
from trilogue.gateway.limits.leasing import (
    ASK_SECONDS,
    LEASE_SECONDS,
    Grant,
    Leasing,
    all_counters,
    begin_ask,
    counters,
    end_ask,
    give_back,
    take_grants,
)
from trilogue.gateway.limits.settings import BudgetSettings, RateLimits

NOON = 1_763_467_200.0
NOTHING = Estimate(0, 0)
ASKED = Leasing()
AWAY = Leasing(away=True, share=0.25)
UNKNOWN = Leasing(money_unknown=True)


def row() -> list[int]:
    return [0] * ROW


def grant(subject: Subject, counts: list[int], given: int, now: float = NOON, elsewhere: int = 0) -> None:
    found = list(counters(now, subject.limits, subject.budget, counts))
    grants = [Grant(one.which, one.period, given, elsewhere, 0) for one in found]
    take_grants(counts, found, grants, round((now + LEASE_SECONDS) * 1000))


def admitted(subject: Subject, counts: list[int], leasing: Leasing, now: float = NOON, cost: int = 0) -> int:
    """Return how many requests are admitted until one is refused, of 100 at most."""
    for number in range(100):
        if isinstance(admit(now, [(subject, counts)], Estimate(1, cost), leasing), Refused):
            return number
    return 100


@pytest.mark.parametrize("limit", ["concurrency", "requests_per_day", "tokens_per_hour"])
def test_no_more_is_used_than_was_granted(limit: str) -> None:
    subject, counts = Subject("key", "a", RateLimits(**{limit: 50})), row()
    assert admitted(subject, counts, ASKED) == 0
    assert [ask.want for ask in shortage(NOON, subject, counts, Estimate(1, 0))] == [1]
    grant(subject, counts, 7)
    assert admitted(subject, counts, ASKED) == 7
    grant(subject, counts, 100)
    assert admitted(subject, counts, ASKED) == 43


def test_a_lease_that_was_not_renewed_ends() -> None:
    subject, counts = Subject("key", "a", RateLimits(requests_per_day=50)), row()
    grant(subject, counts, 20)
    later = NOON + LEASE_SECONDS + 1
    assert admitted(subject, counts, ASKED, later) == 0
    # A time that is far ahead is that of another clock, not a long lease.
    assert admitted(subject, counts, ASKED, NOON - 3_600) == 0
    # While the cluster is away, a rate limit goes on with the share of this machine.
    assert admitted(subject, counts, AWAY, later) == 12


def test_a_budget_is_closed_while_the_cluster_is_away() -> None:
    for leasing in (AWAY, UNKNOWN):
        subject, counts = Subject("key", "a", budget=BudgetSettings(day=1e-8)), row()
        refused = admit(NOON, [(subject, counts)], Estimate(0, 3), leasing)
        assert isinstance(refused, Refused)
        assert refused.reason == "unavailable"
        grant(subject, counts, 6)
        assert admitted(subject, counts, leasing, cost=3) == 2
    allowed = Subject("key", "a", budget=BudgetSettings(day=1e-8, store_away="allow"))
    counts = row()
    grant(allowed, counts, 0, elsewhere=4)
    assert admitted(allowed, counts, AWAY, cost=3) == 2


def test_a_new_window_begins_without_a_grant() -> None:
    subject, counts = Subject("key", "a", RateLimits(requests_per_minute=50)), row()
    grant(subject, counts, 20, NOON)
    assert admitted(subject, counts, ASKED, NOON + 60) == 0


def test_the_server_may_be_ahead_of_this_machine() -> None:
    subject, counts = Subject("key", "a", RateLimits(requests_per_minute=50)), row()
    (found,) = counters(NOON, subject.limits, subject.budget, counts)
    take_grants(counts, [found], [Grant(found.which, found.period + 1, 0, 0, 0)], round((NOON + 1) * 1000))
    (now,) = counters(NOON, subject.limits, subject.budget, counts)
    assert now.period == found.period + 1


def test_what_is_not_used_is_given_back() -> None:
    subject, counts = Subject("key", "a", RateLimits(requests_per_day=50, concurrency=50)), row()
    grant(subject, counts, 20)
    admit(NOON, [(subject, counts)], NOTHING, ASKED)
    assert give_back(NOON, counts)
    assert [(one.granted, one.used) for one in all_counters(NOON, counts)] == [(1, 1), (1, 1)]
    assert not give_back(NOON, counts)


def test_one_process_asks_at_a_time() -> None:
    counts = row()
    first = begin_ask(NOON, counts)
    assert first is not None
    assert begin_ask(NOON + 1, counts) is None
    # The process has died, and another one takes over. Then the answer to the first one comes too late.
    second = begin_ask(NOON + ASK_SECONDS + 1, counts)
    assert second is not None
    assert second > first
    assert not end_ask(counts, first)
    assert end_ask(counts, second)
    third = begin_ask(NOON + 4, counts)
    assert third is not None
    assert third > second
