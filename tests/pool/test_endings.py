"""What the client gets if accounts lack money or the retry budget is used up, and what counts against no account."""

from __future__ import annotations

import msgspec
import pytest

from tests.pool.making import BAD_KEY, INSUFFICIENT, RATE_LIMITED, SERVER, START, pools, provider
from tests.pool.test_plan import begin, walk
from trilogue.errors import UpstreamConnect
from trilogue.model import Failure, FailureKind
from trilogue.routing.pool.settings import AccountLimits, AccountSpec, ProviderSpec, RetryBudget, RetryRule


def test_all_accounts_have_too_little() -> None:
    """The client cannot upgrade our plan: it gets a 503, not the upstream's 403."""
    book = pools(provider("a", "b"))
    journey = begin(book)
    assert walk(journey, INSUFFICIENT, INSUFFICIENT) == ["a", "b"]
    assert journey.next(START) is None
    ending = journey.ending(START)
    assert (ending.status, ending.code, ending.kind) == (503, "upstream_quota", FailureKind.SERVER)
    assert "upgrade" not in ending.message


@pytest.mark.parametrize("failure", [INSUFFICIENT, BAD_KEY])
def test_without_a_budget_another_account_may_still_respond_later(failure: Failure) -> None:
    """There is a healthy account, so the client is asked to retry."""
    book = pools(provider("a", "b"), retry_budget=RetryBudget(ratio=0, floor=0))
    journey = begin(book)
    assert walk(journey, failure) == ["a"]
    assert journey.next(START) is None
    assert journey.decision.outcome == "budget"
    ending = journey.ending(START)
    assert (ending.status, ending.code, ending.retry_after) == (503, "retry_budget", 1.0)
    assert ending.message.startswith(("p/a has too little left for this request", "p refused the key of a: 401 no"))
    assert ending.message.endswith("no other account was tried because the retry budget is spent (pool.retry_budget)")


def test_the_first_try_at_another_target_is_no_retry() -> None:
    """It follows whatever the budget says, before a second account of the first target, and takes nothing from it."""
    book = pools(provider("a", "b"), provider("x", "y", name="q"), retry_budget=RetryBudget(ratio=0, floor=0))
    journey = begin(book, ("p", "m"), ("q", "n"), ("q", "o"))
    assert walk(journey, RATE_LIMITED, SERVER, SERVER) == ["a", "x", "y"]
    assert [attempt.model for attempt in journey.decision.attempts] == ["m", "n", "o"]
    assert (journey.next(START), journey.decision.outcome, book.budget.retries) == (None, "budget", 0)


def test_a_target_whose_accounts_cool_down_is_waited_for_without_a_budget() -> None:
    book = pools(provider("a"), provider("x", name="q"), retry_budget=RetryBudget(ratio=0, floor=0))
    walk(begin(book, ("q", "n")), msgspec.structs.replace(RATE_LIMITED, retry_after=3.0))
    journey = begin(book, ("p", "m"), ("q", "n"), number=2)
    assert walk(journey, BAD_KEY) == ["a"]
    assert journey.next(START) is None
    pause = journey.pause(START)
    assert 3.0 <= pause <= 3.3
    step = journey.next(START + pause)
    assert step is not None
    assert step.account == "x"


def test_the_error_says_who_refused_what() -> None:
    """Each account has its own reason, a few of them are named, and the next request, which is not sent, learns it."""
    book = pools(provider(*"abcde"), provider("x", name="q"), retry_budget=RetryBudget(floor=100))
    book.disable(book.find("x")[0], START)
    quota = Failure(kind=FailureKind.QUOTA, message="no quota", status=429, retry_after=90.0)
    first = begin(book, ("p", "m"), ("q", "n"))
    walk(first, BAD_KEY, quota, *[BAD_KEY] * 3)
    for journey in (first, begin(book, ("p", "m"), ("q", "n"), number=2)):
        assert journey.next(START) is None
        assert journey.ending(START).message == (
            "p refused the key of a: 401 no (for 600 s more); p/b has used up its quota: 429 no quota (for 90 s more); "
            "p refused the key of c: 401 no (for 600 s more); and 2 more of p; q/x was disabled by hand "
            "(see `trilogue accounts`)"
        )


def test_a_limit_and_a_refused_key_are_not_all_at_their_limit() -> None:
    journey = begin(pools(provider("a", "b")))
    walk(journey, RATE_LIMITED, BAD_KEY)
    assert journey.next(START) is None
    ending = journey.ending(START)
    assert (ending.kind, ending.code) == (FailureKind.RATE_LIMIT, "rate_limit_exceeded")
    assert "p/a is at its rate limit: 429 slow down" in ending.message
    assert "p refused the key of b: 401 no" in ending.message


def test_no_conversation_sticks_to_an_account_that_was_never_used() -> None:
    """The retry budget is checked before a conversation is assigned to an account."""
    book = pools(provider("a", "b"), retry_budget=RetryBudget(ratio=0, floor=0))
    journey = begin(book, sticky="k")
    walk(journey, SERVER)
    assert journey.next(START) is None
    assert book.pools["p"].sticky.find("k") == "a"


def test_what_was_never_sent_uses_nothing_up() -> None:
    """A request that a target cannot express uses neither its limits nor the retry budget."""
    limits = AccountLimits(requests_per_minute=1, tokens_per_minute=100)
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


def test_the_limit_of_attempts_differs_from_no_account_left() -> None:
    """The client gets the last failure, whatever it was."""
    journey = begin(pools(provider(*"abc", max_attempts=2)))
    assert walk(journey, RATE_LIMITED, RATE_LIMITED, RATE_LIMITED) == ["a", "b"]
    assert journey.next(START) is None
    assert journey.decision.outcome == "attempts"
    assert journey.pause(START) == 0.0
    assert journey.ending(START) == RATE_LIMITED


@pytest.mark.parametrize(("seconds", "code"), [(60.0, "no_account"), (61.0, "upstream_credential")])
def test_a_minute_is_soon(seconds: float, code: str) -> None:
    """For waits of up to a minute the client is asked to retry; longer ones need the operator."""
    rule = RetryRule(status=418, action="cooldown", seconds=seconds)
    journey = begin(pools(provider("a"), rules=(rule,)))
    walk(journey, Failure(kind=FailureKind.INVALID_REQUEST, message="", status=418))
    assert journey.next(START) is None
    ending = journey.ending(START)
    assert (ending.code, ending.retry_after) == (code, seconds)
    assert journey.decision.attempts[0].rests == seconds


def test_all_kinds_of_keys_together() -> None:
    """Refused, closed and disabled by hand: only the operator can help."""
    book = pools(provider(*"abc"))
    book.disable(book.find("c")[0], START)
    closed = Failure(kind=FailureKind.PERMISSION, message="", code="organization_on_hold", status=403)
    journey = begin(book)
    assert walk(journey, BAD_KEY, closed) == ["a", "b"]
    assert journey.next(START) is None
    assert journey.ending(START).code == "upstream_credential"


def test_a_refused_key_and_no_credit_together() -> None:
    """Here too: a retry does not help, whichever of the two an account lacks."""
    broke = Failure(kind=FailureKind.BILLING, message="no credit", status=402)
    journey = begin(pools(provider("a", "b")))
    assert walk(journey, BAD_KEY, broke) == ["a", "b"]
    assert journey.next(START) is None
    ending = journey.ending(START)
    assert ending.code == "upstream_credential"
    assert "p refused the key of a" in ending.message
    assert "p/b has no credit left" in ending.message


@pytest.mark.parametrize(("seconds", "code"), [(30.0, "upstream_connect"), (90.0, "upstream_unreachable")])
def test_out_of_reach_while_the_next_target_is_limited(seconds: float, code: str) -> None:
    """The client is asked to retry if the other target will be back soon."""
    book = pools(provider("x", name="q"), provider("a"))
    walk(begin(book, ("p", "m")), msgspec.structs.replace(RATE_LIMITED, retry_after=seconds))
    journey = begin(book, ("q", "n"), ("p", "m"), number=2)
    step = journey.next(START)
    assert step is not None
    assert step.account == "x"
    refused = UpstreamConnect("refused")
    refused.connecting = True
    assert journey.failed(START, refused)
    assert journey.next(START) is None
    assert journey.ending(START).code == code


def test_parameters_are_left_out_a_few_times() -> None:
    """The same account gets the request again, and the plan knows how often this was done."""
    journey = begin(pools(provider("a", "b")))
    journey.next(START)
    assert journey.adjusted is False
    journey.adjust(START, 400)
    assert journey.adjusted is False
    step = journey.next(START)
    assert step is not None
    assert (step.account, step.how) == ("a", "adjusted")


def test_the_proxy_that_worked_is_the_one_that_was_used() -> None:
    """The proxy before it, which failed, is still cooling down."""
    book = pools(ProviderSpec(name="p", accounts=(AccountSpec(name="a", proxies=2),)))
    journey = begin(book)
    journey.next(START)
    journey.failed(START, UpstreamConnect("refused", proxy=True))
    step = journey.next(START)
    assert step is not None
    assert step.proxy == 1
    journey.finished(START)
    used = [begin(book, number=number).next(START) for number in range(2, 5)]
    assert [step.proxy for step in used if step] == [1, 1, 1]
