"""The attempts of one request: retries, fallbacks, what the client gets in the end, and the record."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.pool.making import (
    BAD_KEY,
    BAD_REQUEST,
    BAD_SIGNATURE,
    NO_MODEL,
    RATE_LIMITED,
    SERVER,
    START,
    pools,
    provider,
)
from trilogue.errors import UpstreamConnect, UpstreamFailure
from trilogue.model import Failure, FailureKind, Usage
from trilogue.routing.pool.conversation import response_key
from trilogue.routing.pool.plan import AttemptPlan
from trilogue.routing.pool.pools import Pools
from trilogue.routing.pool.settings import AccountSpec, ProviderSpec, RetryBudget, RetryRule

PLENTY = RetryBudget(ratio=10, floor=1_000)


def begin(book: Pools, *targets: tuple[str, str], sticky: str = "", number: int = 1) -> AttemptPlan:
    return book.begin(START, f"req_{number}", targets or [("p", "m")], sticky=sticky)


def walk(journey: AttemptPlan, *failures: Failure | UpstreamConnect, now: float = START) -> list[str]:
    """Let the attempts fail like this, one after the other, and return the accounts that were tried."""
    tried = []
    for failure in failures:
        step = journey.next(now)
        if step is None:
            break
        tried.append(f"{step.account}/stripped" if step.strip else step.account)
        if not journey.failed(now, failure):
            break
    return tried


def test_the_first_account_responds() -> None:
    """In the common case there is one attempt and one record."""
    book = pools(provider("a", "b"))
    journey = begin(book)
    step = journey.next(START)
    assert step is not None
    assert (step.provider, step.account, step.model, journey.wait, step.strip) == ("p", "a", "m", 0.0, False)
    journey.finished(START + 1, Usage(fresh=10, output=5))
    journey.released(START + 2)
    assert journey.decision.outcome == "answered"
    assert book.pools["p"].accounts[0].in_flight == 0


@pytest.mark.parametrize("failure", [RATE_LIMITED, BAD_KEY, SERVER, NO_MODEL, UpstreamConnect("refused")])
def test_another_account_is_tried(failure: Failure | UpstreamConnect) -> None:
    """Each account is tried at most once, whatever the failure."""
    book = pools(provider("a", "b", "c"), retry_budget=PLENTY)
    journey = begin(book)
    assert walk(journey, *[failure] * 5) == ["a", "b", "c"]
    assert journey.next(START) is None
    assert all(account.in_flight == 0 for account in book.pools["p"].accounts)


def test_the_clients_mistake_is_reported_at_once() -> None:
    """No other account would respond differently."""
    journey = begin(pools(provider("a", "b")))
    assert walk(journey, BAD_REQUEST, SERVER) == ["a"]
    assert journey.decision.outcome == "client"


def test_nothing_is_tried_again_once_the_client_has_something() -> None:
    """There is no retry, but the verdict on the account is applied."""
    book = pools(provider("a", "b"))
    journey = begin(book)
    journey.next(START)
    assert journey.failed(START, RATE_LIMITED, committed=True) is False
    assert book.pools["p"].accounts[0].cooldown_until > START


def test_most_attempts() -> None:
    """There are ten attempts by default, or as many as configured."""
    names = [f"a{number}" for number in range(30)]
    assert len(walk(begin(pools(provider(*names), retry_budget=PLENTY)), *[SERVER] * 30)) == 10
    assert len(walk(begin(pools(provider(*names, max_attempts=3), retry_budget=PLENTY)), *[SERVER] * 30)) == 3


def test_the_budget_stops_retries() -> None:
    """If everything fails, the upstream gets at most 1.2 times the requests."""
    book = pools(provider(*(f"a{number}" for number in range(20))))
    sent = sum(len(walk(begin(book, number=number), *[SERVER] * 30)) for number in range(1_000))
    assert 1_000 < sent <= 1_200


def test_the_last_failure_is_the_response_when_servers_fail() -> None:
    """The last failure is more useful than "no account is available"."""
    journey = begin(pools(provider("a", "b")))
    walk(journey, SERVER, SERVER, SERVER)
    assert journey.ending(START) == SERVER


def test_all_limited_is_a_429_with_the_earliest_time() -> None:
    """The client comes back when an account is available."""
    book = pools(provider("a", "b"))
    journey = begin(book)
    walk(
        journey,
        msgspec.structs.replace(RATE_LIMITED, retry_after=40.0),
        msgspec.structs.replace(RATE_LIMITED, retry_after=25.0),
    )
    assert journey.next(START + 5) is None
    ending = journey.ending(START + 5)
    assert ending.kind is FailureKind.RATE_LIMIT
    assert ending.retry_after == pytest.approx(20.0)
    assert ending.message == "all accounts of p are at their rate limit: slow down"
    later = begin(book, number=2)
    assert later.next(START + 10) is None
    assert later.ending(START + 10).retry_after == pytest.approx(15.0)
    assert later.ending(START + 10).message == "all accounts of p are at their rate limit"
    assert later.decision.outcome == "exhausted"


def test_a_limit_that_is_over_leaves_an_account_last_not_out() -> None:
    """This includes an account that had kept failing before it was limited."""
    book = pools(provider("a"))
    for number in range(8):
        walk(begin(book, number=number), SERVER)
    walk(begin(book, number=8), msgspec.structs.replace(RATE_LIMITED, retry_after=3.0))
    assert begin(book, number=9).next(START + 1) is None
    step = begin(book, number=10).next(START + 4)
    assert step is not None
    assert step.how == "last_resort"


def test_all_disabled_is_a_503() -> None:
    """Our keys are not the client's problem: it never gets a 401."""
    book = pools(provider("a", "b"))
    journey = begin(book)
    walk(journey, BAD_KEY, BAD_KEY)
    assert journey.next(START) is None
    ending = journey.ending(START)
    assert (ending.kind, ending.status, ending.code) == (FailureKind.SERVER, 503, "upstream_credential")
    later = begin(book, number=2)
    assert later.next(START) is None
    assert later.ending(START).kind is FailureKind.SERVER


@pytest.mark.parametrize("kind", [FailureKind.QUOTA, FailureKind.BILLING])
def test_an_empty_balance_is_reported_as_such(kind: FailureKind) -> None:
    """The next request, which is not sent at all, gets the same error. Neither a new key nor waiting would help."""
    book = pools(provider("a", "b"), retry_budget=PLENTY)
    journey = begin(book)
    walk(journey, *[Failure(kind=kind, message="no money", status=402)] * 2)
    later = begin(book, number=2)
    for one, now in ((journey, START), (later, START + 30)):
        assert one.next(now) is None
        ending = one.ending(now)
        assert (ending.kind, ending.status, ending.code) == (FailureKind.SERVER, 503, "upstream_quota")
        assert "credit or quota" in ending.message


def test_a_balance_that_is_used_up_is_reported_as_such() -> None:
    """Here the balance is the one that Trilogue counts."""
    journey = begin(pools(ProviderSpec(name="p", accounts=(AccountSpec(name="a", balance=0.0),))))
    assert journey.next(START) is None
    assert journey.ending(START).code == "upstream_quota"


def test_money_and_keys_together_are_no_matter_of_money_alone() -> None:
    """The operator must look at the accounts."""
    journey = begin(pools(provider("a", "b"), retry_budget=PLENTY))
    walk(journey, BAD_KEY, Failure(kind=FailureKind.QUOTA, message="no money", status=429, retry_after=600.0))
    assert journey.next(START) is None
    assert journey.ending(START).code == "upstream_credential"


def test_a_model_that_no_account_has_is_a_404() -> None:
    """The next request, which is not sent at all, gets the same error."""
    book = pools(provider("a", "b"))
    journey = begin(book)
    walk(journey, NO_MODEL, NO_MODEL)
    assert journey.next(START) is None
    assert journey.ending(START).kind is FailureKind.MODEL_NOT_FOUND
    later = begin(book, number=2)
    assert later.next(START) is None
    assert later.ending(START).kind is FailureKind.MODEL_NOT_FOUND
    assert begin(book, ("p", "other"), number=3).next(START) is not None


def test_reasoning_is_stripped_once_on_the_same_account() -> None:
    """If that does not help, the client gets the error."""
    journey = begin(pools(provider("a", "b")))
    assert walk(journey, BAD_SIGNATURE, BAD_SIGNATURE, SERVER) == ["a", "a/stripped"]
    assert journey.decision.outcome == "client"
    journey = begin(pools(provider("a", "b")))
    assert walk(journey, BAD_SIGNATURE) == ["a"]
    step = journey.next(START)
    assert step is not None
    assert step.strip
    journey.finished(START)
    assert [attempt.how for attempt in journey.decision.attempts] == ["strategy", "stripped"]


def test_the_next_target_is_tried_when_the_first_is_used_up() -> None:
    """After limits and refused keys, every account of the first target is tried first."""
    book = pools(provider("a", "b"), provider("x", name="q"), retry_budget=PLENTY)
    journey = begin(book, ("p", "m"), ("q", "n"))
    assert walk(journey, RATE_LIMITED, BAD_KEY, SERVER) == ["a", "b", "x"]


def test_the_next_target_is_tried_soon_in_an_outage() -> None:
    """The fallback comes before ten accounts of a provider that is down, and the next request starts with it."""
    book = pools(provider(*"abcdefgh"), provider("x", name="q"), retry_budget=PLENTY)
    journey = begin(book, ("p", "m"), ("q", "n"))
    refused = UpstreamConnect("refused")
    assert walk(journey, refused, refused) == ["a", "b"]
    step = journey.next(START)
    assert step is not None
    assert step.account == "x"
    for number in range(2, 5):
        walk(begin(book, number=number), refused)
    step = begin(book, ("p", "m"), ("q", "n"), number=9).next(START)
    assert step is not None
    assert (step.provider, step.model) == ("q", "n")


def test_a_provider_that_is_down_is_still_tried_if_there_is_no_other() -> None:
    """An attempt that may fail is better than none."""
    book = pools(provider("a", "b"))
    for number in range(10):
        assert walk(begin(book, number=number), UpstreamConnect("refused"))


def test_a_target_that_cannot_say_it_is_skipped() -> None:
    """A request that cannot be translated for one target may be for the next."""
    book = pools(provider("a", "b"), provider("x", name="q"))
    journey = begin(book, ("p", "m"), ("q", "n"))
    journey.next(START)
    journey.refused(START)
    step = journey.next(START)
    assert step is not None
    assert step.provider == "q"


def test_a_client_that_leaves_frees_its_account() -> None:
    """The client may disconnect at any stage, and this may be reported more than once."""
    book = pools(provider("a"))
    journey = begin(book)
    journey.released(START)
    journey.next(START)
    assert book.pools["p"].accounts[0].in_flight == 1
    journey.released(START + 1)
    journey.released(START + 1)
    assert book.pools["p"].accounts[0].in_flight == 0
    assert journey.decision.outcome == "released"


def test_a_response_is_continued_where_it_was_made() -> None:
    """Its reasoning and its stored state are with that account."""
    book = pools(provider("a", "b", "c"))
    journey = begin(book)
    journey.next(START)
    journey.finished(START, response_id="resp_1")
    for number in range(2, 6):
        follower = begin(book, sticky=response_key("resp_1"), number=number)
        step = follower.next(START)
        assert step is not None
        assert step.account == "a"


def proxied(*, of_account: int = 0, of_provider: int = 0) -> ProviderSpec:
    accounts = (AccountSpec(name="a", proxies=of_account), AccountSpec(name="b", proxies=of_account))
    return ProviderSpec(name="p", accounts=accounts, proxies=of_provider)


def test_proxies_are_used_in_turn() -> None:
    """All accounts of a provider share its proxies."""
    book = pools(proxied(of_provider=3))
    used = []
    for number in range(6):
        step = begin(book, number=number).next(START)
        assert step is not None
        used.append(step.proxy)
    assert used == [0, 1, 2, 0, 1, 2]


def test_a_failed_proxy_is_skipped_and_the_account_not_blamed() -> None:
    """The same account may be tried through another proxy: it was never reached."""
    book = pools(proxied(of_account=2), retry_budget=PLENTY)
    journey = begin(book)
    first = journey.next(START)
    assert first is not None
    assert (first.account, first.proxy) == ("a", 0)
    assert journey.failed(START, UpstreamConnect("refused", proxy=True))
    tried = []
    while (step := journey.next(START)) is not None:
        tried.append((step.account, step.proxy))
        journey.failed(START, UpstreamConnect("refused", proxy=True))
    assert sorted(tried) == [("a", 1), ("b", 0), ("b", 1)]
    assert all(account.failed == 0 for account in book.pools["p"].accounts)
    assert all(account.failures == 1 for account in book.pools["p"].accounts), "without a way out it goes last"
    book = pools(proxied(of_provider=2))
    journey = begin(book)
    journey.next(START)
    journey.failed(START, UpstreamConnect("refused", proxy=True))
    later = [begin(book, number=number).next(START) for number in range(3, 6)]
    assert [step.proxy for step in later if step] == [1, 1, 1]


def test_retries_after_faults_wait_a_little() -> None:
    """The delay has jitter, so that many requests do not come back together. After limits there is none."""
    book = pools(provider(*"abcdefghij"), retry_budget=PLENTY)
    journey = begin(book)
    waits = []
    while (step := journey.next(START)) is not None:
        waits.append(journey.wait)
        journey.failed(START, SERVER)
    assert waits[0] == 0.0
    assert all(0.0 <= wait <= 1.0 for wait in waits)
    assert len(set(waits)) == len(waits)
    journey = begin(pools(provider("a", "b")))
    journey.next(START)
    journey.failed(START, RATE_LIMITED)
    step = journey.next(START)
    assert step is not None
    assert journey.wait == 0.0


def test_the_users_rules_are_followed() -> None:
    """They come before everything that is built in."""
    rule = RetryRule(status=500, action="client")
    assert walk(begin(pools(provider("a", "b"), rules=(rule,))), SERVER, SERVER) == ["a"]


def test_the_record_is_complete_and_has_no_secret() -> None:
    """The record says which accounts were tried, with which result, and which were unavailable and why; as JSON."""
    book = pools(provider("a", "b", "c"))
    walk(begin(book, number=0), RATE_LIMITED)
    journey = book.begin(START + 0.5, "req_1", [("p", "m")], sticky="key")
    journey.next(START + 0.5)
    canary = Failure(
        kind=FailureKind.SERVER, message="sk-canary", code="sk-canary", status=500, native={"k": "sk-canary"}
    )
    journey.failed(START + 1.5, UpstreamFailure(canary))
    journey.next(START + 1.5)
    journey.finished(START + 3.5)
    found = journey.decision
    plain = json.loads(json.dumps(found.as_dict()))
    assert [(one["account"], one["action"], one["why"], one["status"]) for one in plain["attempts"]] == [
        ("b", "next", "server_error", 500),
        ("c", "answered", "", 0),
    ]
    assert plain["attempts"][1]["broken"] == "tried"
    assert plain["attempts"][0]["ended"] == pytest.approx(1.0)
    assert plain["considered"][0]["skipped"][0]["account"] == "a"
    assert plain["considered"][0]["skipped"][0]["why"] == "rate_limited"
    assert (plain["outcome"], plain["took"]) == ("answered", pytest.approx(3.0))
    assert "canary" not in json.dumps(plain)


def test_the_overview_shows_every_account() -> None:
    """The overview is what `trilogue accounts` prints."""
    book = pools(provider("a", "b", "c"), retry_budget=PLENTY)
    walk(begin(book), RATE_LIMITED, BAD_KEY)
    journey = begin(book, number=2)
    journey.next(START)
    lines = {line["account"]: line for line in book.overview(START)}
    assert [lines[name]["state"] for name in "abc"] == ["cooling", "refused", "ready"]
    assert [lines[name]["in_flight"] for name in "abc"] == [0, 0, 1]
    assert lines["a"]["last_error"] == "rate_limited"
    assert lines["a"]["until"] > START
    assert lines["b"]["success_rate"] == 0.0


def test_accounts_are_found_by_name() -> None:
    """Names work with and without their provider."""
    book = pools(provider("a", "b"), provider("a", name="q"))
    assert [(pool.name, account.name) for pool, account in book.find("a")] == [("p", "a"), ("q", "a")]
    assert [(pool.name, account.name) for pool, account in book.find("q/a")] == [("q", "a")]
    assert book.find("q/b") == []
