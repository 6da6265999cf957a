"""Which account is used next: strategies, conversations, limits and tiers."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.pool.making import DISABLE, FAULT, START, cool, fail, name_of, pool_of, use
from trilogue.model import Usage
from trilogue.routing.pool.account import AccountRequest
from trilogue.routing.pool.classify import Scope
from trilogue.routing.pool.decision import Considered
from trilogue.routing.pool.pool import Pool
from trilogue.routing.pool.settings import AccountLimits, AccountSpec, PoolSettings, ProviderSpec


def test_least_recently_used() -> None:
    """All accounts take turns, at first in the order of the configuration."""
    pool = pool_of("a", "b", "c")
    assert [use(pool, START) for _ in range(7)] == ["a", "b", "c", "a", "b", "c", "a"]


def test_weights() -> None:
    """Accounts are used in proportion to their weights, evenly mixed and not in blocks."""
    pool = pool_of(AccountSpec(name="a", weight=3), AccountSpec(name="b", weight=1), strategy="weighted")
    used = [use(pool, START) for _ in range(400)]
    assert Counter(used) == {"a": 300, "b": 100}
    assert all("b" in used[start : start + 5] for start in range(395))


def test_an_account_that_was_unavailable_does_not_catch_up() -> None:
    """An account that comes back gets its share, not everything that it has missed."""
    pool = pool_of("a", "b", strategy="weighted")
    fail(pool, "a", START, cool(10.0))
    assert {use(pool, START + 1) for _ in range(100)} == {"b"}
    assert 5 <= Counter(use(pool, START + 11) for _ in range(10))["a"] <= 6


def test_highest_balance() -> None:
    """The account with the highest balance is used until another one has more."""
    accounts = (AccountSpec(name="a", balance=10.0), AccountSpec(name="b", balance=12.0))
    settings = PoolSettings(strategy="highest_balance")
    spec = ProviderSpec(
        name="p", accounts=accounts, settings=settings, cost=lambda usage, model: usage.fresh / 1_000_000
    )
    pool = Pool(spec)
    used = []
    for _ in range(4):
        choice = pool.choose(START, AccountRequest(model="m1"))
        assert choice is not None
        pool.finished(choice, START, Usage(fresh=1_000_000))
        used.append(name_of(choice))
    assert used == ["b", "b", "a", "b"]
    assert [account.balance for account in pool.accounts] == [9.0, 9.0]


def test_a_balance_that_is_used_up_is_an_obstacle_until_it_is_set() -> None:
    """An account without balance is not used until its balance is set."""
    pool = pool_of(AccountSpec(name="a", balance=0.0), "b")
    assert {use(pool, START) for _ in range(3)} == {"b"}
    account = pool.accounts[0]
    pool.set_balance(account, 5.0)
    assert account.balance == 5.0
    assert use(pool, START) == "a"


def test_tiers() -> None:
    """The second tier is used only if no account of the first is available."""
    pool = pool_of(AccountSpec(name="spare", priority=2), "a", "b")
    assert {use(pool, START) for _ in range(4)} == {"a", "b"}
    fail(pool, "a", START, cool(10.0))
    fail(pool, "b", START, cool(5.0))
    assert use(pool, START + 1) == "spare"
    assert use(pool, START + 6) == "b"


def test_a_conversation_stays() -> None:
    """The strategy places new conversations; known ones stay with their account."""
    pool = pool_of("a", "b", "c")
    placed = {key: use(pool, START, sticky=key) for key in "xyz"}
    assert placed == {"x": "a", "y": "b", "z": "c"}
    assert [use(pool, START, sticky=key) for key in "zyxxyz"] == ["c", "b", "a", "a", "b", "c"]


@pytest.mark.parametrize(
    ("obstacle", "why"),
    [
        (lambda pool: fail(pool, "a", START, cool(10.0)), "cooling"),
        (lambda pool: fail(pool, "a", START, FAULT), "failing"),
        (lambda pool: fail(pool, "a", START, DISABLE), "disabled"),
        (lambda pool: fail(pool, "a", START, cool(10.0, Scope.ACCOUNT_MODEL)), "model"),
        (lambda pool: pool.take(pool.account("a"), START, AccountRequest()), "concurrency"),
    ],
)
def test_a_conversation_leaves_for_a_reason_only(obstacle: object, why: str) -> None:
    """The lease has the reason, and from then on the conversation stays with the new account."""
    pool = pool_of(AccountSpec(name="a", limits=AccountLimits(concurrency=1)), "b")
    assert use(pool, START, sticky="x", model="m") == "a"
    assert callable(obstacle)
    obstacle(pool)
    choice = pool.choose(START, AccountRequest(model="m", sticky="x"))
    assert choice is not None
    assert (name_of(choice), choice.broken) == ("b", why)
    assert use(pool, START + 10_000, sticky="x", model="m") == "b"


def test_a_conversation_leaves_an_account_that_was_tried() -> None:
    """One request does not use the same account twice."""
    pool = pool_of("a", "b")
    assert use(pool, START, sticky="x") == "a"
    choice = pool.choose(START, AccountRequest(sticky="x", tried={"a"}))
    assert choice is not None
    assert (name_of(choice), choice.broken) == ("b", "tried")


def test_stickiness_can_be_switched_off() -> None:
    """Without stickiness, the strategy alone decides."""
    pool = pool_of("a", "b", sticky=False)
    assert [use(pool, START, sticky="x") for _ in range(4)] == ["a", "b", "a", "b"]


def test_concurrency() -> None:
    """No more requests run at a time than allowed; a finished one makes room."""
    pool = pool_of(
        AccountSpec(name="a", limits=AccountLimits(concurrency=2)),
        AccountSpec(name="b", limits=AccountLimits(concurrency=1)),
    )
    choices = [pool.choose(START, AccountRequest()) for _ in range(4)]
    assert [name_of(choice) for choice in choices] == ["a", "b", "a", None]
    assert pool.survey(START, AccountRequest()).reasons == {"concurrency": 2}
    assert choices[1] is not None
    pool.released(choices[1])
    assert use(pool, START) == "b"


def test_requests_per_minute() -> None:
    """The limit is a bucket: this many at once, then steadily."""
    pool = pool_of(AccountSpec(name="a", limits=AccountLimits(requests_per_minute=6)))
    assert [use(pool, START) for _ in range(7)] == ["a"] * 6 + [None]
    assert pool.survey(START, AccountRequest()).retry_at == pytest.approx(START + 10)
    assert use(pool, START + 9.9) is None
    assert use(pool, START + 10.1) == "a"


def test_tokens_per_minute() -> None:
    """Tokens are estimated before and corrected by the usage. Small requests still fit where large ones do not."""
    pool = pool_of(AccountSpec(name="a", limits=AccountLimits(tokens_per_minute=1_000)))
    choice = pool.choose(START, AccountRequest(tokens=600))
    assert choice is not None
    assert name_of(pool.choose(START, AccountRequest(tokens=500))) is None
    assert use(pool, START, tokens=100) == "a"
    pool.finished(choice, START, Usage(fresh=50, output=50))
    assert use(pool, START, tokens=700) == "a"


def test_an_account_with_too_few_tokens_is_in_the_record() -> None:
    """The record of the request that is too large names the account; other records do not."""
    pool = pool_of(
        AccountSpec(name="a", limits=AccountLimits(tokens_per_minute=600)), AccountSpec(name="b", priority=2)
    )
    assert use(pool, START, tokens=500) == "a"
    assert name_of(pool.choose(START, AccountRequest(tokens=200))) == "b"
    looked = pool.considered("")
    assert (looked.candidates, looked.away) == (2, 1)
    assert [(one.account, one.why, one.until) for one in looked.skipped] == [("a", "tokens_per_minute", START + 10)]
    assert use(pool, START, tokens=50) == "a"
    assert (pool.considered("").away, pool.considered("").skipped) == (0, ())
    fail(pool, "b", START, cool(30.0))
    assert name_of(pool.choose(START, AccountRequest(tokens=200))) is None
    assert {one.account: one.why for one in pool.considered("").skipped} == {
        "a": "tokens_per_minute",
        "b": "rate_limited",
    }


def test_a_cooldown_for_one_model_is_in_the_records_of_this_model_only() -> None:
    """Also after another cooldown of the same account has begun or ended."""
    pool = pool_of("a", "b")
    fail(pool, "a", START, cool(600.0, Scope.ACCOUNT_MODEL), model="rare")
    fail(pool, "a", START, cool(300.0, Scope.ACCOUNT_MODEL), model="odd")
    assert use(pool, START + 1, model="rare") == use(pool, START + 1, model="odd") == "b"
    for model, until in (("rare", START + 600), ("odd", START + 300)):
        looked = pool.considered(model)
        assert (looked.candidates, looked.away) == (2, 1)
        assert [(one.account, one.model, one.until) for one in looked.skipped] == [("a", model, until)]
    assert pool.considered("common") == Considered(provider="p", candidates=2, away=0)
    assert use(pool, START + 301, model="rare") == "b"
    assert [one.account for one in pool.considered("rare").skipped] == ["a"]
    use(pool, START + 301, model="odd")
    assert pool.considered("odd").away == 0


def test_a_request_larger_than_the_limit_waits_for_a_full_bucket() -> None:
    """Otherwise such a request could never be sent."""
    pool = pool_of(AccountSpec(name="a", limits=AccountLimits(tokens_per_minute=100)))
    assert use(pool, START, tokens=5_000) == "a"
    assert use(pool, START, tokens=10) is None


def test_workers_share_the_limits() -> None:
    """Each worker has its part of a limit, and at least one."""
    limits = AccountLimits(concurrency=5, requests_per_minute=100, tokens_per_minute=1)
    pool = Pool(ProviderSpec(name="p", accounts=(AccountSpec(name="a", limits=limits),)), share=0.25)
    account = pool.accounts[0]
    assert account.concurrency == 1
    assert account.requests is not None
    assert account.requests.rate == 25
    assert account.tokens is not None
    assert account.tokens.rate == 1


def test_the_share_of_a_limit_changes_while_it_is_used() -> None:
    """Other machines come and go. What was used stays used."""
    limits = AccountLimits(concurrency=4, requests_per_minute=100, tokens_per_minute=1_000)
    pool = Pool(ProviderSpec(name="p", accounts=(AccountSpec(name="a", limits=limits), AccountSpec(name="b"))))
    account, unlimited = pool.accounts
    assert account.requests is not None
    assert account.tokens is not None
    account.requests.take(START, 50)
    pool.set_share(0.25)
    assert (account.concurrency, account.requests.rate, account.tokens.rate) == (1, 25, 250)
    assert account.requests.level(START) == 12.5
    assert unlimited.concurrency is None
    taken = AccountRequest(tried={"b"})
    assert pool.choose(START, taken) is not None
    assert pool.choose(START, taken) is None
    pool.set_share(1.0)
    assert pool.choose(START, taken) is not None


def test_one_that_has_the_model_is_found_among_many() -> None:
    """The account is found even after others have come and gone."""
    pool = pool_of(*(f"a{number}" for number in range(50)))
    for number in range(50):
        if number != 33:
            fail(pool, f"a{number}", START, cool(600.0, Scope.ACCOUNT_MODEL), model="rare")
    assert {use(pool, START + 1, model="rare") for _ in range(5)} == {"a33"}
    assert len({use(pool, START + 1, model="common") for _ in range(50)}) == 50
    assert len({use(pool, START + 601, model="rare") for _ in range(50)}) == 50


def test_no_account_is_available() -> None:
    """If no account is available, the survey says why and when to come back."""
    pool = pool_of("a", "b", "c")
    fail(pool, "a", START, cool(30.0))
    fail(pool, "b", START, cool(20.0))
    fail(pool, "c", START, DISABLE)
    choice = pool.choose(START + 1, AccountRequest())
    assert choice is None
    survey = pool.survey(START + 1, AccountRequest())
    assert survey.reasons == {"rate_limited": 2, "bad_key": 1}
    assert survey.retry_at == pytest.approx(START + 20)
    assert {skipped.account for skipped in pool.considered("").skipped} == {"a", "b", "c"}


def test_explanations_are_bounded() -> None:
    """A record does not grow with the pool."""
    pool = pool_of(*(f"a{number}" for number in range(100)))
    for number in range(99):
        fail(pool, f"a{number}", START, cool(30.0))
    choice = pool.choose(START + 1, AccountRequest())
    looked = pool.considered("")
    assert (name_of(choice), looked.candidates, looked.away, len(looked.skipped)) == ("a99", 100, 99, 8)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", [1, 2, 20])
def test_the_order_survives_every_kind_of_event(size: int, last: bool) -> None:
    """In any order of events, available accounts are found and unavailable ones are not used."""
    rng = Random(3)
    pool = pool_of(*(AccountSpec(name=f"a{number}", limits=AccountLimits(concurrency=2)) for number in range(size)))
    now, leases = START, []
    for _ in range(5_000):
        now += rng.random() * 6 / size
        ask = AccountRequest(model=rng.choice("mn"), tokens=1)
        choice = pool.choose(now, ask, include_failing=False) or pool.choose(now, ask, include_failing=last)
        if choice is None:
            ill = now < pool.health.failing_until and not last
            able = [one for one in pool.accounts if not pool.ready.why_unavailable(one, now, ask, include_failing=last)]
            assert ill or not able
        else:
            assert choice.account.in_flight <= 2
            leases.append(choice)
        if leases and rng.random() < 0.9:
            lease = leases.pop(rng.randrange(len(leases)))
            outcome = rng.choice([None, None, None, cool(2.0), FAULT, DISABLE, cool(2.0, Scope.ACCOUNT_MODEL)])
            if outcome is None:
                pool.finished(lease, now)
            else:
                pool.failed(lease, now, outcome, rng)
