"""The accounts of one provider: which one is used next, what happens to one that failed, what a response has cost.

In: the time, what a request needs, verdicts. Out: choices, changes for a store, and in words for the client and the
operator why no account can take a request: names, times and the upstream's words about its accounts, nothing of the
request. No clock and no I/O: what happens is added to `changes`, in order.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from msgspec import Struct

from trilogue.model import Usage
from trilogue.routing.pool.account import Account, AccountRequest, Lease, ProxyRing, rank_by_balance
from trilogue.routing.pool.account_queues import ReadyAccounts
from trilogue.routing.pool.changes import AccountTally, Bound, Change, Cooled
from trilogue.routing.pool.classify import Verdict
from trilogue.routing.pool.conversation import Stickiness
from trilogue.routing.pool.decision import Considered
from trilogue.routing.pool.health import Health, Lessons
from trilogue.routing.pool.settings import AccountLimits, ProviderSpec

MOST_SKIPPED = 8
"""Accounts named in one explanation; the rest are counted."""
MAX_CHANGES = 10_000
"""Changes that wait for a store; without one the oldest are dropped."""
SURVEY_SECONDS = 0.05
"""How long a survey is used again: with no account available, every waiting request asks for one."""

MOST_ACCOUNTS = 3
"""Accounts of a provider that are named; the rest are counted."""
_WORDS = {
    "bad_key": "{provider} refused the key of {account}",
    "account_closed": "{provider} has closed {account}",
    "no_credential": "there is no key for {provider}/{account}",
    "by_hand": "{provider}/{account} was disabled by hand",
    "out_of_quota": "{provider}/{account} has used up its quota",
    "out_of_money": "{provider}/{account} has no credit left",
    "balance": "{provider}/{account} has nothing left of its balance",
    "insufficient_tokens": "{provider}/{account} has too little left for this request",
    "rate_limited": "{provider}/{account} is at its rate limit",
    "concurrency": "{provider}/{account} is at its limit of requests at a time",
    "requests_per_minute": "{provider}/{account} is at its limit of requests per minute",
    "tokens_per_minute": "{provider}/{account} is at its limit of tokens per minute",
    "model_not_found": "{provider}/{account} does not have the model",
    "overloaded": "{provider}/{account} is overloaded",
    "network": "{provider}/{account} could not be reached",
    "timeout": "{provider}/{account} took too long",
}
"""by why an account cannot be used"""
_OTHERWISE = "{provider}/{account} has failed ({why})"


class AccountChoice(NamedTuple):
    """An account that was found for a request, and why: see `Lease`."""

    account: Account
    how: str
    broken: str
    left: str = ""


class Survey(Struct, frozen=True, kw_only=True):
    """Why no account is available: how many for which reason, and when the first one is available, if that is known.

    `wait_until`: as `retry_at`, without disabled accounts: a request doesn't wait for their probes.
    """

    reasons: dict[str, int]
    retry_at: float | None
    wait_until: float | None = None


class Pool:
    """The accounts of one provider. `share`: the part of every limit that this process may use.

    `changes`: where to report what happens; several pools may use the same queue.
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
        self._is_single = len(self.accounts) == 1
        """conversations need not be shared: there is only one account to choose"""
        self._by_name = {account.name: account for account in self.accounts}
        self._uses = 0.0
        self._counted: dict[int, Account] = {}
        self._last_survey: tuple[int, str, float, Survey] | None = None
        self._all_available = Considered(provider=self.name, candidates=len(self.accounts), away=0)
        self._by_balance = self.settings.strategy == "highest_balance"
        if self._by_balance:
            for account in self.accounts:
                account.rank = rank_by_balance(account)
            self.ready.rebuild()

    def account(self, name: str) -> Account | None:
        """Return an account by name, or None."""
        return self._by_name.get(name)

    def set_share(self, share: float) -> None:
        """Change the part of every limit that this process may use."""
        for account in self.accounts:
            if account.spec.limits != AccountLimits():
                account.set_share(share)
                self.ready.make_available(account)

    def choose(self, now: float, request: AccountRequest, *, include_failing: bool = False) -> Lease | None:
        """Reserve the next account, or return None. `include_failing`: use a failing one if there is no other."""
        choice = self.pick(now, request, include_failing=include_failing)
        return None if choice is None else self.reserve(choice, now, request)

    def pick(self, now: float, request: AccountRequest, *, include_failing: bool = False) -> AccountChoice | None:
        """Return the account that `choose` would reserve, without reserving it."""
        ready, health = self.ready, self.health
        if ready.over_tokens:
            ready.over_tokens = {}
        if now >= ready.next_return:
            ready.bring_back(now)
        if now < health.cooldown_until or (now < health.failing_until and not include_failing):
            return None
        account, how, broken, left = None, "sticky", "", ""
        if request.only:
            return self._only(now, request, include_failing=include_failing)
        if request.sticky and self.settings.sticky:
            account, broken, left = self._sticky_account(now, request, include_failing=include_failing)
        if account is None:
            how, account = "strategy", ready.first(now, request, include_failing=include_failing)
            if account is None:
                return None
        if now < account.failing_until:
            how = "last_resort"
        return AccountChoice(account, how, broken, left)

    def _only(self, now: float, request: AccountRequest, *, include_failing: bool) -> AccountChoice | None:
        account = self._by_name.get(request.only)
        if account is None or self.ready.why_unavailable(account, now, request, include_failing=include_failing):
            return None
        return AccountChoice(account, "only", "")

    @property
    def home(self) -> Account:
        """The account that keeps files, batches and the like: the first of the lowest tier."""
        return min(self.accounts, key=lambda account: (account.spec.priority, account.index))

    def reserve(self, choice: AccountChoice, now: float, request: AccountRequest) -> Lease:
        """Reserve what `pick` has found, and assign the conversation to it."""
        if request.sticky and self.settings.sticky and choice.how != "sticky":
            self.bind(request.sticky, choice.account, now)
        return self.take(choice.account, now, request, choice.how, choice.broken, choice.left)

    def considered(self, model: str) -> Considered:
        """Return how many accounts there are and which are unavailable for a model, for the record."""
        ready = self.ready
        if not ready.unavailable and not ready.over_tokens and not ready.unavailable_for:
            return self._all_available
        unavailable, skipped = ready.skipped(MOST_SKIPPED, model)
        return Considered(provider=self.name, candidates=len(self.accounts), away=unavailable, skipped=skipped)

    def _sticky_account(
        self, now: float, request: AccountRequest, *, include_failing: bool
    ) -> tuple[Account | None, str, str]:
        """Return the account that the conversation belongs to if it is available; else the reason, and its name."""
        name = self.sticky.find(request.sticky)
        if name is None:
            return None, "", ""
        account = self._by_name.get(name)
        if account is None:
            return None, "gone", name
        why = self.ready.why_unavailable(account, now, request, include_failing=include_failing)
        return (None, why, name) if why else (account, "", "")

    def take(
        self,
        account: Account,
        now: float,
        request: AccountRequest,
        how: str = "strategy",
        broken: str = "",
        left: str = "",
    ) -> Lease:
        """Reserve this account, whether it is available or not."""
        account.in_flight += 1
        if account.requests is not None:
            account.requests.take(now, 1)
        if account.tokens is not None:
            account.tokens.take(now, request.tokens)
        self._counted[account.index] = account
        self._rank(account)
        return Lease(account, request.model, request.tokens, now, how, broken, left)

    def _rank(self, account: Account) -> None:
        """Move an account back after a use. Ranks never fall: the queues rely on that."""
        strategy = self.settings.strategy
        if strategy == "lru":
            self._uses += 1
            account.rank = self._uses
        elif strategy == "weighted":
            # A virtual time: an account that was unavailable must not catch up on what it missed.
            self._uses = max(self._uses, account.rank)
            account.rank = self._uses + 1.0 / account.spec.weight
        else:
            account.rank = rank_by_balance(account)

    def bind(self, key: str, account: Account, now: float) -> None:
        """Assign a conversation to an account. The only account is chosen anyway: see `unwritten`."""
        if self.sticky.bind(key, account.name) and not self._is_single:
            self.changes.append(Bound(self.name, key, account.name, now))

    def unwritten(self, now: float) -> list[Change]:
        """Return the conversations of a single account, which were not reported so far; later ones are, at once.

        Reporting every response of a Responses upstream took up to a quarter of the cost of a request.
        """
        if not self._is_single:
            return []
        self._is_single = False
        return self._conversations(now)

    def finished(self, lease: Lease, now: float, usage: Usage | None = None) -> None:
        """Count a success, its usage and its cost, and give the account back."""
        self.released(lease)
        account = lease.account
        account.ok += 1
        if usage is not None:
            if account.tokens is not None and (used := usage.input + usage.output):
                account.tokens.take(now, used - lease.tokens)
            if self._spec.cost is not None:
                account.spent += self._spec.cost(usage, lease.model) or 0.0
            if self._by_balance:
                account.rank = rank_by_balance(account)
        self.health.succeeded(lease, now)

    def failed(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> float | None:
        """Apply a verdict and give the account back. Return until when a cooldown lasts, or None."""
        self.released(lease)
        return self.health.failed(lease, now, verdict, rng)

    def unsent(self, lease: Lease, now: float) -> None:
        """Give back an account to which nothing was sent, and what was taken from its limits."""
        account = lease.account
        if account.requests is not None:
            account.requests.take(now, -1)
        if account.tokens is not None:
            account.tokens.take(now, -lease.tokens)
        self.released(lease)
        self.ready.make_available(account)

    def released(self, lease: Lease) -> None:
        """Give an account back without a result: the client disconnected."""
        account = lease.account
        account.in_flight -= 1
        self._counted[account.index] = account
        if account.concurrency is not None or account.disabled_by:
            self.ready.make_available(account)

    def survey(self, now: float, request: AccountRequest) -> Survey:
        """Return why no account is available. The result is used again for a moment: see `SURVEY_SECONDS`."""
        kept = self._last_survey if not request.only else None
        if kept and kept[0] == self.ready.version and kept[1] == request.model and 0 <= now - kept[2] < SURVEY_SECONDS:
            return kept[3]
        reasons: Counter[str] = Counter()
        times = [at for at in (self.health.cooldown_until,) if at > now]
        worth_waiting = times.copy()
        for account in self.accounts if not request.only else [self._by_name[request.only]]:
            why = self.why_unavailable(account, now, request)
            reasons[why or ("provider_down" if now < self.health.cooldown_until else "not_tried")] += 1
            available = account.available_at(now, request.model, request.tokens)
            if available is not None and available > now:
                times.append(available)
                if not account.disabled_by:
                    worth_waiting.append(available)
        survey = Survey(
            reasons=dict(reasons), retry_at=min(times, default=None), wait_until=min(worth_waiting, default=None)
        )
        if not request.tried and not request.only:
            self._last_survey = (self.ready.version, request.model, now, survey)
        return survey

    def why_unavailable(self, account: Account, now: float, request: AccountRequest) -> str:
        """Return why an account cannot take a request, as precisely as it is known; empty if it can."""
        why = self.ready.why_unavailable(account, now, request, include_failing=True)
        if why == "cooling" or (why == "disabled" and not account.why.startswith("rule_")):
            return account.why or why
        return account.model_cooldowns[request.model].why if why == "model" else why

    def is_cooling_down(self, name: str, now: float, request: AccountRequest) -> bool:
        """Return whether an account will be available for this request at a later time that is known."""
        account = self._by_name.get(name)
        available = account.available_at(now, request.model, request.tokens) if account is not None else None
        return available is not None and available > now

    def set_balance(self, account: Account, balance: float) -> float:
        """Set a balance by hand. Return what is added to the configured balance less usage."""
        account.adjustment = balance - (account.spec.balance or 0.0) + account.spent + account.spent_elsewhere
        self.balance_changed(account)
        return account.adjustment

    def balance_changed(self, account: Account) -> None:
        """Look at an account again whose balance has changed from outside."""
        if self._by_balance:
            account.rank = rank_by_balance(account)
            self.ready.rebuild()
        self.ready.make_available(account)

    def tallies(self) -> list[AccountTally]:
        """Return the counts that have changed since the last call."""
        found = [
            AccountTally(self.name, one.name, one.ok, one.failed, one.spent, one.in_flight)
            for one in self._counted.values()
        ]
        self._counted.clear()
        return found

    def add(self, account: Account, tally: AccountTally) -> None:
        """Add counts of the pool before this one. Its requests in flight count here too."""
        account.ok += tally.ok
        account.failed += tally.failed
        account.spent += tally.spent
        account.in_flight += tally.in_flight
        self._counted[account.index] = account
        self.balance_changed(account)

    def snapshot(self, now: float) -> list[Change]:
        """Return everything that a successor of this pool needs to know, as changes."""
        return [*self.health.snapshot(self.accounts, now), *self._conversations(now), *self.lessons.snapshot()]

    def _conversations(self, now: float) -> list[Change]:
        return [Bound(self.name, key, account, now) for key, account in self.sticky.items()]

    def take_over(self, change: Cooled, now: float) -> None:
        """Apply a cooldown that another process has started."""
        self.health.take_over(self._by_name.get(change.account), change, now)


def clauses(pool: Pool, request: AccountRequest, now: float, failures: Mapping[str, str]) -> list[str]:
    """Return why each account of a provider cannot take a request, of at most a few accounts.

    `failures`: why the accounts failed that this request has tried, by name.
    """
    if now < pool.health.cooldown_until:
        seconds = pool.health.cooldown_until - now
        return [f"{pool.name} cools down for {seconds:.0f} s more ({pool.health.why})"]
    found: list[str] = []
    wanted = AccountRequest(model=request.model, tokens=request.tokens)
    for number, account in enumerate(pool.accounts):
        if len(found) == MOST_ACCOUNTS:
            found.append(f"and {len(pool.accounts) - number} more of {pool.name}")
            break
        if request.only and account.name != request.only:
            continue
        why = pool.why_unavailable(account, now, wanted) or failures.get(account.name, "")
        if why:
            found.append(_clause(pool, account, why, wanted, now))
    return found


def _clause(pool: Pool, account: Account, why: str, request: AccountRequest, now: float) -> str:
    text = _WORDS.get(why, _OTHERWISE).format(provider=pool.name, account=account.name, why=why)
    if account.error == why:
        said = f"{account.error_status or ''} {account.error_text}".strip()
        text += f": {said}" if said else ""
    until = account.available_at(now, request.model, request.tokens)
    return text if until is None or until <= now else f"{text} (for {max(until - now, 1):.0f} s more)"
