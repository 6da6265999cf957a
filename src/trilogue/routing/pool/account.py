"""One account as the pool knows it: its limits, its egress proxies, whether it is available, what happened to it.

An account is unavailable while it is disabled, over a limit or cooling down. One that is failing is available, but used
last: errors of servers say little about the account, and an attempt that may fail is better than none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec import Struct

from trilogue.routing.pool.settings import AccountSpec

FIRST_COOLDOWN = 5.0
LONGEST_COOLDOWN = 300.0


class ProxyRing:
    """The egress proxies of an account or of a provider, by position, in rotation.

    One that failed is skipped for a while, for all accounts that share it.
    """

    __slots__ = ("_failures", "_next", "_until")

    def __init__(self, count: int) -> None:
        self._until = [0.0] * count
        self._failures = [0] * count
        self._next = 0

    def choose(self, now: float, tried: frozenset[int] | set[int] = frozenset()) -> int:
        """Return the next proxy that works; if none does, the one whose cooldown ends first."""
        count = len(self._until)
        order = [(self._next + step) % count for step in range(count)]
        fresh = [index for index in order if index not in tried] or order
        index = next((index for index in fresh if self._until[index] <= now), None)
        if index is None:
            index = min(fresh, key=self._until.__getitem__)
        self._next = (index + 1) % count
        return index

    def untried(self, now: float, tried: set[int]) -> bool:
        """Return whether there is another proxy that is not cooling down."""
        return any(until <= now and index not in tried for index, until in enumerate(self._until))

    def failed(self, index: int, now: float) -> None:
        """Start a cooldown, which doubles with every failure: it could not be reached, or did not let us through."""
        self._failures[index] += 1
        self._until[index] = now + min(FIRST_COOLDOWN * 2.0 ** (self._failures[index] - 1), LONGEST_COOLDOWN)

    def worked(self, index: int) -> None:
        """End the cooldown of a proxy that was used with success."""
        self._failures[index] = 0
        self._until[index] = 0.0


ROUNDING = 1e-9


class Bucket:
    """A token bucket for a limit per minute, the `rate`: it starts full and fills steadily.

    It falls below 0 when a use turns out larger than was estimated.
    """

    __slots__ = ("_at", "_level", "_per_second", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._per_second = rate / 60.0
        self._level = rate
        self._at = 0.0

    def set_rate(self, rate: float) -> None:
        """Change the limit. What is left of it stays the same part of the whole."""
        self._level *= rate / self.rate
        self.rate, self._per_second = rate, rate / 60.0

    def level(self, now: float) -> float:
        """Return how much may be used now."""
        if now > self._at:
            self._level = min(self.rate, self._level + (now - self._at) * self._per_second)
            self._at = now
        return self._level

    def has(self, now: float, amount: float) -> bool:
        """Return whether this much may be used now. For more than the bucket can hold, a full one is enough."""
        return self.level(now) >= min(amount, self.rate) - ROUNDING

    def take(self, now: float, amount: float) -> None:
        """Use an amount, or give it back if it is negative."""
        self._level = min(self.rate, self.level(now) - amount)

    def ready_at(self, now: float, amount: float) -> float:
        """Return when this much may be used."""
        missing = min(amount, self.rate) - self.level(now)
        return now if missing <= 0 else now + missing / self._per_second


MAX_MODELS = 64
"""Models that an account can be cooling down for at a time. The oldest cooldown is dropped: clients invent names."""


class ModelCooldown(NamedTuple):
    """A cooldown for one model. `at`: when the request failed; requests sent before then say nothing new."""

    until: float
    why: str
    failures: int = 1
    at: float = 0.0


class AccountRequest(Struct):
    """What a request needs from an account. `sticky`: the key of its conversation. `tokens`: an estimate.

    `tried`: names of accounts that the request was already sent to. `only`: the one account that can take it, because
    what it refers to is stored there.
    """

    model: str = ""
    sticky: str = ""
    tried: set[str] = set()
    tokens: int = 0
    only: str = ""


class Lease(Struct, frozen=True, gc=False):
    """An account reserved for one attempt, until it is `finished`, `failed` or `released`. `since`: when.

    `how`: sticky, only, strategy, last_resort, probe, stripped or adjusted. `broken`: why a conversation had to change
    its account, and `left`: which account that was.
    """

    account: Account
    model: str
    tokens: int
    since: float
    how: str
    broken: str
    left: str = ""


class Account:
    """State of one account. Only its pool changes it."""

    __slots__ = (
        "adjustment",
        "concurrency",
        "cooldown_until",
        "disabled_by",
        "error",
        "error_at",
        "error_status",
        "error_text",
        "failed",
        "failed_at",
        "failed_elsewhere",
        "failing_until",
        "failures",
        "in_flight",
        "in_flight_elsewhere",
        "index",
        "model_cooldowns",
        "name",
        "next_check",
        "ok",
        "ok_elsewhere",
        "probe_at",
        "probes",
        "proxies",
        "rank",
        "requests",
        "spec",
        "spent",
        "spent_elsewhere",
        "tokens",
        "why",
    )

    def __init__(self, index: int, spec: AccountSpec, share: float, proxies: ProxyRing | None) -> None:
        limits = spec.limits
        self.index = index
        self.spec = spec
        self.name = spec.name
        self.proxies = proxies
        self.concurrency = _part(limits.concurrency, share)
        self.requests = _bucket(limits.requests_per_minute, share)
        self.tokens = _bucket(limits.tokens_per_minute, share)
        self.rank = 0.0
        """order among the accounts of its tier: the lowest is used first"""
        self.in_flight = 0
        self.in_flight_elsewhere = 0
        self.cooldown_until = 0.0
        self.failing_until = 0.0
        """used last until then"""
        self.why = ""
        """reason of the cooldown, of failing or of being disabled"""
        self.failures = 0
        """in a row"""
        self.failed_at = 0.0
        """when it last failed: requests sent before then say nothing new"""
        self.next_check = math.inf
        """when the pool will look at it again"""
        self.disabled_by = ""
        """"upstream" (a probe may enable it), "hand", or empty"""
        self.probe_at = 0.0
        self.probes = 0
        self.model_cooldowns: dict[str, ModelCooldown] = {}
        self.adjustment: float | None = None
        """what was added to the configured balance by hand"""
        self.ok = self.failed = 0
        self.ok_elsewhere = self.failed_elsewhere = 0
        self.spent = self.spent_elsewhere = 0.0
        self.error = ""
        self.error_status = 0
        self.error_at = 0.0
        self.error_text = ""

    def set_share(self, share: float) -> None:
        """Change the part of its limits that this process may use."""
        limits = self.spec.limits
        self.concurrency = _part(limits.concurrency, share)
        if self.requests is not None and limits.requests_per_minute is not None:
            self.requests.set_rate(_rate(limits.requests_per_minute, share))
        if self.tokens is not None and limits.tokens_per_minute is not None:
            self.tokens.set_rate(_rate(limits.tokens_per_minute, share))

    @property
    def balance(self) -> float | None:
        """What is left of its money; None if it has no balance."""
        if self.spec.balance is None and self.adjustment is None:
            return None
        return (self.spec.balance or 0.0) + (self.adjustment or 0.0) - self.spent - self.spent_elsewhere

    def why_unavailable(self, now: float) -> str:
        """Return why no request can be sent to it now; empty if it is available, which a failing account is."""
        if self.disabled_by and (self.disabled_by == "hand" or now < self.probe_at or self.in_flight):
            return "disabled"
        if now < self.cooldown_until:
            return "cooling"
        if self.concurrency is not None and self.in_flight >= self.concurrency:
            return "concurrency"
        if self.requests is not None and not self.requests.has(now, 1):
            return "requests_per_minute"
        if self.adjustment is None and self.spec.balance is None:
            return ""
        return "balance" if (self.balance or 0.0) <= 0 else ""

    def why_unsuitable(self, now: float, model: str, tokens: int) -> str:
        """Return why a request for this model and size cannot be sent to it, while others can; empty if it can."""
        if self.model_cooldowns:
            cooldown = self.model_cooldowns.get(model)
            if cooldown is not None and now < cooldown.until:
                return "model"
        if self.tokens is not None and not self.tokens.has(now, tokens):
            return "tokens_per_minute"
        return ""

    def available_at(self, now: float, model: str, tokens: int) -> float | None:
        """Return when a request can be sent to it again; None if that takes a person."""
        if self.disabled_by == "hand":
            return None
        times = [now, self.cooldown_until, self.probe_at if self.disabled_by else 0.0]
        if self.requests is not None:
            times.append(self.requests.ready_at(now, 1))
        if self.tokens is not None:
            times.append(self.tokens.ready_at(now, tokens))
        if model in self.model_cooldowns:
            times.append(self.model_cooldowns[model].until)
        balance = self.balance
        return None if balance is not None and balance <= 0 else max(times)

    def next_change(self, now: float) -> float:
        """Return the next time at which a cooldown or a limit ends by itself; infinity if none does."""
        times = [self.cooldown_until, self.failing_until, self.probe_at if self.disabled_by else 0.0]
        times += [cooldown.until for cooldown in self.model_cooldowns.values()]
        if self.requests is not None:
            times.append(self.requests.ready_at(now, 1))
        return min((at for at in times if at > now), default=math.inf)

    def cool_down_for(self, model: str, cooldown: ModelCooldown) -> None:
        """Start a cooldown for one model."""
        self.model_cooldowns.pop(model, None)
        self.model_cooldowns[model] = cooldown
        if len(self.model_cooldowns) > MAX_MODELS:
            del self.model_cooldowns[next(iter(self.model_cooldowns))]

    def success_rate(self) -> float | None:
        """Return the part of all attempts that succeeded, in all processes; None if there were none."""
        ok = self.ok + self.ok_elsewhere
        total = ok + self.failed + self.failed_elsewhere
        return ok / total if total else None


def rank_by_balance(account: Account) -> float:
    """Return a rank by which the account with the highest balance is used first."""
    balance = account.balance
    return 0.0 if balance is None else -balance


def _part(limit: int | None, share: float) -> int | None:
    return None if limit is None else max(1, int(limit * share))


def _bucket(limit: int | None, share: float) -> Bucket | None:
    return None if limit is None else Bucket(_rate(limit, share))


def _rate(limit: int, share: float) -> float:
    return max(1.0, limit * share)
