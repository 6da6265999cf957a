"""No other account is available: which cooldowns a request waits for, and which it reports at once."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from tests.pool.making import BAD_KEY, NO_MODEL, RATE_LIMITED, SERVER, START, pools, provider
from tests.pool.test_plan import PLENTY, begin, walk
from trilogue.model import Failure, FailureKind
from trilogue.routing.pool.pools import Pools
from trilogue.routing.pool.settings import PoolsSettings, RetryBudget

SOON = msgspec.structs.replace(RATE_LIMITED, retry_after=3.0)


def test_without_another_account_a_short_cooldown_is_waited_out() -> None:
    """The same account is tried once more, with no more retries than the budget allows."""
    book = pools(provider("a"))
    journey = begin(book)
    assert walk(journey, SOON) == ["a"]
    assert journey.next(START) is None
    pause = journey.pause(START)
    assert 3.0 <= pause <= 3.3
    step = journey.next(START + pause)
    assert step is not None
    assert step.account == "a"
    journey.finished(START + pause)
    assert journey.decision.outcome == "answered"
    assert journey.decision.waited == pause
    assert book.budget.retries == 1


def test_a_request_that_comes_during_a_rest_waits_too() -> None:
    """Nothing was sent for it yet, so the budget does not matter."""
    book = pools(provider("a"), retry_budget=RetryBudget(ratio=0, floor=0))
    walk(begin(book), SOON)
    journey = begin(book, number=2)
    assert journey.next(START + 1) is None
    pause = journey.pause(START + 1)
    assert 2.0 <= pause <= 2.2
    assert journey.next(START + 1 + pause) is not None
    assert book.budget.retries == 0


def test_a_request_waits_no_longer_than_the_setting_says() -> None:
    """The limit is for all pauses together: what is left after the first may be too little for another."""
    book = pools(provider("a"), retry_budget=PLENTY)
    journey, now, pauses = begin(book), START, []
    while journey.next(now) is not None:
        journey.failed(now, SOON)
        assert journey.next(now) is None
        pauses.append(journey.pause(now))
        now += pauses[-1]
    assert [round(pause) for pause in pauses] == [3, 3, 3, 0]
    assert sum(pauses) <= 10
    ending = journey.ending(now)
    assert ending.kind is FailureKind.RATE_LIMIT
    assert ending.retry_after == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("settings", "failure", "budget"),
    [
        ({"max_wait_seconds": 0}, SOON, PLENTY),
        ({"max_wait_seconds": 2.9}, SOON, PLENTY),
        ({}, msgspec.structs.replace(RATE_LIMITED, retry_after=10.1), PLENTY),
        ({}, SERVER, PLENTY),
        ({}, NO_MODEL, PLENTY),
        ({}, BAD_KEY, PLENTY),
        ({}, SOON, RetryBudget(ratio=0, floor=0)),
    ],
)
def test_what_is_not_waited_for(settings: dict[str, Any], failure: Failure, budget: RetryBudget) -> None:
    """A request does not wait for long cooldowns, faults, keys, or retries that the budget would refuse."""
    journey = begin(pools(provider("a", **settings), retry_budget=budget))
    walk(journey, failure)
    assert journey.next(START) is None
    assert journey.pause(START) == 0.0
    assert journey.decision.outcome == "exhausted"


def test_the_account_that_returns_first_is_waited_for() -> None:
    """It may be an account of any target, each with its own setting."""
    book = pools(provider("a"), provider("x", name="q", max_wait_seconds=0), retry_budget=PLENTY)
    journey = begin(book, ("p", "m"), ("q", "n"))
    walk(journey, SOON, msgspec.structs.replace(RATE_LIMITED, retry_after=1.0))
    assert journey.next(START) is None
    assert 3.0 <= journey.pause(START) <= 3.3


def test_a_refused_key_is_named_as_such_however_soon_it_is_probed() -> None:
    """Clients that retry would only wait for the same error."""
    book = pools(provider("a"))
    journey = begin(book)
    walk(journey, BAD_KEY)
    for one in (journey, begin(book, number=2)):
        assert one.next(START + 1) is None
        ending = one.ending(START + 1)
        assert (ending.status, ending.code) == (503, "upstream_credential")
    assert begin(book, number=3).next(START + 2) is not None


class Longest(Random):
    """Random numbers that are always at their upper end."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


def test_the_longest_waits_between_faults() -> None:
    """The delays double, up to a second."""
    specs = [provider(*"abcdefgh")]
    book = Pools(specs, PoolsSettings(retry_budget=PLENTY), rng=Longest())
    journey, waits = begin(book), []
    while journey.next(START) is not None:
        waits.append(journey.wait)
        journey.failed(START, SERVER)
    assert waits == [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_the_shortest_pause() -> None:
    """An account that is available at once is not asked for in a tight loop."""
    book = pools(provider("a"), retry_budget=PLENTY)
    walk(begin(book), SOON)
    journey = begin(book, number=2)
    assert journey.next(START + 2.99) is None
    assert 0.05 <= journey.pause(START + 2.99) <= 0.055


def test_a_limit_without_a_time_is_a_second() -> None:
    """There is an account that could be used, but not yet by this request."""
    book = pools(provider("a", "b"), retry_budget=RetryBudget(ratio=0, floor=0))
    journey = begin(book)
    walk(journey, SOON)
    assert journey.next(START) is None
    assert journey.ending(START).retry_after == 1.0


def test_a_look_is_written_down_once() -> None:
    """Nothing has changed between two attempts, so the record has it once."""
    gone = Failure(kind=FailureKind.NOT_FOUND, message="Response with id 'resp_1' not found", status=404)
    journey = begin(pools(provider("a", "b"), retry_budget=PLENTY))
    assert walk(journey, gone, gone) == ["a", "b"]
    assert len(journey.decision.considered) == 1
    journey = begin(pools(provider("a", "b"), retry_budget=PLENTY))
    walk(journey, SERVER, SERVER)
    assert len(journey.decision.considered) == 2
