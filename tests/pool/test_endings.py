"""What the client gets when accounts have too little or the budget is used up, and what is not held against anyone."""

from __future__ import annotations

import pytest

from tests.pool.making import BAD_KEY, INSUFFICIENT, SERVER, START, pools, provider
from tests.pool.test_journey import begin, walk
from trilogue.model import Failure, FailureKind
from trilogue.pool import AccountSpec, Limits, ProviderSpec, RetryBudget


def test_all_accounts_have_too_little() -> None:
    """The client cannot upgrade our plan: a 503, not the upstream's 403."""
    book = pools(provider("a", "b"))
    journey = begin(book)
    assert walk(journey, INSUFFICIENT, INSUFFICIENT) == ["a", "b"]
    assert journey.next(START) is None
    ending = journey.ending(START)
    assert (ending.status, ending.code, ending.kind) == (503, "upstream_quota", FailureKind.SERVER)
    assert "upgrade" not in ending.message


@pytest.mark.parametrize("failure", [INSUFFICIENT, BAD_KEY])
def test_without_a_budget_somebody_else_may_still_answer_later(failure: Failure) -> None:
    """There is a healthy account, so it is worth while to come back."""
    book = pools(provider("a", "b"), retry_budget=RetryBudget(ratio=0, floor=0))
    journey = begin(book)
    assert walk(journey, failure) == ["a"]
    assert journey.next(START) is None
    assert journey.decision.outcome == "budget"
    ending = journey.ending(START)
    assert (ending.status, ending.code) == (503, "no_account")


def test_nobody_belongs_to_an_account_that_was_never_asked() -> None:
    """The budget says no before anything is written down."""
    book = pools(provider("a", "b"), retry_budget=RetryBudget(ratio=0, floor=0))
    journey = begin(book, sticky="k")
    walk(journey, SERVER)
    assert journey.next(START) is None
    assert book.pools["p"].sticky.find("k") == "a"


def test_what_was_never_sent_uses_nothing_up() -> None:
    """A request that cannot be said to a target takes neither its limits nor the retry budget."""
    limits = Limits(requests_per_minute=1, tokens_per_minute=100)
    spec = ProviderSpec(name="p", accounts=(AccountSpec(name="a", limits=limits),))
    book = pools(spec, provider("x", name="q"), retry_budget=RetryBudget(ratio=0, floor=0))
    for number in range(3):
        journey = book.begin(START, f"req_{number}", [("p", "m"), ("q", "n")], tokens=100)
        step = journey.next(START)
        assert step is not None
        assert step.account == "a"
        journey.refused(START)
        step = journey.next(START)
        assert step is not None
        assert step.account == "x"
        journey.finished(START)
