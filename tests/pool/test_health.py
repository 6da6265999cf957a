"""What happens to accounts that fail, and to those that recover."""

from __future__ import annotations

from random import Random

import pytest

from tests.pool.making import DISABLE, FAULT, START, cool, fail, name_of, pool_of, use
from trilogue.routing.pool.account import AccountRequest
from trilogue.routing.pool.changes import Cooled
from trilogue.routing.pool.classify import Action, Scope, Verdict
from trilogue.routing.pool.health import growing_delay, named_delay
from trilogue.routing.pool.settings import AccountSpec, PoolSettings

NETWORK = Verdict(action=Action.NEXT, scope=Scope.ACCOUNT, why="network", fault=True)
POOR = Verdict(action=Action.NEXT, scope=Scope.ACCOUNT, why="insufficient_tokens", status=403)


def test_delays_grow_with_jitter_up_to_a_limit() -> None:
    """1 s, 2 s, 4 s and so on up to 5 min, each a fifth more or less."""
    settings, rng = PoolSettings(), Random(1)
    for failures, middle in ((1, 1.0), (2, 2.0), (5, 16.0), (9, 256.0), (10, 300.0), (1_000, 300.0)):
        delays = [growing_delay(failures, settings, rng) for _ in range(200)]
        assert middle * 0.8 <= min(delays) < max(delays) <= middle * 1.2
        assert max(delays) - min(delays) > middle * 0.2


@pytest.mark.parametrize(
    ("named", "kept"),
    [(30.0, 30.0), (0.0, 0.0), (-5.0, 0.0), (1e9, 3_600.0), (float("inf"), 3_600.0), (float("nan"), 3_600.0)],
)
def test_times_that_upstreams_name_are_made_sane(named: float, kept: float) -> None:
    """An upstream's typing error must not disable an account for years."""
    assert named_delay(named, PoolSettings()) == kept


def test_a_named_time_is_kept_and_a_growing_one_grows() -> None:
    """Nothing is sent during the cooldown; afterwards the account is used at once."""
    pool = pool_of("a")
    assert fail(pool, "a", START, cool(30.0)) == START + 30
    assert use(pool, START + 29.9) is None
    assert use(pool, START + 30) == "a"
    rests = []
    now = START + 100
    for _ in range(4):
        until = fail(pool, "a", now, cool())
        assert until is not None
        rests.append(until - now)
        now = until
    assert [round(rest) for rest in rests] in ([1, 2, 4, 8], [1, 2, 4, 9], [1, 2, 4, 7], [1, 2, 5, 8], [1, 2, 3, 8])


def test_retry_after_zero_is_not_taken_at_its_word() -> None:
    """Azure sends `retry-after-ms: 0` and refuses again."""
    pool = pool_of("a")
    assert fail(pool, "a", START, cool(0.0)) == START + 1


def test_failures_of_one_moment_count_once() -> None:
    """Twenty requests that are refused together must not double the cooldown twenty times."""
    pool = pool_of("a")
    leases = [pool.take(pool.accounts[0], START, AccountRequest()) for _ in range(20)]
    for lease in leases:
        pool.failed(lease, START + 1, cool(), Random(1))
    assert pool.accounts[0].failures == 1
    assert pool.accounts[0].cooldown_until < START + 3


def test_an_old_success_does_not_end_a_rest() -> None:
    """A long response that began before the limit was reached says nothing about the limit."""
    pool = pool_of("a")
    old = pool.take(pool.accounts[0], START, AccountRequest())
    fail(pool, "a", START + 1, cool(60.0))
    pool.finished(old, START + 2)
    assert use(pool, START + 3) is None
    late = pool.take(pool.accounts[0], START + 61, AccountRequest())
    pool.finished(late, START + 62)
    assert pool.accounts[0].failures == 0


def test_server_errors_put_an_account_last_but_not_out() -> None:
    """Other accounts are used first; without others, a failing account is better than none."""
    pool = pool_of("a", "b")
    fail(pool, "a", START, FAULT)
    assert [use(pool, START) for _ in range(3)] == ["b", "b", "b"]
    fail(pool, "b", START, cool(30.0))
    assert name_of(pool.choose(START, AccountRequest())) is None
    choice = pool.choose(START, AccountRequest(), include_failing=True)
    assert choice is not None
    assert (name_of(choice), choice.how) == ("a", "last_resort")


def test_success_ends_being_last() -> None:
    """An account that works again is no longer used last."""
    pool = pool_of("a")
    fail(pool, "a", START, FAULT)
    choice = pool.choose(START, AccountRequest(), include_failing=True)
    assert choice is not None
    pool.finished(choice, START + 0.1)
    assert use(pool, START + 0.2) == "a"
    assert pool.accounts[0].failures == 0


def test_a_bad_key_is_out_until_a_probe_succeeds() -> None:
    """One request at a time tests the key, each time after a longer delay."""
    pool = pool_of("a", AccountSpec(name="b", priority=2), probe_seconds=100)
    fail(pool, "a", START, DISABLE)
    assert use(pool, START + 99) == "b"
    probe = pool.choose(START + 101, AccountRequest())
    assert name_of(probe) == "a"
    assert name_of(pool.choose(START + 101, AccountRequest())) == "b"
    assert probe is not None
    pool.failed(probe, START + 102, DISABLE, Random(1))
    assert use(pool, START + 102 + 199) == "b"
    assert use(pool, START + 102 + 201) == "a"
    assert pool.accounts[0].disabled_by == ""
    assert [use(pool, START + 304) for _ in range(2)] == ["a", "a"]


def test_without_another_account_a_bad_key_is_probed_soon() -> None:
    """A single 401 must not cost ten minutes: probes after 2 s, 4 s and so on up to the usual time."""
    pool = pool_of("a", probe_seconds=30)
    now = START
    for wait in (2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
        fail(pool, "a", now, DISABLE)
        assert pool.accounts[0].probe_at == now + wait
        assert use(pool, now + wait - 0.01) is None
        now += wait
    assert use(pool, now) == "a"
    fail(pool, "a", now + 1, DISABLE)
    assert pool.accounts[0].probe_at == now + 3, "a success starts it anew"


def test_the_last_account_in_use_is_alone() -> None:
    """If all keys are refused at once, the last one is probed soon and the others later."""
    pool = pool_of("a", "b")
    fail(pool, "a", START, DISABLE)
    fail(pool, "b", START, DISABLE)
    assert [account.probe_at - START for account in pool.accounts] == [600.0, 2.0]


VAGUE = Verdict(action=Action.COOLDOWN, scope=Scope.ACCOUNT, why="rate_limited", status=429, any_model=False)


def test_a_limit_that_names_no_model_leaves_the_others_of_an_account_that_is_alone() -> None:
    """If there are other accounts, the whole account cools down: the others are used."""
    alone = pool_of("a")
    fail(alone, "a", START, VAGUE, model="m")
    assert use(alone, START, model="m") is None
    assert use(alone, START, model="other") == "a"
    assert alone.survey(START, AccountRequest(model="m")).reasons == {"rate_limited": 1}
    pool = pool_of("a", "b")
    fail(pool, "a", START, VAGUE, model="m")
    assert [use(pool, START, model="other") for _ in range(2)] == ["b", "b"]


def test_failures_of_one_moment_count_once_for_a_model_too() -> None:
    """An old success does not end the cooldown of a model either."""
    pool = pool_of("a")
    old, *leases = [pool.take(pool.accounts[0], START, AccountRequest(model="m")) for _ in range(21)]
    for lease in leases:
        pool.failed(lease, START + 1, VAGUE, Random(1))
    assert pool.accounts[0].model_cooldowns["m"].failures == 1
    pool.finished(old, START + 1.5)
    assert use(pool, START + 1.6, model="m") is None
    assert use(pool, START + 3, model="m") == "a"
    assert pool.accounts[0].model_cooldowns == {}


def test_what_a_hand_disables_only_a_hand_enables() -> None:
    """Neither a probe nor a success nor time enables such an account."""
    pool = pool_of("a")
    account = pool.accounts[0]
    running = pool.take(account, START, AccountRequest())
    pool.health.disable(account, START + 1, "hand")
    pool.finished(running, START + 2)
    assert use(pool, START + 1e7) is None
    pool.health.enable(account)
    assert use(pool, START + 1e7) == "a"


def test_reset_forgets_everything() -> None:
    """A reset is for operators who have just paid the bill."""
    pool = pool_of("a")
    fail(pool, "a", START, cool(3_000.0))
    fail(pool, "a", START, cool(3_000.0, Scope.ACCOUNT_MODEL))
    fail(pool, "a", START, DISABLE)
    fail(pool, "a", START, cool(3_000.0, Scope.PROVIDER))
    pool.health.reset(pool.accounts[0])
    assert use(pool, START + 1, model="m") == "a"
    assert Cooled("p", "", "", 0.0, False, "", 0) in pool.changes


@pytest.mark.parametrize("verdict", [NETWORK, POOR])
def test_an_account_that_is_not_reached_or_has_too_little_goes_behind_the_others(verdict: Verdict) -> None:
    """It may be its own connection, and every second request would be a retry."""
    pool = pool_of("a", "b")
    fail(pool, "a", START, verdict)
    account = pool.accounts[0]
    assert (account.failures, account.failed, account.error) == (1, 1, verdict.why)
    assert [use(pool, START) for _ in range(3)] == ["b", "b", "b"]


def test_too_little_money_is_no_outage() -> None:
    """However often it happens: the provider itself works."""
    pool = pool_of("a")
    for number in range(10):
        fail(pool, "a", START + number, FAULT if number < 4 else POOR)
    assert pool.health.failing_until == 0.0


def test_a_disabled_account_that_responds_is_available_again() -> None:
    """The balance is too low for this request, but the key was accepted."""
    pool = pool_of("a", "b")
    fail(pool, "a", START, DISABLE)
    fail(pool, "a", START + 601, POOR)
    assert pool.accounts[0].disabled_by == ""


def test_an_outage_puts_the_provider_last() -> None:
    """Five faults in a row on any accounts are an outage; a success ends it."""
    pool = pool_of("a", "b")
    for number in range(5):
        fail(pool, "ab"[number % 2], START + number, NETWORK)
    assert use(pool, START + 4.5) is None
    assert name_of(pool.choose(START + 4.5, AccountRequest(), include_failing=True)) == "b"
    choice = pool.choose(START + 4.5, AccountRequest(), include_failing=True)
    assert choice is not None
    pool.finished(choice, START + 5)
    assert use(pool, START + 5) is not None


def test_a_failed_proxy_is_no_outage() -> None:
    """The provider was not even reached."""
    pool = pool_of("a")
    for number in range(10):
        fail(
            pool,
            "a",
            START + number,
            Verdict(action=Action.NEXT, scope=Scope.NONE, why="network", fault=True, blame_proxy=True),
        )
    assert use(pool, START + 10) == "a"


def test_a_rule_can_cool_the_provider() -> None:
    """During its cooldown no account is used, failing ones included."""
    pool = pool_of("a", "b")
    fail(pool, "a", START, cool(20.0, Scope.PROVIDER))
    assert name_of(pool.choose(START + 1, AccountRequest(), include_failing=True)) is None
    assert pool.survey(START + 1, AccountRequest()).retry_at == START + 20
    assert use(pool, START + 20) == "b"


def test_a_refusal_of_the_request_shows_that_the_account_works() -> None:
    """A 400 shows that the account works."""
    pool = pool_of("a")
    fail(pool, "a", START, FAULT)
    fail(pool, "a", START + 1, Verdict(action=Action.CLIENT, why="client_error", status=400))
    assert pool.accounts[0].failures == 0
    assert use(pool, START + 1) == "a"


def test_a_successor_knows_what_its_predecessor_knew() -> None:
    """For a reload: the same names, the same state."""
    old = pool_of("a", "b", "c")
    use(old, START, sticky="x")
    fail(old, "a", START, cool(100.0))
    fail(old, "b", START, cool(100.0, Scope.ACCOUNT_MODEL))
    fail(old, "c", START, DISABLE)
    new = pool_of("a", "b", "c")
    for change in old.snapshot(START + 1):
        if isinstance(change, Cooled):
            new.take_over(change, START + 1)
    assert use(new, START + 1, model="other") == "b"
    assert use(new, START + 1, model="m") == "c"


def test_a_clock_that_was_set_back_cannot_lock_an_account_for_ever() -> None:
    """A cooldown that was written with a clock years ahead is cut to the longest possible one."""
    pool = pool_of("a")
    pool.take_over(Cooled("p", "a", "", START + 1e9, False, "rate_limited", 1), START)
    assert use(pool, START + 5_000) == "a"


def test_a_404_shows_as_the_last_error_of_an_account_that_stays_in_use() -> None:
    """The address may be wrong. If the request was wrong, the account must still be used."""
    pool = pool_of("a")
    verdict = Verdict(action=Action.CLIENT, why="not_found", status=404)
    assert fail(pool, "a", START, verdict) is None
    account = pool.account("a")
    assert account is not None
    assert (account.error, account.error_status, account.error_at, account.failed) == ("not_found", 404, START, 1)
    assert use(pool, START + 1) == "a"


def test_a_failed_proxy_shows_but_does_not_count_against_the_account() -> None:
    """People look for the reason at the account."""
    pool = pool_of("a")
    words = "the egress proxy refused the connection"
    fail(pool, "a", START, Verdict(action=Action.NEXT, why="network", fault=True, blame_proxy=True, text=words))
    account = pool.account("a")
    assert account is not None
    assert (account.error, account.error_text, account.failed) == ("network", words, 0)
