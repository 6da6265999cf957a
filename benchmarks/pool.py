"""What a decision of the account pool costs, in µs: choosing an account, and a whole request (begin, choose, finish).

Run `python -m benchmarks.pool`. The aim is under 20 µs per decision at 1,000 accounts, sticky, with limits on every
account, and with most of the accounts cooling down.
"""

from __future__ import annotations

from collections.abc import Callable
from random import SystemRandom

from benchmarks.core import best
from trilogue.routing.pool.account import AccountRequest
from trilogue.routing.pool.classify import Action, Scope, Verdict
from trilogue.routing.pool.pool import Pool
from trilogue.routing.pool.pools import Pools
from trilogue.routing.pool.settings import (
    AccountLimits,
    AccountSpec,
    PoolSettings,
    PoolsSettings,
    ProviderSpec,
    Strategy,
)

DECISIONS = 20_000
CONVERSATIONS = 5_000
LIMITS = AccountLimits(concurrency=1_000, requests_per_minute=10_000_000, tokens_per_minute=1_000_000_000)
RATE_LIMITED = Verdict(action=Action.COOLDOWN, scope=Scope.ACCOUNT, delay=3_600.0, why="rate_limited")
NO_MODEL = Verdict(action=Action.COOLDOWN, scope=Scope.ACCOUNT_MODEL, delay=3_600.0, why="model_not_found")
START = 1_000_000.0


def pools(accounts: int, strategy: Strategy = "lru") -> Pools:
    """Return pools in which every account has every limit."""
    named = tuple(AccountSpec(name=f"a{number}", limits=LIMITS, balance=1e6) for number in range(accounts))
    spec = ProviderSpec(name="p", accounts=named, settings=PoolSettings(strategy=strategy))
    return Pools([spec], PoolsSettings(), rng=SystemRandom())


def choosing(pool: Pool, conversations: int = 0) -> Callable[[], object]:
    """Return a function that makes decisions, for new conversations only or for this many conversations in turn."""

    def run() -> None:
        now = START
        for number in range(DECISIONS):
            now += 0.001
            sticky = f"key-{number % conversations}" if conversations else ""
            choice = pool.choose(now, AccountRequest(model="m", sticky=sticky, tokens=100))
            if choice is not None:
                pool.finished(choice, now)

    return run


def plain(accounts: int, strategy: Strategy = "lru") -> Callable[[], object]:
    """Measure decisions for new conversations only."""
    return choosing(pools(accounts, strategy).pools["p"])


def sticky(accounts: int) -> Callable[[], object]:
    """Measure decisions for 5,000 conversations in turn."""
    return choosing(pools(accounts).pools["p"], CONVERSATIONS)


def mostly_cooling_down(accounts: int, verdict: Verdict) -> Callable[[], object]:
    """Measure decisions when nine accounts out of ten are cooling down."""
    book = pools(accounts)
    pool = book.pools["p"]
    for number in range(accounts - max(1, accounts // 10)):
        account = pool.accounts[number]
        pool.failed(pool.take(account, START, AccountRequest(model="m")), START, verdict, book.rng)
    return choosing(pool)


def whole(accounts: int) -> Callable[[], object]:
    """Measure everything that the pool does for a request, with its record."""
    book = pools(accounts)

    def run() -> None:
        now = START
        for number in range(DECISIONS):
            now += 0.001
            plan = book.begin(now, f"r{number}", [("p", "m")], sticky=f"key-{number % CONVERSATIONS}", tokens=100)
            plan.next(now)
            plan.finished(now)

    return run


ROWS: dict[str, Callable[[int], Callable[[], object]]] = {
    "lru": plain,
    "weighted": lambda accounts: plain(accounts, "weighted"),
    "highest balance": lambda accounts: plain(accounts, "highest_balance"),
    "sticky": sticky,
    "90 % cooling": lambda accounts: mostly_cooling_down(accounts, RATE_LIMITED),
    "90 % lack the model": lambda accounts: mostly_cooling_down(accounts, NO_MODEL),
    "whole request": whole,
}
SIZES = (10, 100, 1_000)


def microseconds(run: Callable[[], object], repeat: int = 3) -> float:
    """Return the CPU time per decision."""
    return best(run, repeat) / DECISIONS * 1e6


def main() -> None:
    """Run all benchmarks of the pool and print the results."""
    print("account pool: µs per decision (aim: under 20 at 1,000 accounts)")
    print(f"{'':>22}" + "".join(f"{size:>9,}" for size in SIZES))
    for name, make in ROWS.items():
        costs = [microseconds(make(size)) for size in SIZES]
        print(f"{name:>22}" + "".join(f"{cost:>9.1f}" for cost in costs))


if __name__ == "__main__":
    main()
