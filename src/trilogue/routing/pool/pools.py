"""The pools of all providers, and what they share: rules and the retry budget."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

from trilogue.routing.pool.account import Account, AccountRequest
from trilogue.routing.pool.changes import AccountTally, Adjusted, Bound, Change, Cooled, Erred, Learned, Switched
from trilogue.routing.pool.decision import Decision
from trilogue.routing.pool.plan import AttemptPlan, Budget, PlannedTarget
from trilogue.routing.pool.pool import MAX_CHANGES, Pool
from trilogue.routing.pool.settings import PoolsSettings, ProviderSpec, RetryRule


class Pools:
    """The accounts of all providers. `share`: the part of every account's limits that this process may use."""

    def __init__(
        self, specs: Iterable[ProviderSpec], settings: PoolsSettings, *, rng: Random, share: float = 1.0
    ) -> None:
        self.changes: deque[Change] = deque(maxlen=MAX_CHANGES)
        """what has happened since the last `drain`"""
        self.pools = {spec.name: Pool(spec, share=share, changes=self.changes) for spec in specs}
        self.settings = settings
        self.budget = Budget(settings.retry_budget)
        self.rng = rng

    def set_share(self, share: float) -> None:
        """Change the part of every account's limits that this process may use, because others have come or gone."""
        for pool in self.pools.values():
            pool.set_share(share)

    @property
    def rules(self) -> tuple[RetryRule, ...]:
        """The retry rules of the configuration."""
        return self.settings.rules

    def begin(
        self, now: float, request_id: str, targets: Sequence[tuple[str, str]], *, sticky: str = "", tokens: int = 0
    ) -> AttemptPlan:
        """Return the plan for a client's request. `targets`: providers and upstream models, in order of preference."""
        self.budget.request(now)
        decision = Decision(
            request_id=request_id, at=now, model=targets[0][1], sticky=bool(sticky), considered=[], attempts=[]
        )
        planned = [
            PlannedTarget(pool=self.pools[name], model=model, sticky=sticky, tokens=tokens) for name, model in targets
        ]
        return AttemptPlan(decision, self, planned, planned[0])

    def find(self, name: str) -> list[tuple[Pool, Account]]:
        """Return the accounts that `account` or `provider/account` names, with their pools."""
        provider, slash, rest = name.partition("/")
        wanted = rest if slash else name
        return [
            (pool, account)
            for pool in self.pools.values()
            if (not slash or pool.name == provider) and (account := pool.account(wanted)) is not None
        ]

    def enable(self, account: tuple[Pool, Account]) -> None:
        """Enable an account that a person or an upstream has disabled."""
        account[0].health.enable(account[1])

    def disable(self, account: tuple[Pool, Account], now: float) -> None:
        """Disable an account until a person enables it."""
        account[0].health.disable(account[1], now, "hand", "by_hand")

    def reset(self, account: tuple[Pool, Account]) -> None:
        """Forget everything that went wrong with an account: no cooldown, no failures, enabled."""
        account[0].health.reset(account[1])

    def set_balance(self, account: tuple[Pool, Account], balance: float) -> None:
        """Set the balance of an account."""
        pool, one = account
        pool.changes.append(Adjusted(pool.name, one.name, pool.set_balance(one, balance)))

    def drain(self) -> list[Change]:
        """Return what has happened since the last call, for a store."""
        found = list(self.changes)
        self.changes.clear()
        return found

    def tallies(self) -> list[AccountTally]:
        """Return the counts that have changed since the last call, for a store."""
        return [tally for pool in self.pools.values() for tally in pool.tallies()]

    def snapshot(self, now: float) -> list[Change]:
        """Return everything that the pools of the next configuration need to know."""
        return [change for pool in self.pools.values() for change in pool.snapshot(now)]

    def unwritten(self, now: float, successors: Pools | None = None) -> list[Change]:
        """Return what a store has to learn when these pools end, because it was not reported before.

        Successors know it from the snapshot. A single account among them reports it when it ends itself.
        """
        single = {name for name, pool in successors.pools.items() if len(pool.accounts) == 1} if successors else set()
        found = [(pool.name, pool.unwritten(now)) for pool in self.pools.values()]
        return [change for name, changes in found if name not in single for change in changes]

    def apply(self, changes: Iterable[Change], now: float) -> None:
        """Apply what other processes have reported, or this one before a restart, without reporting it again."""
        for change in changes:
            pool = self.pools.get(change.provider)
            if pool is not None:
                _apply(pool, change, now)

    def set_elsewhere(self, tallies: Iterable[AccountTally], now: float | None = None) -> None:
        """Take over the sums of what all other processes have counted. `now`: what is new there has just happened."""
        for tally in tallies:
            pool = self.pools.get(tally.provider)
            account = pool.account(tally.account) if pool else None
            if pool is None or account is None:
                continue
            if now is not None and 0 < account.ok_elsewhere < tally.ok:
                pool.health.reached_at = now
            account.ok_elsewhere, account.failed_elsewhere = tally.ok, tally.failed
            account.in_flight_elsewhere = tally.in_flight
            if account.spent_elsewhere != tally.spent:
                account.spent_elsewhere = tally.spent
                pool.balance_changed(account)

    def remember_reached(self, old: Pools) -> None:
        """Take over from the pools before these when each upstream was last heard of."""
        for name, pool in self.pools.items():
            if name in old.pools:
                pool.health.reached_at = old.pools[name].health.reached_at

    def add(self, tally: AccountTally) -> None:
        """Add counts of the pools before these."""
        for pool, account in self.find(f"{tally.provider}/{tally.account}"):
            pool.add(account, tally)

    @property
    def busy(self) -> bool:
        """Whether any request is in flight."""
        return any(account.in_flight for pool in self.pools.values() for account in pool.accounts)

    def overview(self, now: float) -> Iterator[dict[str, Any]]:
        """Return one description per account, without secrets."""
        for pool in self.pools.values():
            for account in pool.accounts:
                yield describe(pool, account, now)


def _apply(pool: Pool, change: Change, now: float) -> None:
    if isinstance(change, Cooled):
        pool.take_over(change, now)
        return
    if isinstance(change, Learned):
        pool.lessons.take_over(change)
        return
    if isinstance(change, Bound):
        # Also if the account is gone: the decision record then says which one it was.
        pool.sticky.bind(change.key, change.account)
        return
    account = pool.account(change.account)
    if account is None:
        return
    match change:
        case Switched():
            pool.health.switched(account, change, now)
        case Erred():
            account.error, account.error_status, account.error_at = change.why, change.status, change.at
            account.error_text = change.text
        case Adjusted():
            account.adjustment = change.adjust
            pool.balance_changed(account)


STATES = ("ready", "failing", "limited", "cooling", "refused", "disabled")
_STATE_NAMES = {"": "ready", "failing": "failing", "cooling": "cooling", "refused": "refused", "disabled": "disabled"}
"""by why an account is not available; every other reason is one of its limits"""
_REFUSALS = frozenset({"bad_key", "account_closed"})
"""why an upstream has disabled an account; other reasons are rules of the configuration"""
_UNPAID = frozenset({"out_of_quota", "out_of_money", "no_credential"})
"""why an account cooled down: that time has passed does not show that it works again"""


def state_of(pool: Pool, account: Account, now: float) -> str:
    """Return the state of an account, one of `STATES`."""
    return _STATE_NAMES.get(_obstacle(pool, account, now), "limited")


def _obstacle(pool: Pool, account: Account, now: float) -> str:
    """Return why an account cannot be used, or why it may not work: it was refused, and no request has succeeded since.

    Empty if there is nothing. One that was refused is tried again when its time has come.
    """
    if account.disabled_by:
        return "refused" if account.why in _REFUSALS else "disabled"
    why = pool.ready.why_unavailable(account, now, AccountRequest(), include_failing=False)
    if why in ("", "failing") and now < pool.health.cooldown_until:
        return "cooling"
    return "refused" if not why and account.failures and account.why in _UNPAID else why


def describe(pool: Pool, account: Account, now: float) -> dict[str, Any]:
    """Describe an account: state, until when, counts. The names are those of the admin interface and commands."""
    why = _obstacle(pool, account, now)
    until = account.failing_until if why == "failing" else account.available_at(now, "", 0)
    reason = account.why if why in ("cooling", "failing", "refused", "disabled") else why
    if why == "cooling" and now < pool.health.cooldown_until:
        until, reason = pool.health.cooldown_until, pool.health.why
    rate = account.success_rate()
    return {
        "provider": pool.name,
        "account": account.name,
        "state": _STATE_NAMES.get(why, "limited"),
        "why": reason or None,
        "until": until if why and until is not None and until > now else None,
        "models": {model: one.until for model, one in account.model_cooldowns.items() if one.until > now},
        "in_flight": account.in_flight + account.in_flight_elsewhere,
        "last_error": account.error or None,
        "last_error_status": account.error_status or None,
        "last_error_at": account.error_at or None,
        "last_error_text": account.error_text or None,
        "requests": account.ok + account.failed + account.ok_elsewhere + account.failed_elsewhere,
        "success_rate": None if rate is None else round(rate, 4),
        "balance": None if account.balance is None else round(account.balance, 6),
    }
