"""What failures and successes do to accounts and to their provider: cool down, be used last, be disabled, recover.

Limits, money and model access start a cooldown: nothing is sent until it is over. Errors of servers only make an
account failing: others are used first, but with no other it is still used. Refused keys disable an account until a
probe succeeds or a person enables it. What a failure means is in `classify`. How long an upstream asks us to wait is
read in `protocols.failure`. What a model refuses is remembered, so that it is not sent to it again; what that
was, and what to send instead, is found out in `translate.learning`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

from trilogue.routing.pool.account import Account, Lease, ModelCooldown
from trilogue.routing.pool.account_queues import ReadyAccounts
from trilogue.routing.pool.changes import Adjusted, Change, Cooled, Erred, Learned, Switched
from trilogue.routing.pool.classify import FORBIDDEN, NOT_FOUND, Action, Scope, Verdict
from trilogue.routing.pool.settings import PoolSettings
from trilogue.translate.learning.remedies import Remedy

JITTER = 0.2
"""A fifth more or less, so that accounts that failed together don't come back together."""
MOST_DOUBLINGS = 30

OUTAGE = 5
"""Faults of servers or of the network in a row, on any accounts, that count as an outage of the provider."""
LONGEST_OUTAGE = 60.0
FIRST_PROBE = 2.0
"""Seconds until a disabled account is probed if every other one is disabled too."""
LONGEST_PROBE = 86_400.0
_NEVER = ModelCooldown(0.0, "", 0)
_PROVES_NOTHING = frozenset({NOT_FOUND, FORBIDDEN})
"""Refusals that do not show whether the upstream accepts the key."""
MAX_MODELS = 256
MAX_PER_MODEL = 16
_NOTHING: tuple[Remedy, ...] = ()


def growing_delay(failures: int, settings: PoolSettings, rng: Random) -> float:
    """Return the cooldown after this many failures in a row (1 or more)."""
    doubled = settings.first_delay_seconds * 2.0 ** min(failures - 1, MOST_DOUBLINGS)
    return min(doubled, settings.max_delay_seconds) * rng.uniform(1 - JITTER, 1 + JITTER)


def named_delay(seconds: float, settings: PoolSettings) -> float:
    """Return the cooldown for a time that an upstream named: never negative, never longer than the configured limit."""
    if not math.isfinite(seconds):
        return settings.max_cooling_seconds
    return min(max(seconds, 0.0), settings.max_cooling_seconds)


class Health:
    """The health of one provider and its accounts."""

    def __init__(self, provider: str, settings: PoolSettings, ready: ReadyAccounts, changes: deque[Change]) -> None:
        self.cooldown_until = 0.0
        """nothing is sent to the provider until then"""
        self.failing_until = 0.0
        """the provider is used after the other targets of a request until then"""
        self.why = ""
        """reason of either"""
        self.reached_at = -math.inf
        """when the upstream was last heard of: only then is it worth waiting for one that cannot be reached"""
        self._faults = 0
        """of servers or of the network, in a row"""
        self._cooldowns = 0
        """of the provider, in a row"""
        self._failed_at = 0.0
        """when the latest of either began: requests sent before then say nothing new"""
        self._provider = provider
        self._settings = settings
        self._ready = ready
        self._changes = changes

    def succeeded(self, lease: Lease, now: float) -> None:
        """End every cooldown that began before this request was sent: the upstream accepts the account."""
        self._responded(lease, now)
        account = lease.account
        if lease.since < account.failed_at:
            return
        if account.disabled_by == "upstream":
            self.enable(account)
        if account.failures:
            account.failures = 0
            account.cooldown_until = account.failing_until = 0.0
            account.why = ""
            self._write(Cooled(self._provider, account.name, "", 0.0, False, "", 0))
            self._ready.make_available(account)
        cooldown = account.model_cooldowns.get(lease.model)
        if cooldown is not None and lease.since >= cooldown.at:
            del account.model_cooldowns[lease.model]
            self._write(Cooled(self._provider, account.name, lease.model, 0.0, False, "", 0))

    def _responded(self, lease: Lease, now: float) -> None:
        """End an outage of the provider that began before this request was sent."""
        self._faults = self._cooldowns = 0
        self.reached_at = now
        if self.failing_until > now and lease.since >= self._failed_at:
            self.failing_until = 0.0
            self._write(Cooled(self._provider, "", "", 0.0, True, "", 0))

    def failed(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> float | None:
        """Apply a verdict. Return until when a cooldown lasts, or None if nothing is cooling down."""
        account = lease.account
        if not verdict.unreached:
            self.reached_at = now
        if verdict.action in (Action.CLIENT, Action.STRIP):
            if verdict.why in _PROVES_NOTHING:
                # The address may be wrong, or what the key may do, and then every request fails like this: it must be
                # visible somewhere.
                account.failed += 1
                self._responded(lease, now)
                self.note_error(account, now, verdict)
                if account.disabled_by == "upstream":
                    self._schedule_probe(account, now)
            else:
                # It refused this request alone, so the upstream works and accepts the key.
                self.succeeded(lease, now)
            return None
        if not verdict.blame_proxy:
            account.failed += 1
        self.note_error(account, now, verdict)
        if verdict.fault:
            self._count_fault(lease, now, verdict, rng)
            if account.disabled_by == "upstream":
                self._schedule_probe(account, now)
        else:
            self._faults = 0
            if account.disabled_by == "upstream" and verdict.action is not Action.DISABLE:
                self.enable(account)
        apply = _EFFECTS.get((verdict.action, verdict.scope))
        return apply(self, lease, now, verdict, rng) if apply else None

    def note_error(self, account: Account, now: float, verdict: Verdict) -> None:
        """Make this the last error of an account, without any other consequence."""
        account.error, account.error_status, account.error_at = verdict.why, verdict.status, now
        account.error_text = verdict.text or verdict.words
        self._write(Erred(self._provider, account.name, verdict.why, verdict.status, now, account.error_text))

    def enable(self, account: Account) -> None:
        """Enable an account and end its probes."""
        account.disabled_by, account.probe_at, account.probes = "", 0.0, 0
        self._write(Switched(self._provider, account.name, ""))
        self._ready.make_available(account)

    def disable(self, account: Account, now: float, by: str, why: str = "") -> None:
        """Disable an account: `by` "upstream" until a probe succeeds, by "hand" until a person enables it."""
        account.disabled_by, account.why, account.failed_at = by, why, now
        if by == "upstream":
            account.probes += 1
            self._schedule_probe(account, now)
        else:
            self._ready.cool_down(account, now + LONGEST_PROBE, why or "disabled")
        self._write(self._switched(account))

    def reset(self, account: Account) -> None:
        """Forget everything that went wrong. A cooldown of the provider ends too: it includes this account."""
        if self.cooldown_until:
            self.cooldown_until, self._cooldowns = 0.0, 0
            self._write(Cooled(self._provider, "", "", 0.0, False, "", 0))
        account.cooldown_until = account.failing_until = 0.0
        account.failures, account.why = 0, ""
        self._write(Cooled(self._provider, account.name, "", 0.0, False, "", 0))
        for model in list(account.model_cooldowns):
            del account.model_cooldowns[model]
            self._write(Cooled(self._provider, account.name, model, 0.0, False, "", 0))
        self.enable(account)

    def take_over(self, account: Account | None, change: Cooled, now: float) -> None:
        """Apply a cooldown that another process started, or this one before a restart.

        It is cut to the longest possible one, in case the clock was set back since.
        """
        until = min(change.until, now + self._longest())
        if not change.account:
            if change.failing:
                self.failing_until, self._faults = until, change.failures
            else:
                self.cooldown_until = until
            self.why = change.why
        elif account is not None and change.model:
            self._cool_down_for(account, change.model, ModelCooldown(until, change.why, change.failures), now)
        elif account is not None:
            account.failures = change.failures
            if not account.disabled_by:
                account.why = change.why
            if change.failing:
                account.failing_until = until
            else:
                account.cooldown_until = until
            if not change.until:
                account.failing_until = 0.0
            self._cool_down_until(account, until, now, failing=change.failing)

    def switched(self, account: Account, change: Switched, now: float) -> None:
        """Disable or enable an account as another process did, or this one before a restart.

        An account that has a new key since then stays enabled: that key was never refused.
        """
        if change.by == "upstream" and account.spec.credential not in (None, change.credential):
            return
        account.disabled_by, account.probes, account.why = change.by, change.probes, change.why
        account.probe_at = min(change.probe_at, now + LONGEST_PROBE)
        self._cool_down_until(account, account.probe_at if change.by == "upstream" else now + LONGEST_PROBE, now)
        if not change.by:
            self._ready.make_available(account)

    def _switched(self, account: Account) -> Switched:
        return Switched(
            self._provider,
            account.name,
            account.disabled_by,
            account.probe_at,
            account.probes,
            account.why,
            account.spec.credential or "",
        )

    def snapshot(self, accounts: Iterable[Account], now: float) -> list[Change]:
        """Return all that differs from a fresh start, as changes."""
        found: list[Change] = []
        for until, failing in ((self.cooldown_until, False), (self.failing_until, True)):
            if until > now:
                found.append(Cooled(self._provider, "", "", until, failing, self.why, self._faults))
        for account in accounts:
            found += self._snapshot_of(account, now)
        return found

    def _snapshot_of(self, account: Account, now: float) -> Iterable[Change]:
        until = max(account.cooldown_until, account.failing_until)
        if until > now or account.failures:
            failing = account.cooldown_until <= now
            yield Cooled(self._provider, account.name, "", until, failing, account.why, account.failures)
        for model, one in account.model_cooldowns.items():
            yield Cooled(self._provider, account.name, model, one.until, False, one.why, one.failures)
        if account.disabled_by:
            yield self._switched(account)
        if account.error:
            yield Erred(
                self._provider,
                account.name,
                account.error,
                account.error_status,
                account.error_at,
                account.error_text,
            )
        if account.adjustment is not None:
            yield Adjusted(self._provider, account.name, account.adjustment)

    def _write(self, change: Change) -> None:
        self._changes.append(change)

    def _longest(self) -> float:
        return max(self._settings.max_cooling_seconds, self._settings.max_delay_seconds) * 1.2

    def _delay(self, verdict: Verdict, failures: int, rng: Random) -> float:
        if verdict.delay is not None:
            # Some upstreams refuse with a retry time of 0: without a minimum they would be asked in a tight loop.
            least = min(self._settings.first_delay_seconds, 1.0)
            return max(named_delay(verdict.delay, self._settings), verdict.min_seconds, least)
        return max(growing_delay(failures, self._settings, rng), verdict.min_seconds)

    def _count_fault(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> None:
        """Count a fault against the provider, unless the egress proxy is to blame; make it failing if they are many."""
        if verdict.blame_proxy or lease.since < self._failed_at:
            return
        self._faults += 1
        if self._faults < OUTAGE:
            return
        delay = min(growing_delay(self._faults - OUTAGE + 1, self._settings, rng), LONGEST_OUTAGE)
        self.failing_until, self.why, self._failed_at = now + delay, verdict.why, now
        self._write(Cooled(self._provider, "", "", self.failing_until, True, verdict.why, self._faults))

    def _schedule_probe(self, account: Account, now: float) -> None:
        growth = 2.0 ** min(max(account.probes, 1) - 1, 30)
        if self._is_only_one(account):
            # A single 401 must not cost ten minutes: without this account every request fails.
            delay = min(FIRST_PROBE * growth, self._settings.probe_seconds)
        else:
            delay = min(self._settings.probe_seconds * growth, LONGEST_PROBE)
        account.probe_at = now + delay
        self._ready.cool_down(account, account.probe_at, account.why or "disabled")

    def _is_only_one(self, account: Account) -> bool:
        """Return whether every other account of the provider is disabled."""
        return all(one is account or one.disabled_by for one in self._ready.accounts)

    def _cool_down_until(self, account: Account, until: float, now: float, *, failing: bool = False) -> None:
        """Start or end a cooldown, depending on whether its end is still to come."""
        if until > now:
            self._ready.cool_down(account, until, account.why, failing=failing)
        else:
            self._ready.make_available(account)

    def _cool_down_for(self, account: Account, model: str, cooldown: ModelCooldown, now: float) -> None:
        if cooldown.until <= now:
            account.model_cooldowns.pop(model, None)
            self._ready.make_available(account)
            return
        account.cool_down_for(model, cooldown)
        self._ready.add_queue(model)
        self._ready.cool_down(account, cooldown.until, cooldown.why, model=model)

    def _count_failure(self, lease: Lease, now: float) -> int:
        """Return the failures in a row with this one. Those of requests that ran at the same time count once."""
        account = lease.account
        if lease.since >= account.failed_at or not account.failures:
            account.failures += 1
        account.failed_at = now
        return account.failures

    def _cool_down_account(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> float:
        account = lease.account
        if not verdict.any_model and self._is_only_one(account):
            return self._cool_down_model(lease, now, verdict, rng)
        delay = self._delay(verdict, self._count_failure(lease, now), rng)
        until = account.cooldown_until = max(account.cooldown_until, now + delay)
        account.why = verdict.why
        self._ready.cool_down(account, until, verdict.why)
        self._write(Cooled(self._provider, account.name, "", until, False, verdict.why, account.failures))
        return until

    def _cool_down_model(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> float:
        account, model = lease.account, lease.model
        before = account.model_cooldowns.get(model, _NEVER)
        failures = before.failures + 1 if lease.since >= before.at else before.failures
        cooldown = ModelCooldown(now + self._delay(verdict, failures, rng), verdict.why, failures, now)
        self._cool_down_for(account, model, cooldown, now)
        self._write(Cooled(self._provider, account.name, model, cooldown.until, False, verdict.why, failures))
        return cooldown.until

    def _cool_down_provider(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> float:
        if lease.since >= self._failed_at:
            self._cooldowns += 1
        delay = self._delay(verdict, max(self._cooldowns, 1), rng)
        self.cooldown_until, self.why, self._failed_at = max(self.cooldown_until, now + delay), verdict.why, now
        self._write(Cooled(self._provider, "", "", self.cooldown_until, False, verdict.why, self._cooldowns))
        return self.cooldown_until

    def _use_last(self, lease: Lease, now: float, verdict: Verdict, rng: Random) -> float:
        account = lease.account
        account.failing_until = now + self._delay(verdict, self._count_failure(lease, now), rng)
        if not account.disabled_by:
            account.why = verdict.why
        self._ready.cool_down(account, account.failing_until, verdict.why, failing=True)
        self._write(
            Cooled(self._provider, account.name, "", account.failing_until, True, verdict.why, account.failures)
        )
        return account.failing_until

    def _disable(self, lease: Lease, now: float, verdict: Verdict, _: Random) -> float:
        account = lease.account
        if account.disabled_by != "hand" and (not account.disabled_by or lease.since >= account.failed_at):
            self.disable(account, now, "upstream", verdict.why)
        return account.probe_at


_Effect = Callable[[Health, Lease, float, Verdict, Random], float]

_EFFECTS: dict[tuple[Action, Scope], _Effect] = {
    (Action.COOLDOWN, Scope.ACCOUNT): Health._cool_down_account,
    (Action.COOLDOWN, Scope.ACCOUNT_MODEL): Health._cool_down_model,
    (Action.COOLDOWN, Scope.PROVIDER): Health._cool_down_provider,
    (Action.NEXT, Scope.ACCOUNT): Health._use_last,
    (Action.DISABLE, Scope.ACCOUNT): Health._disable,
}
"""Combinations that are not listed leave the account as it is."""


class Lessons:
    """The remedies for each model of one provider. The models that were learned about first are dropped first."""

    def __init__(self, provider: str, changes: deque[Change]) -> None:
        self._provider = provider
        self._changes = changes
        self.by_model: dict[str, tuple[Remedy, ...]] = {}
        """for callers that cannot afford the call of `of`"""

    def of(self, model: str) -> tuple[Remedy, ...]:
        """Return what a model has refused so far."""
        return self.by_model.get(model, _NOTHING)

    def learn(self, model: str, remedies: Sequence[Remedy]) -> list[Remedy]:
        """Remember remedies that hold for a model whatever else is asked of it; return those that are new."""
        known = self.of(model)
        new = [remedy for remedy in remedies if remedy.lasting and remedy not in known]
        if new:
            # A later error about the same parameter knows better: its remedy replaces the first.
            paths = {remedy.path for remedy in new}
            kept = [remedy for remedy in known if remedy.path not in paths]
            learned = Learned(self._provider, model, tuple([*kept, *new][-MAX_PER_MODEL:]))
            self.take_over(learned)
            self._changes.append(learned)
        return new

    def take_over(self, learned: Learned) -> None:
        """Take over what another process has learned, or this one before a restart."""
        self.by_model.pop(learned.model, None)
        self.by_model[learned.model] = learned.remedies
        while len(self.by_model) > MAX_MODELS:
            del self.by_model[next(iter(self.by_model))]

    def forget(self, model: str) -> bool:
        """Forget what a model has refused, because it may accept it now. Return False if there was nothing."""
        if model not in self.by_model:
            return False
        learned = Learned(self._provider, model, ())
        del self.by_model[model]
        self._changes.append(learned)
        return True

    def items(self) -> Iterator[tuple[str, tuple[Remedy, ...]]]:
        """Return every model that has refused something, with the remedies."""
        return ((model, remedies) for model, remedies in self.by_model.items() if remedies)

    def snapshot(self) -> Iterable[Change]:
        """Return everything that a successor needs to know, as changes."""
        return [Learned(self._provider, model, remedies) for model, remedies in self.by_model.items()]
