"""One account that always fails next to a healthy one, with the default settings, in virtual time.

The measure is the share of requests that fail while the healthy account could have served them. It must be zero,
whatever the bad one returns and at whatever pace the requests come, with no more retries than the budget allows.
"""

from __future__ import annotations

import pytest

from tests.pool.making import BAD_KEY, INSUFFICIENT, RATE_LIMITED, SERVER, START, pools, provider
from trilogue.errors import UpstreamConnect, UpstreamError, UpstreamTimeout, UpstreamTruncated
from trilogue.model import Failure, FailureKind
from trilogue.routing.pool.pools import Pools
from trilogue.routing.pool.settings import AccountSpec, ProviderSpec, RetryBudget, RetryRule

REQUESTS = 150

PolicyProblem = Failure | UpstreamError
TROUBLES: dict[str, PolicyProblem] = {
    "insufficient": INSUFFICIENT,
    "reset": UpstreamConnect("the upstream closed the connection before it was ready"),
    "refused": UpstreamConnect("the upstream refused the connection"),
    "timeout": UpstreamTimeout("no headers within 60 s"),
    "cut off": UpstreamTruncated("ended early"),
    "server": SERVER,
    "limited": RATE_LIMITED,
    "bad key": BAD_KEY,
    "region": Failure(
        kind=FailureKind.PERMISSION, message="no", code="unsupported_country_region_territory", status=403
    ),
    "dead proxy": UpstreamConnect("the egress proxy refused the connection", proxy=True),
    "by a rule": Failure(kind=FailureKind.INVALID_REQUEST, message="workspace full", status=400),
}
RULES = (RetryRule(text="workspace full", action="next"),)


def failed_requests(book: Pools, trouble: PolicyProblem, every: float, bad: frozenset[str] = frozenset({"a"})) -> int:
    """Return how many requests fail, with one request every so many seconds."""
    failed = 0
    for number in range(REQUESTS):
        now = START + number * every
        journey = book.begin(now, f"req_{number}", [("p", "m")])
        while (step := journey.next(now)) is not None:
            if step.account not in bad:
                journey.finished(now)
                break
            if not journey.failed(now, trouble):
                break
        failed += journey.decision.outcome != "answered"
    return failed


@pytest.mark.parametrize("every", [0.001, 0.4, 2.0, 30.0])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_no_request_fails_while_an_account_is_healthy(trouble: str, every: float) -> None:
    """An earlier version failed 120 of 150 requests with the upstream's "upgrade your plan"."""
    book = pools(provider("a", "b"), rules=RULES)
    assert failed_requests(book, TROUBLES[trouble], every) == 0
    assert book.pools["p"].accounts[0].failed <= 0.2 * REQUESTS


def test_an_account_whose_only_proxy_is_dead() -> None:
    """The account cannot be reached, so the one without a proxy is used."""
    accounts = (AccountSpec(name="a", proxies=1), AccountSpec(name="b"))
    book = pools(ProviderSpec(name="p", accounts=accounts))
    assert failed_requests(book, TROUBLES["dead proxy"], 0.4) == 0


@pytest.mark.parametrize("trouble", TROUBLES)
def test_two_of_three_are_bad(trouble: str) -> None:
    """The retry budget has room for both, because their cooldowns grow."""
    book = pools(provider(*"abc"), rules=RULES)
    assert failed_requests(book, TROUBLES[trouble], 0.4, bad=frozenset("ab")) == 0


@pytest.mark.parametrize("strategy", ["lru", "weighted"])
def test_an_account_that_is_not_asked_does_not_count_as_used(strategy: str) -> None:
    """Without a budget half of the requests reach the healthy account, even if the bad one never cools down."""
    book = pools(provider("a", "b", strategy=strategy), retry_budget=RetryBudget(ratio=0, floor=0))
    pool, failed = book.pools["p"], 0
    for number in range(20):
        journey = book.begin(START, f"req_{number}", [("p", "m")])
        step = journey.next(START)
        assert step is not None
        if step.account == "b":
            journey.finished(START)
            continue
        journey.failed(START, INSUFFICIENT)
        pool.health.reset(pool.accounts[0])
        assert journey.next(START) is None
        failed += 1
    assert failed == 10
