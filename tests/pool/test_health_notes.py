"""What health reports for other processes and for a successor, and what it takes over from them."""

from __future__ import annotations

from random import Random

import pytest

from tests.pool.making import DISABLE, FAULT, START, cool, fail, pool_of, use
from trilogue.routing.pool.account import AccountRequest
from trilogue.routing.pool.changes import Adjusted, Cooled, Erred, Switched
from trilogue.routing.pool.classify import Scope
from trilogue.routing.pool.health import LONGEST_PROBE
from trilogue.routing.pool.pool import Pool
from trilogue.routing.pool.settings import AccountSpec


def outage(pool: Pool, faults: int = 5, now: float = START) -> None:
    for _ in range(faults):
        fail(pool, "a", now, FAULT)


def test_an_outage_and_its_end_are_logged() -> None:
    """The first outage is short; each further fault makes it longer."""
    pool = pool_of("a")
    outage(pool)
    until = pool.health.failing_until
    assert 0.8 <= until - START <= 1.2
    assert Cooled("p", "", "", until, True, "server_error", 5) in pool.changes
    fail(pool, "a", START, FAULT)
    assert 1.6 <= pool.health.failing_until - START <= 2.4
    choice = pool.choose(START + 0.1, AccountRequest(), include_failing=True)
    assert choice is not None
    pool.finished(choice, START + 0.2)
    assert pool.health.failing_until == 0.0
    assert Cooled("p", "", "", 0.0, True, "", 0) in pool.changes
    assert Cooled("p", "a", "", 0.0, False, "", 0) in pool.changes


def test_a_success_starts_the_count_of_faults_anew() -> None:
    """An outage is five faults in a row, not five in all."""
    pool = pool_of("a")
    outage(pool, 4)
    pool.finished(pool.take(pool.accounts[0], START, AccountRequest()), START)
    outage(pool, 4)
    assert pool.health.failing_until == 0.0
    outage(pool, 1)
    assert pool.health.failing_until > START


def test_rests_of_a_provider_grow() -> None:
    """A rule may name no time. Requests that ran at the same time count once."""
    pool = pool_of("a")
    now, rests = START, []
    for _ in range(3):
        leases = [pool.take(pool.accounts[0], now, AccountRequest()) for _ in range(4)]
        for lease in leases:
            pool.failed(lease, now + 0.1, cool(scope=Scope.PROVIDER), Random(3))
        rests.append(round(pool.health.cooldown_until - now))
        now = pool.health.cooldown_until
    assert rests == [1, 2, 4]


def test_a_snapshot_holds_what_is_not_as_at_the_start() -> None:
    """A snapshot has nothing about accounts to which nothing has happened."""
    pool = pool_of("a", "b", "c")
    outage(pool)
    pool.accounts[1].adjustment = 5.0
    found = pool.health.snapshot(pool.accounts, START)
    account = pool.accounts[0]
    assert found == [
        Cooled("p", "", "", pool.health.failing_until, True, "server_error", 5),
        Cooled("p", "a", "", account.failing_until, True, "server_error", account.failures),
        Erred("p", "a", "server_error", 500, START),
        Adjusted("p", "b", 5.0),
    ]


@pytest.mark.parametrize(("until", "kept"), [(20.0, 20.0), (1e9, 3_600.0 * 1.2), (0.0, -START)])
def test_a_rest_that_is_taken_over_is_bounded(until: float, kept: float) -> None:
    """The clock of the other process may have been set back."""
    pool = pool_of("a")
    pool.take_over(Cooled("p", "a", "", START + until if until else 0.0, False, "rate_limited", 1), START)
    assert pool.accounts[0].cooldown_until == START + kept


def test_disabled_elsewhere() -> None:
    """An upstream disables until a probe, an operator until an operator enables. A new key was never refused."""
    pool = pool_of(AccountSpec(name="a", credential="new"), AccountSpec(name="b", credential="b"))
    first, second = pool.accounts
    pool.health.switched(first, Switched("p", "a", "upstream", START + 50, 1, "bad_key", "old"), START)
    assert first.disabled_by == ""
    pool.health.switched(second, Switched("p", "b", "upstream", START + 50, 1, "bad_key", "b"), START)
    assert (second.disabled_by, pool.ready.unavailable[1].until) == ("upstream", START + 50)
    assert [use(pool, START + 1) for _ in range(2)] == ["a", "a"]
    pool.health.switched(first, Switched("p", "a", "hand", credential="old"), START)
    assert (first.disabled_by, pool.ready.unavailable[0].until) == ("hand", START + LONGEST_PROBE)
    assert use(pool, START + 1) is None
    pool.health.switched(first, Switched("p", "a", ""), START + 2)
    assert use(pool, START + 2) == "a"


def test_disabled_by_hand_says_so() -> None:
    """The reason is there even if the operator gave none."""
    pool = pool_of("a")
    pool.health.disable(pool.accounts[0], START, "hand")
    assert [(one.why, one.until) for one in pool.ready.unavailable.values()] == [("disabled", START + LONGEST_PROBE)]


def test_the_longest_time_between_probes() -> None:
    """Probes are at most a day apart, however often the key was refused."""
    pool = pool_of("a", "b")
    now = START
    for _ in range(12):
        fail(pool, "a", now, DISABLE)
        now = pool.accounts[0].probe_at
    fail(pool, "a", now, DISABLE)
    assert pool.accounts[0].probe_at - now == 86_400.0


def test_an_outage_lasts_a_minute_at_most() -> None:
    """After a minute the provider is tried again, however long it has been down."""
    pool = pool_of("a")
    outage(pool, 20)
    assert pool.health.failing_until == START + 60.0


def test_now_means_in_a_second() -> None:
    """This holds even if cooldowns begin with more: the upstream has named a time."""
    pool = pool_of("a", first_delay_seconds=5)
    assert fail(pool, "a", START, cool(0.0)) == START + 1.0


def test_a_reset_is_reported_for_every_model() -> None:
    """Other processes must end these cooldowns too."""
    pool = pool_of("a")
    fail(pool, "a", START, cool(30.0, Scope.ACCOUNT_MODEL), model="m")
    pool.health.reset(pool.accounts[0])
    assert Cooled("p", "a", "m", 0.0, False, "", 0) in pool.changes


def test_a_probe_that_meets_a_fault_says_nothing_about_the_key() -> None:
    """The next probe comes as late as after the first refusal; accounts in use have no probes."""
    pool = pool_of("a", "b")
    fail(pool, "a", START, DISABLE)
    fail(pool, "a", START + 601, FAULT)
    fail(pool, "b", START + 601, FAULT)
    first, second = pool.accounts
    assert (first.disabled_by, first.probe_at, first.probes) == ("upstream", START + 1_201, 1)
    assert (second.disabled_by, second.probe_at) == ("", 0.0)
