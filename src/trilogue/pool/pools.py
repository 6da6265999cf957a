"""All providers' pools with what they share: rules, the retry budget, the recent decisions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

from trilogue.pool.changes import Adjusted, Bound, Change, Cooled, Erred, Learned, Switched, Tally
from trilogue.pool.choice.account import Account, AccountRequest
from trilogue.pool.decision.record import Decision, Recent
from trilogue.pool.decision.retry_budget import Budget
from trilogue.pool.plan import AttemptPlan, PlannedTarget
from trilogue.pool.pool import MAX_CHANGES, Pool
from trilogue.pool.settings import PoolsSettings, ProviderSpec, RetryRule


class Pools:
    """The accounts of all providers. `share`: the part of every account's limits that this process may use."""

    def __init__(
        self, specs: Iterable[ProviderSpec], settings: PoolsSettings, *, rng: Random, share: float = 1.0
    ) -> None:
        self.changes: deque[Change] = deque(maxlen=MAX_CHANGES)
        """what has happened and was not drained yet"""
        self.pools = {spec.name: Pool(spec, share=share, changes=self.changes) for spec in specs}
        self.settings = settings
        self.budget = Budget(settings.retry_budget)
        self.recent = Recent(settings.keep_decisions)
        self.rng = rng

    @property
    def rules(self) -> tuple[RetryRule, ...]:
        """The user's rules."""
        return self.settings.rules

    def begin(
        self, now: float, request_id: str, targets: Sequence[tuple[str, str]], *, sticky: str = "", tokens: int = 0
    ) -> AttemptPlan:
        """A client's request begins. `targets`: provider and upstream model, in order of preference."""
        self.budget.request(now)
        decision = Decision(
            request_id=request_id, at=now, model=targets[0][1], sticky=bool(sticky), considered=[], attempts=[]
        )
        self.recent.add(decision)
        legs = [
            PlannedTarget(pool=self.pools[name], model=model, sticky=sticky, tokens=tokens) for name, model in targets
        ]
        return AttemptPlan(decision, self, legs, legs[0])

    def find(self, name: str) -> list[tuple[Pool, Account]]:
        """Accounts by `account` or `provider/account`."""
        provider, slash, rest = name.partition("/")
        wanted = rest if slash else name
        return [
            (pool, account)
            for pool in self.pools.values()
            if (not slash or pool.name == provider) and (account := pool.account(wanted)) is not None
        ]

    def enable(self, account: tuple[Pool, Account]) -> None:
        """Back in use."""
        account[0].health.enable(account[1])

    def disable(self, account: tuple[Pool, Account], now: float) -> None:
        """Out of use until someone enables it."""
        account[0].health.disable(account[1], now, "hand", "by_hand")

    def reset(self, account: tuple[Pool, Account]) -> None:
        """As if nothing had happened: no rest, no failures, enabled."""
        account[0].health.reset(account[1])

    def set_balance(self, account: tuple[Pool, Account], balance: float) -> None:
        """By hand."""
        pool, one = account
        pool.changes.append(Adjusted(pool.name, one.name, pool.set_balance(one, balance)))

    def drain(self) -> list[Change]:
        """What has happened since the last call, for a store."""
        found = list(self.changes)
        self.changes.clear()
        return found

    def tallies(self) -> list[Tally]:
        """Counts that have changed since the last call, for a store."""
        return [tally for pool in self.pools.values() for tally in pool.tallies()]

    def snapshot(self, now: float) -> list[Change]:
        """Everything that a successor should know: for a reload."""
        return [change for pool in self.pools.values() for change in pool.snapshot(now)]

    def tell(self, now: float, heirs: Pools | None = None) -> list[Change]:
        """What only a file needs to know, when these pools end. `heirs` that are given know it from the snapshot."""
        known = {name for name, heir in heirs.pools.items() if len(heir.accounts) == 1} if heirs else set()
        told = [(pool.name, pool.tell(now)) for pool in self.pools.values()]
        return [change for name, changes in told if name not in known for change in changes]

    def apply(self, changes: Iterable[Change], now: float) -> None:
        """What other processes, or this one before a restart, have found out. Nothing of it is written again."""
        for change in changes:
            pool = self.pools.get(change.provider)
            if pool is not None:
                _apply(pool, change, now)

    def elsewhere(self, tallies: Iterable[Tally]) -> None:
        """What other processes have counted, each account's sum."""
        for tally in tallies:
            pool = self.pools.get(tally.provider)
            account = pool.account(tally.account) if pool else None
            if pool is None or account is None:
                continue
            account.ok_elsewhere, account.failed_elsewhere = tally.ok, tally.failed
            account.in_flight_elsewhere = tally.in_flight
            if account.spent_elsewhere != tally.spent:
                account.spent_elsewhere = tally.spent
                pool.rebalanced(account)

    def add(self, tally: Tally) -> None:
        """Counts of the pools before these: they go on here."""
        for pool, account in self.find(f"{tally.provider}/{tally.account}"):
            pool.add(account, tally)

    @property
    def busy(self) -> bool:
        """Whether any request is under way."""
        return any(account.in_flight for pool in self.pools.values() for account in pool.accounts)

    def overview(self, now: float) -> Iterator[dict[str, Any]]:
        """The live pool, one line per account, without secrets."""
        for pool in self.pools.values():
            for account in pool.accounts:
                yield describe(pool, account, now)


def _apply(pool: Pool, change: Change, now: float) -> None:
    if isinstance(change, Cooled):
        pool.cooled(change, now)
        return
    if isinstance(change, Learned):
        pool.lessons.take_over(change)
        return
    account = pool.account(change.account)
    if account is None:
        return
    match change:
        case Switched():
            pool.health.switched(account, change, now)
        case Erred():
            account.error, account.error_status, account.error_at = change.why, change.status, change.at
        case Adjusted():
            account.adjust = change.adjust
            pool.rebalanced(account)
        case Bound():
            pool.sticky.bind(change.key, change.account)


def describe(pool: Pool, account: Account, now: float) -> dict[str, Any]:
    """An account for people: state, until when, what it has done."""
    why = pool.ready.obstacle(account, now, AccountRequest(), desperate=False)
    until = account.soft_until if why == "failing" else account.free_at(now, "", 0)
    reason = account.why if why in ("cooling", "failing", "disabled") else why
    if why in ("", "failing") and now < pool.health.until:
        why, until, reason = "cooling", pool.health.until, pool.health.why
    rate = account.success_rate()
    return {
        "provider": pool.name,
        "account": account.name,
        "state": {"": "ready", "failing": "failing", "disabled": "disabled", "cooling": "cooling"}.get(why, "limited"),
        "why": reason or None,
        "until": until if why and until is not None and until > now else None,
        "models": {model: block.until for model, block in account.models.items() if block.until > now},
        "in_flight": account.in_flight + account.in_flight_elsewhere,
        "last_error": account.error or None,
        "last_error_status": account.error_status or None,
        "last_error_at": account.error_at or None,
        "requests": account.ok + account.failed + account.ok_elsewhere + account.failed_elsewhere,
        "success_rate": None if rate is None else round(rate, 4),
        "balance": None if account.balance is None else round(account.balance, 6),
    }
