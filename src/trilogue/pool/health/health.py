"""What verdicts and successes do to accounts and to their provider: rest, be put last, be disabled, recover.

Two kinds of rest. A hard one (limits, money, keys): nothing is sent until it is over. A soft one (errors of servers):
others go first, but with nobody else there it is still used: better an attempt that may fail than none.

How long something rests: growing delays with jitter, times that upstreams name, and their reset headers.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from random import Random

from trilogue.pool.changes import Adjusted, Change, Cooled, Erred, Switched
from trilogue.pool.choice.account import Account, Lease, ModelCooldown
from trilogue.pool.choice.ready import ReadyAccounts
from trilogue.pool.health.classify import Action, Scope, Verdict
from trilogue.pool.settings import PoolSettings

JITTER = 0.2
"""a fifth more or less, so that what failed together does not come back together"""
MOST_DOUBLINGS = 30

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_REMAINING = re.compile(r"(?:x|anthropic)-ratelimit-(?:remaining-(\w+)|([\w-]+)-remaining)")


def growing_delay(failures: int, settings: PoolSettings, rng: Random) -> float:
    """The rest after this many failures in a row (1 or more)."""
    doubled = settings.first_delay_seconds * 2.0 ** min(failures - 1, MOST_DOUBLINGS)
    return min(doubled, settings.max_delay_seconds) * rng.uniform(1 - JITTER, 1 + JITTER)


def named_delay(seconds: float, settings: PoolSettings) -> float:
    """A time that an upstream named, made sane: never negative, never for ever."""
    if not math.isfinite(seconds):
        return settings.max_cooling_seconds
    return min(max(seconds, 0.0), settings.max_cooling_seconds)


def reset_delay(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the limits that are used up are full again, from the rate-limit headers; None if they don't say.

    OpenAI's form: `x-ratelimit-remaining-tokens: 0`, `x-ratelimit-reset-tokens: 6m0.5s`. Anthropic's:
    `anthropic-ratelimit-tokens-remaining: 0`, `anthropic-ratelimit-tokens-reset:` a date. `now`: wall clock.
    """
    waits = []
    for name, value in headers.items():
        found = _REMAINING.fullmatch(name.lower())
        if found is None or value.strip() != "0":
            continue
        wait = _until(_reset_of(headers, found), now)
        if wait is not None:
            waits.append(wait)
    return max(waits, default=None)


def _reset_of(headers: Mapping[str, str], found: re.Match[str]) -> str:
    name = f"x-ratelimit-reset-{found[1]}" if found[1] else f"anthropic-ratelimit-{found[2]}-reset"
    return headers.get(name, "")


def _until(text: str, now: float) -> float | None:
    parts = _PART.findall(text)
    if parts and _PART.sub("", text).strip() == "":
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    try:
        seconds = float(text)
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if date.tzinfo is None else max(date.timestamp() - now, 0.0)


OUTAGE = 5
"""faults of servers or of the network in a row, on whatever accounts, that make an outage of the provider"""
LONGEST_OUTAGE = 60.0
FIRST_PROBE = 2.0
"""seconds until a disabled account is tried again if no other one is in use"""
LONGEST_PROBE = 86_400.0
_NEVER = ModelCooldown(0.0, "", 0)


class Health:
    """Health of one provider and its accounts."""

    def __init__(self, provider: str, settings: PoolSettings, ready: ReadyAccounts, changes: deque[Change]) -> None:
        self.until = 0.0
        """the provider rests until then"""
        self.soft_until = 0.0
        """the provider goes behind others in a chain until then"""
        self.why = ""
        self._streak = 0
        self._down_at = 0.0
        self._down_failures = 0
        self._provider = provider
        self._settings = settings
        self._ready = ready
        self._changes = changes

    def worked(self, lease: Lease, now: float) -> None:
        """An answer came: whatever was wrong when it was asked for is over."""
        self._streak = self._down_failures = 0
        if self.soft_until > now and lease.since >= self._down_at:
            self.soft_until = 0.0
            self._note(Cooled(self._provider, "", "", 0.0, True, "", 0))
        account = lease.account
        if lease.since < account.blocked_at:
            return
        if account.by == "upstream":
            self.enable(account)
        if account.failures:
            account.failures = 0
            account.cooled_until = account.soft_until = 0.0
            account.why = ""
            self._note(Cooled(self._provider, account.name, "", 0.0, False, "", 0))
            self._ready.wake(account)
        block = account.models.get(lease.model)
        if block is not None and lease.since >= block.at:
            del account.models[lease.model]
            self._note(Cooled(self._provider, account.name, lease.model, 0.0, False, "", 0))

    def failed(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> float | None:
        """Apply a verdict. Gives until when someone rests, if so."""
        account = lease.account
        if verdict.action in (Action.CLIENT, Action.STRIP):
            # It refused this request, so it is there and it knows the key.
            self.worked(lease, now)
            return None
        if not verdict.blame_proxy:
            self._erred(account, now, verdict)
        if verdict.fault:
            self._fault(lease, now, verdict, rng)
            if account.by == "upstream":
                self._probe_later(account, now)
        else:
            self._streak = 0
            if account.by == "upstream" and verdict.action is not Action.DISABLE:
                self.enable(account)
        apply = _EFFECTS.get((verdict.action, verdict.scope))
        return apply(self, lease, now, verdict, rng) if apply else None

    def _erred(self, account: Account, now: float, verdict: Verdict) -> None:
        account.failed += 1
        account.error, account.error_status, account.error_at = verdict.why, verdict.status, now
        self._note(Erred(self._provider, account.name, verdict.why, verdict.status, now))

    def enable(self, account: Account) -> None:
        """Back in use."""
        account.by, account.probe_at, account.probes = "", 0.0, 0
        self._note(Switched(self._provider, account.name, ""))
        self._ready.wake(account)

    def disable(self, account: Account, now: float, by: str, why: str = "") -> None:
        """Out of use: by an upstream until a probe succeeds, by hand until a hand enables it."""
        account.by, account.why, account.blocked_at = by, why, now
        if by == "upstream":
            account.probes += 1
            self._probe_later(account, now)
        else:
            self._ready.rest(account, now + LONGEST_PROBE, why or "disabled")
        self._note(self._switch(account))

    def reset(self, account: Account) -> None:
        """As if nothing had happened. A rest of the whole provider ends too: it stands in this account's way."""
        if self.until:
            self.until, self._down_failures = 0.0, 0
            self._note(Cooled(self._provider, "", "", 0.0, False, "", 0))
        account.cooled_until = account.soft_until = 0.0
        account.failures, account.why = 0, ""
        self._note(Cooled(self._provider, account.name, "", 0.0, False, "", 0))
        for model in list(account.models):
            del account.models[model]
            self._note(Cooled(self._provider, account.name, model, 0.0, False, "", 0))
        self.enable(account)

    def take_over(self, account: Account | None, change: Cooled, now: float) -> None:
        """What another process, or this one before a restart, has found out. A clock that was set back cannot hurt."""
        until = min(change.until, now + self._longest())
        if not change.account:
            if change.soft:
                self.soft_until, self._streak = until, change.failures
            else:
                self.until = until
            self.why = change.why
        elif account is not None and change.model:
            self._block(account, change.model, ModelCooldown(until, change.why, change.failures), now)
        elif account is not None:
            account.failures, account.why = change.failures, change.why
            if change.soft:
                account.soft_until = until
            else:
                account.cooled_until = until
            if not change.until:
                account.soft_until = 0.0
            self._rest_or_wake(account, until, now, soft=change.soft)

    def switched(self, account: Account, change: Switched, now: float) -> None:
        """As `take_over`, for accounts that were disabled or enabled elsewhere. One that has got a new key since then
        was never refused.
        """
        if change.by == "upstream" and account.spec.credential not in (None, change.credential):
            return
        account.by, account.probes, account.why = change.by, change.probes, change.why
        account.probe_at = min(change.probe_at, now + LONGEST_PROBE)
        self._rest_or_wake(account, account.probe_at if change.by == "upstream" else now + LONGEST_PROBE, now)
        if not change.by:
            self._ready.wake(account)

    def _switch(self, account: Account) -> Switched:
        return Switched(
            self._provider,
            account.name,
            account.by,
            account.probe_at,
            account.probes,
            account.why,
            account.spec.credential or "",
        )

    def snapshot(self, accounts: Iterable[Account], now: float) -> list[Change]:
        """What is not as at the start."""
        found: list[Change] = []
        for until, soft in ((self.until, False), (self.soft_until, True)):
            if until > now:
                found.append(Cooled(self._provider, "", "", until, soft, self.why, self._streak))
        for account in accounts:
            found += self._snapshot_of(account, now)
        return found

    def _snapshot_of(self, account: Account, now: float) -> Iterable[Change]:
        until = max(account.cooled_until, account.soft_until)
        if until > now or account.failures:
            soft = account.cooled_until <= now
            yield Cooled(self._provider, account.name, "", until, soft, account.why, account.failures)
        for model, block in account.models.items():
            yield Cooled(self._provider, account.name, model, block.until, False, block.why, block.failures)
        if account.by:
            yield self._switch(account)
        if account.error:
            yield Erred(self._provider, account.name, account.error, account.error_status, account.error_at)
        if account.adjust is not None:
            yield Adjusted(self._provider, account.name, account.adjust)

    def _note(self, change: Change) -> None:
        self._changes.append(change)

    def _longest(self) -> float:
        return max(self._settings.max_cooling_seconds, self._settings.max_delay_seconds) * 1.2

    def _delay(self, verdict: Verdict, failures: int, rng: Random) -> float:
        if verdict.delay is not None:
            # Upstreams that say "now" while they refuse would be asked without end.
            least = min(self._settings.first_delay_seconds, 1.0)
            return max(named_delay(verdict.delay, self._settings), verdict.least, least)
        return max(growing_delay(failures, self._settings, rng), verdict.least)

    def _fault(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> None:
        """A fault that says something about the provider, unless it was the egress proxy's."""
        if verdict.blame_proxy or lease.since < self._down_at:
            return
        self._streak += 1
        if self._streak < OUTAGE:
            return
        delay = min(growing_delay(self._streak - OUTAGE + 1, self._settings, rng), LONGEST_OUTAGE)
        self.soft_until, self.why, self._down_at = now + delay, verdict.why, now
        self._note(Cooled(self._provider, "", "", self.soft_until, True, verdict.why, self._streak))

    def _probe_later(self, account: Account, now: float) -> None:
        growth = 2.0 ** min(max(account.probes, 1) - 1, 30)
        if self._is_alone(account):
            # A single 401 must not cost ten minutes: without this account every request fails.
            delay = min(FIRST_PROBE * growth, self._settings.probe_seconds)
        else:
            delay = min(self._settings.probe_seconds * growth, LONGEST_PROBE)
        account.probe_at = now + delay
        self._ready.rest(account, account.probe_at, account.why or "disabled")

    def _is_alone(self, account: Account) -> bool:
        """Tell whether no other account of the provider is in use."""
        return all(one is account or one.by for one in self._ready.accounts)

    def _rest_or_wake(self, account: Account, until: float, now: float, *, soft: bool = False) -> None:
        if until > now:
            self._ready.rest(account, until, account.why, soft=soft)
        else:
            self._ready.wake(account)

    def _block(self, account: Account, model: str, block: ModelCooldown, now: float) -> None:
        if block.until <= now:
            account.models.pop(model, None)
            self._ready.wake(account)
            return
        account.block(model, block)
        self._ready.open_lane(model)
        self._ready.rest(account, block.until, block.why, model=model)

    def _count(self, lease: Lease, now: float) -> int:
        """Failures in a row. Those of requests that were under way together count once."""
        account = lease.account
        if lease.since >= account.blocked_at or not account.failures:
            account.failures += 1
        account.blocked_at = now
        return account.failures

    def _cool_account(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> float:
        account = lease.account
        if not verdict.any_model and self._is_alone(account):
            return self._cool_model(lease, now, verdict, rng)
        delay = self._delay(verdict, self._count(lease, now), rng)
        until = account.cooled_until = max(account.cooled_until, now + delay)
        account.why = verdict.why
        self._ready.rest(account, until, verdict.why)
        self._note(Cooled(self._provider, account.name, "", until, False, verdict.why, account.failures))
        return until

    def _cool_model(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> float:
        account, model = lease.account, lease.model
        before = account.models.get(model, _NEVER)
        failures = before.failures + 1 if lease.since >= before.at else before.failures
        block = ModelCooldown(now + self._delay(verdict, failures, rng), verdict.why, failures, now)
        self._block(account, model, block, now)
        self._note(Cooled(self._provider, account.name, model, block.until, False, verdict.why, failures))
        return block.until

    def _cool_provider(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> float:
        if lease.since >= self._down_at:
            self._down_failures += 1
        delay = self._delay(verdict, max(self._down_failures, 1), rng)
        self.until, self.why, self._down_at = max(self.until, now + delay), verdict.why, now
        self._note(Cooled(self._provider, "", "", self.until, False, verdict.why, self._down_failures))
        return self.until

    def _soften(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> float:
        account = lease.account
        account.soft_until = now + self._delay(verdict, self._count(lease, now), rng)
        account.why = verdict.why
        self._ready.rest(account, account.soft_until, verdict.why, soft=True)
        self._note(Cooled(self._provider, account.name, "", account.soft_until, True, verdict.why, account.failures))
        return account.soft_until

    def _disable(self, lease: Lease, now: float, verdict: Verdict, _: Random) -> float:
        account = lease.account
        if account.by != "hand" and (not account.by or lease.since >= account.blocked_at):
            self.disable(account, now, "upstream", verdict.why)
        return account.probe_at


_Effect = Callable[[Health, Lease, float, Verdict, Random], float]

_EFFECTS: dict[tuple[Action, Scope], _Effect] = {
    (Action.COOL, Scope.ACCOUNT): Health._cool_account,
    (Action.COOL, Scope.ACCOUNT_MODEL): Health._cool_model,
    (Action.COOL, Scope.PROVIDER): Health._cool_provider,
    (Action.NEXT, Scope.ACCOUNT): Health._soften,
    (Action.DISABLE, Scope.ACCOUNT): Health._disable,
}
"""what is not here leaves the account as it is"""
