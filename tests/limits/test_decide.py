"""Limits and budgets: what is refused, until when, and what is counted, on rows without a table."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from trilogue.gateway.limits.counters import PERIODS, ROW, period_end, period_start
from trilogue.gateway.limits.counting import Estimate, Refused, Subject, admit, settle
from trilogue.gateway.limits.leasing import BILLION
from trilogue.gateway.limits.remaining import budgets_standing
from trilogue.gateway.limits.settings import BudgetSettings, RateLimits

NOON = 1_763_467_200.0
"""noon on a Tuesday, 18 November 2025, UTC"""
NOTHING = Estimate(0, 0)
DOLLAR = BILLION


def row() -> list[int]:
    return [0] * ROW


def key(**limits: int) -> Subject:
    return Subject("key", "ci", RateLimits(**limits))


def test_the_request_above_a_limit_is_refused_until_the_next_window() -> None:
    one, counts = key(requests_per_minute=2), row()
    for _ in range(2):
        assert isinstance(admit(NOON + 15, [(one, counts)], NOTHING), list)
    assert admit(NOON + 15, [(one, counts)], NOTHING) == Refused(one, "requests_per_minute", "rate", 45.0)
    assert isinstance(admit(NOON + 60, [(one, counts)], NOTHING), list)


def test_concurrent_requests_end() -> None:
    one, counts = key(concurrency=1), row()
    admit(NOON, [(one, counts)], NOTHING)
    assert admit(NOON, [(one, counts)], NOTHING) == Refused(one, "concurrency", "rate", 1.0)
    settle(NOON, [(one, counts)], NOTHING, NOTHING, NOON)
    assert isinstance(admit(NOON, [(one, counts)], NOTHING), list)


def test_tokens_are_estimated_and_then_corrected() -> None:
    one, counts = key(tokens_per_minute=100), row()
    left = admit(NOON, [(one, counts)], Estimate(60, 0))
    assert isinstance(left, list)
    assert [(found.what, found.limit, found.remaining) for found in left] == [("tokens", 100, 40)]
    assert isinstance(admit(NOON, [(one, counts)], Estimate(60, 0)), Refused)
    settle(NOON, [(one, counts)], Estimate(60, 0), Estimate(10, 0), NOON)
    assert isinstance(admit(NOON, [(one, counts)], Estimate(60, 0)), list)


def test_a_request_larger_than_the_limit_may_use_a_whole_window() -> None:
    one, counts = key(tokens_per_minute=100), row()
    assert isinstance(admit(NOON, [(one, counts)], Estimate(500, 0)), list)
    assert isinstance(admit(NOON, [(one, counts)], Estimate(1, 0)), Refused)


def test_a_refused_request_counts_for_nobody() -> None:
    wide, narrow = key(requests_per_minute=100), Subject("owner", "team", RateLimits(requests_per_minute=1))
    first, second = row(), row()
    admit(NOON, [(wide, first), (narrow, second)], NOTHING)
    before = list(first), list(second)
    refused = admit(NOON, [(wide, first), (narrow, second)], NOTHING)
    assert isinstance(refused, Refused)
    assert (refused.subject, (first, second)) == (narrow, before)


def test_the_client_is_told_the_tightest_limit() -> None:
    one = key(requests_per_minute=100, requests_per_day=10)
    left = admit(NOON, [(one, row())], NOTHING)
    assert isinstance(left, list)
    assert [(found.limit, found.remaining) for found in left] == [(10, 9)]


def budget(day: float | None = None, total: float | None = None) -> Subject:
    return Subject("key", "ci", budget=BudgetSettings(day=day, total=total))


def test_reservations_bound_what_can_be_spent() -> None:
    one, counts = budget(day=1.0), row()
    admitted = [admit(NOON, [(one, counts)], Estimate(0, DOLLAR // 10)) for _ in range(100)]
    assert sum(isinstance(found, list) for found in admitted) == 10
    refused = admitted[-1]
    assert refused == Refused(one, "day", "budget", 43_200.0)


def test_real_cost_replaces_the_reservation_and_warns_once() -> None:
    one, counts = budget(day=1.0), row()
    warnings = []
    for _ in range(9):
        assert isinstance(admit(NOON, [(one, counts)], Estimate(0, DOLLAR // 5)), list)
        warnings += settle(NOON, [(one, counts)], Estimate(0, DOLLAR // 5), Estimate(0, DOLLAR // 10), NOON)
    assert budgets_standing(NOON, one, counts)[0].spent == pytest.approx(0.9)
    assert [(found.period, found.limit) for found in warnings] == [("day", 1.0)]
    assert isinstance(admit(NOON, [(one, counts)], Estimate(0, DOLLAR // 5)), Refused)
    assert budgets_standing(NOON + 86_400, one, counts)[0].left == 1.0


def test_unknown_prices_are_refused_unless_allowed() -> None:
    closed, counts = budget(total=1.0), row()
    assert admit(NOON, [(closed, counts)], Estimate(0, None)) == Refused(closed, "total", "price", None)
    opened = Subject("key", "ci", budget=BudgetSettings(total=1.0, unknown_prices="allow"))
    assert isinstance(admit(NOON, [(opened, row())], Estimate(0, None)), list)


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        ("day", NOON - 43_200, NOON + 43_200),
        ("week", NOON - 43_200 - 86_400, NOON - 43_200 + 6 * 86_400),
        ("month", NOON - 43_200 - 17 * 86_400, NOON - 43_200 + 13 * 86_400),
        ("total", 0.0, None),
    ],
)
def test_periods_begin_and_end_with_the_calendar(name: str, start: float, end: float | None) -> None:
    assert (period_start(name, NOON), period_end(name, NOON)) == (start, end)
    number = next(period.number for period in PERIODS if period.name == name)
    assert number(start) == number(NOON)
    if end is not None:
        assert number(end - 1) == number(NOON) == number(end) - 1


def test_what_is_spent_besides_counts_without_being_a_request() -> None:
    """Tokens and money count; the number of requests, and of those that run, does not change."""
    limits = RateLimits(tokens_per_minute=100, requests_per_minute=2, concurrency=1)
    one, counts = Subject("key", "ci", limits, BudgetSettings(day=1.0)), row()
    admit(NOON, [(one, counts)], Estimate(10, 0))
    asking = replace(one, pays_only=True)
    assert admit(NOON, [(asking, counts)], Estimate(90, DOLLAR + 1)) == Refused(asking, "day", "budget", 43_200.0)
    assert isinstance(admit(NOON, [(asking, counts)], Estimate(90, DOLLAR)), list)
    settle(NOON, [(asking, counts)], Estimate(90, DOLLAR), Estimate(50, DOLLAR // 2), NOON)
    assert admit(NOON, [(one, counts)], NOTHING) == Refused(one, "concurrency", "rate", 1.0)
    settle(NOON, [(one, counts)], Estimate(10, 0), Estimate(10, 0), NOON)
    assert budgets_standing(NOON, one, counts)[0].spent == 0.5
    refused = admit(NOON, [(one, counts)], Estimate(50, 0))
    assert isinstance(refused, Refused)
    assert refused.limit == "tokens_per_minute"
    assert isinstance(admit(NOON, [(one, counts)], Estimate(40, 0)), list)
