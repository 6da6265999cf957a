"""The accounts of one provider: which one is next, and what becomes of one that failed.

In: the time, what a request asks for, verdicts. Out: choices, and changes for a store. No clock, no I/O; what happens
is written to `changes` in the order in which it happened.
"""

from __future__ import annotations

from collections import Counter, deque
from random import Random
from typing import NamedTuple

from msgspec import Struct

from trilogue.model import Usage
from trilogue.pool.changes import Bound, Change, Cooled, Tally
from trilogue.pool.choice.account import Account, AccountRequest, Lease, rank_by_balance
from trilogue.pool.choice.proxies import ProxyRing
from trilogue.pool.choice.ready import ReadyAccounts
from trilogue.pool.choice.sticky import Stickiness
from trilogue.pool.decision.record import Considered, cost, price_of
from trilogue.pool.health.classify import Verdict
from trilogue.pool.health.health import Health
from trilogue.pool.health.learned import Lessons
from trilogue.pool.settings import ProviderSpec

MOST_SKIPPED = 8
"""names in one explanation; the rest are counted"""
MAX_CHANGES = 10_000
"""changes that wait for a store; if nobody keeps them the oldest are forgotten"""
DRY_SECONDS = 0.05
"""how long the answer "nobody, until then" is good for"""


class AccountChoice(NamedTuple):
    """An account that was found for a request, and why this one: see `Lease`."""

    account: Account
    how: str
    broken: str


class Survey(Struct, frozen=True, kw_only=True):
    """Why nobody can be used: how many accounts have which obstacle, and when the first is back if that is known.

    `rested_at`: as `retry_at`, without disabled accounts, which are probed and not waited for.
    """

    reasons: dict[str, int]
    retry_at: float | None
    rested_at: float | None = None


class Pool:
    """The accounts of one provider. `share`: the part of every limit that this process may use.

    `changes`: where to write what happens; several pools may write to the same place.
    """

    def __init__(self, spec: ProviderSpec, *, share: float = 1.0, changes: deque[Change] | None = None) -> None:
        shared = ProxyRing(spec.proxies) if spec.proxies else None
        self.name = spec.name
        self.settings = spec.settings
        self.accounts = [
            Account(index, one, share, ProxyRing(one.proxies) if one.proxies else shared)
            for index, one in enumerate(spec.accounts)
        ]
        self.changes: deque[Change] = deque(maxlen=MAX_CHANGES) if changes is None else changes
        self.ready = ReadyAccounts(self.accounts)
        self.health = Health(self.name, self.settings, self.ready, self.changes)
        self.sticky = Stickiness()
        self.lessons = Lessons(self.name, self.changes)
        self._spec = spec
        self._quiet = len(self.accounts) == 1
        self._by_name = {account.name: account for account in self.accounts}
        self._uses = 0.0
        self._counted: dict[int, Account] = {}
        self._dry: tuple[int, str, float, Survey] | None = None
        self._complete = Considered(provider=self.name, candidates=len(self.accounts), away=0)
        self._by_balance = self.settings.strategy == "highest_balance"
        if self._by_balance:
            for account in self.accounts:
                account.rank = rank_by_balance(account)
            self.ready.rebuild()

    def account(self, name: str) -> Account | None:
        """One of its accounts."""
        return self._by_name.get(name)

    def choose(self, now: float, ask: AccountRequest, *, desperate: bool = False) -> Lease | None:
        """Reserve an account, if there is one. `desperate`: also those that keep failing, if nobody else is there."""
        choice = self.pick(now, ask, desperate=desperate)
        return None if choice is None else self.reserve(choice, now, ask)

    def pick(self, now: float, ask: AccountRequest, *, desperate: bool = False) -> AccountChoice | None:
        """Find the account to use, as `choose` does, without reserving it: nothing counts as used yet."""
        ready, health = self.ready, self.health
        if ready.short:
            ready.short = {}
        if now >= ready.alarm:
            ready.release(now)
        if now < health.until or (now < health.soft_until and not desperate):
            return None
        account, how, broken = None, "sticky", ""
        if ask.sticky and self.settings.sticky:
            account, broken = self._stuck_to(now, ask, desperate=desperate)
        if account is None:
            how, account = "strategy", ready.first(now, ask, desperate=desperate)
            if account is None:
                return None
        if now < account.soft_until:
            how = "last_resort"
        return AccountChoice(account, how, broken)

    def reserve(self, choice: AccountChoice, now: float, ask: AccountRequest) -> Lease:
        """Reserve what `pick` has found; the conversation belongs to this account from now on."""
        if ask.sticky and self.settings.sticky and choice.how != "sticky":
            self.bind(ask.sticky, choice.account, now)
        return self.take(choice.account, now, ask, choice.how, choice.broken)

    def considered(self) -> Considered:
        """How many could be chosen from and who was away, for the record."""
        ready = self.ready
        if not ready.away and not ready.short:
            return self._complete
        away, skipped = ready.skipped(MOST_SKIPPED)
        return Considered(provider=self.name, candidates=len(self.accounts), away=away, skipped=skipped)

    def _stuck_to(self, now: float, ask: AccountRequest, *, desperate: bool) -> tuple[Account | None, str]:
        """The conversation's own account if it can be used, else why not."""
        name = self.sticky.find(ask.sticky)
        if name is None:
            return None, ""
        account = self._by_name.get(name)
        if account is None:
            return None, "gone"
        why = self.ready.obstacle(account, now, ask, desperate=desperate)
        return (None, why) if why else (account, "")

    def take(self, account: Account, now: float, ask: AccountRequest, how: str = "strategy", broken: str = "") -> Lease:
        """Reserve this very account."""
        account.in_flight += 1
        if account.requests is not None:
            account.requests.take(now, 1)
        if account.tokens is not None:
            account.tokens.take(now, ask.tokens)
        self._counted[account.index] = account
        self._rank(account)
        return Lease(account, ask.model, ask.tokens, now, how, broken)

    def _rank(self, account: Account) -> None:
        """Its place after a use. It never falls, so that what is queued with an old one is found in time."""
        strategy = self.settings.strategy
        if strategy == "lru":
            self._uses += 1
            account.rank = self._uses
        elif strategy == "weighted":
            # A virtual time: who was away does not catch up.
            self._uses = max(self._uses, account.rank)
            account.rank = self._uses + 1.0 / account.spec.weight
        else:
            account.rank = rank_by_balance(account)

    def bind(self, key: str, account: Account, now: float) -> None:
        """A conversation belongs to this account from now on. An account that is alone is chosen anyway: `tell`."""
        if self.sticky.bind(key, account.name) and not self._quiet:
            self.changes.append(Bound(self.name, key, account.name, now))

    def tell(self, now: float) -> list[Change]:
        """The conversations of an account that was alone, which nobody needed to know; later ones are written at once.

        Writing down every answer of a Responses upstream took up to a quarter of what a request costs.
        """
        if not self._quiet:
            return []
        self._quiet = False
        return self._bound(now)

    def finished(self, lease: Lease, now: float, usage: Usage | None = None) -> None:
        """The request was answered."""
        self.released(lease)
        account = lease.account
        account.ok += 1
        if usage is not None:
            if account.tokens is not None and (used := usage.input + usage.output):
                account.tokens.take(now, used - lease.tokens)
            if self._spec.prices:
                account.spent += cost(usage, price_of(self._spec.prices, lease.model))
            if self._by_balance:
                account.rank = rank_by_balance(account)
        self.health.worked(lease, now)

    def failed(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> float | None:
        """The request failed. Gives until when someone rests, if so."""
        self.released(lease)
        return self.health.failed(lease, now, verdict, rng)

    def unsent(self, lease: Lease, now: float) -> None:
        """Give back an account to which nothing was sent: its limits are as before."""
        account = lease.account
        if account.requests is not None:
            account.requests.take(now, -1)
        if account.tokens is not None:
            account.tokens.take(now, -lease.tokens)
        self.released(lease)
        self.ready.wake(account)

    def released(self, lease: Lease) -> None:
        """The request ended without saying anything about the account: the client left."""
        account = lease.account
        account.in_flight -= 1
        self._counted[account.index] = account
        if account.concurrency is not None or account.by:
            self.ready.wake(account)

    def survey(self, now: float, ask: AccountRequest) -> Survey:
        """Count why nobody can be used. The count is kept for a moment, since others will ask the same."""
        kept = self._dry
        if kept and kept[0] == self.ready.epoch and kept[1] == ask.model and 0 <= now - kept[2] < DRY_SECONDS:
            return kept[3]
        reasons: Counter[str] = Counter()
        times = [at for at in (self.health.until,) if at > now]
        rested = times.copy()
        for account in self.accounts:
            why = self.ready.obstacle(account, now, ask, desperate=True)
            if why == "cooling":
                why = account.why or why
            elif why == "model":
                why = account.models[ask.model].why
            reasons[why or "provider_down"] += 1
            free = account.free_at(now, ask.model, ask.tokens)
            if free is not None and free > now:
                times.append(free)
                if not account.by:
                    rested.append(free)
        survey = Survey(reasons=dict(reasons), retry_at=min(times, default=None), rested_at=min(rested, default=None))
        if not ask.tried:
            self._dry = (self.ready.epoch, ask.model, now, survey)
        return survey

    def rests(self, name: str, now: float, ask: AccountRequest) -> bool:
        """Tell whether an account is out of use for this request until a time that is known."""
        account = self._by_name.get(name)
        free = account.free_at(now, ask.model, ask.tokens) if account is not None else None
        return free is not None and free > now

    def set_balance(self, account: Account, balance: float) -> float:
        """By hand. Gives what is added to what the configuration and the usage say."""
        account.adjust = balance - (account.spec.balance or 0.0) + account.spent + account.spent_elsewhere
        self.rebalanced(account)
        return account.adjust

    def rebalanced(self, account: Account) -> None:
        """A balance has changed from outside."""
        if self._by_balance:
            account.rank = rank_by_balance(account)
            self.ready.rebuild()
        self.ready.wake(account)

    def tallies(self) -> list[Tally]:
        """The counts that have changed since the last call."""
        found = [
            Tally(self.name, one.name, one.ok, one.failed, one.spent, one.in_flight) for one in self._counted.values()
        ]
        self._counted.clear()
        return found

    def add(self, account: Account, tally: Tally) -> None:
        """Counts of the pool before this one. What it has under way is under way here too."""
        account.ok += tally.ok
        account.failed += tally.failed
        account.spent += tally.spent
        account.in_flight += tally.in_flight
        self._counted[account.index] = account
        self.rebalanced(account)

    def snapshot(self, now: float) -> list[Change]:
        """Everything that a successor of this pool should know."""
        return [*self.health.snapshot(self.accounts, now), *self._bound(now), *self.lessons.snapshot()]

    def _bound(self, now: float) -> list[Change]:
        return [Bound(self.name, key, account, now) for key, account in self.sticky.items()]

    def cooled(self, change: Cooled, now: float) -> None:
        """Take over what another process has found out."""
        self.health.take_over(self._by_name.get(change.account), change, now)
