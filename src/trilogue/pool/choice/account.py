"""One account as the pool knows it: its limits, whether it may be used, and what has become of it.

A token bucket: so much per minute, filling steadily, full at the start.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec import Struct

from trilogue.pool.choice.proxies import ProxyRing
from trilogue.pool.settings import AccountSpec


class Bucket:
    """`rate` per minute. Holds what is left; may go below nothing when a use turns out larger than estimated."""

    __slots__ = ("_at", "_level", "_per_second", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._per_second = rate / 60.0
        self._level = rate
        self._at = 0.0

    def level(self, now: float) -> float:
        """What may be used now."""
        if now > self._at:
            self._level = min(self.rate, self._level + (now - self._at) * self._per_second)
            self._at = now
        return self._level

    def has(self, now: float, amount: float) -> bool:
        """Whether so much may be used. More than the bucket can ever hold needs a full one."""
        return self.level(now) >= min(amount, self.rate) - 1e-9

    def take(self, now: float, amount: float) -> None:
        """Use it, or give it back (negative)."""
        self._level = min(self.rate, self.level(now) - amount)

    def ready_at(self, now: float, amount: float) -> float:
        """When so much may be used."""
        missing = min(amount, self.rate) - self.level(now)
        return now if missing <= 0 else now + missing / self._per_second


MAX_MODELS = 64
"""models that an account can be blocked for at a time; the oldest block gives way"""


class ModelCooldown(NamedTuple):
    """Not for this model until then. `at`: when it failed; what was sent before then says nothing new."""

    until: float
    why: str
    failures: int = 1
    at: float = 0.0


class AccountRequest(Struct):
    """What a choice depends on. `tried`: names of accounts that this request has been to. `tokens`: an estimate."""

    model: str = ""
    sticky: str = ""
    tried: set[str] = set()
    tokens: int = 0


class Lease(Struct, frozen=True, gc=False):
    """An account reserved for one attempt, until it is `finished`, `failed` or `released`. `since`: when.

    `how`: sticky, strategy, last_resort or stripped. `broken`: why a conversation had to leave its account.
    """

    account: Account
    model: str
    tokens: int
    since: float
    how: str
    broken: str


class Account:
    """State of one account. Changed by its pool only."""

    __slots__ = (
        "adjust",
        "alarm",
        "blocked_at",
        "by",
        "concurrency",
        "cooled_until",
        "error",
        "error_at",
        "error_status",
        "failed",
        "failed_elsewhere",
        "failures",
        "in_flight",
        "in_flight_elsewhere",
        "index",
        "models",
        "name",
        "ok",
        "ok_elsewhere",
        "probe_at",
        "probes",
        "proxies",
        "rank",
        "requests",
        "soft_until",
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
        """order among the others of its tier: the lowest goes first"""
        self.in_flight = 0
        self.in_flight_elsewhere = 0
        self.cooled_until = 0.0
        """out of use until then"""
        self.soft_until = 0.0
        """behind the others until then"""
        self.why = ""
        """of the rest"""
        self.failures = 0
        """in a row"""
        self.alarm = math.inf
        """when the pool will look at it again"""
        self.blocked_at = 0.0
        """when it last failed: what was sent before then says nothing new"""
        self.by = ""
        """who has disabled it: the upstream (then a probe may bring it back) or a hand"""
        self.probe_at = 0.0
        self.probes = 0
        self.models: dict[str, ModelCooldown] = {}
        self.adjust: float | None = None
        self.ok = self.failed = 0
        self.ok_elsewhere = self.failed_elsewhere = 0
        self.spent = self.spent_elsewhere = 0.0
        self.error = ""
        self.error_status = 0
        self.error_at = 0.0

    @property
    def balance(self) -> float | None:
        """What is left of its money, if anyone keeps count."""
        if self.spec.balance is None and self.adjust is None:
            return None
        return (self.spec.balance or 0.0) + (self.adjust or 0.0) - self.spent - self.spent_elsewhere

    def obstacle(self, now: float) -> str:
        """Why it cannot be used for any request at all now; empty if it can. Soft rest is no obstacle."""
        if self.by and (self.by == "hand" or now < self.probe_at or self.in_flight):
            return "disabled"
        if now < self.cooled_until:
            return "cooling"
        if self.concurrency is not None and self.in_flight >= self.concurrency:
            return "concurrency"
        if self.requests is not None and not self.requests.has(now, 1):
            return "requests_per_minute"
        if self.adjust is None and self.spec.balance is None:
            return ""
        return "balance" if (self.balance or 0.0) <= 0 else ""

    def lacks(self, now: float, model: str, tokens: int) -> str:
        """Why it cannot be used for this very request; empty if it can."""
        if self.models:
            block = self.models.get(model)
            if block is not None and now < block.until:
                return "model"
        if self.tokens is not None and not self.tokens.has(now, tokens):
            return "tokens_per_minute"
        return ""

    def free_at(self, now: float, model: str, tokens: int) -> float | None:
        """When it can be used again as far as that is known."""
        if self.by == "hand":
            return None
        times = [now, self.cooled_until, self.probe_at if self.by else 0.0]
        if self.requests is not None:
            times.append(self.requests.ready_at(now, 1))
        if self.tokens is not None:
            times.append(self.tokens.ready_at(now, tokens))
        if model in self.models:
            times.append(self.models[model].until)
        balance = self.balance
        return None if balance is not None and balance <= 0 else max(times)

    def next_change(self, now: float) -> float:
        """The next time at which something that stands in its way ends by itself; infinity if nothing does."""
        times = [self.cooled_until, self.soft_until, self.probe_at if self.by else 0.0]
        times += [block.until for block in self.models.values()]
        if self.requests is not None:
            times.append(self.requests.ready_at(now, 1))
        return min((at for at in times if at > now), default=math.inf)

    def block(self, model: str, block: ModelCooldown) -> None:
        """Not for this model for a while."""
        self.models.pop(model, None)
        self.models[model] = block
        if len(self.models) > MAX_MODELS:
            del self.models[next(iter(self.models))]

    def success_rate(self) -> float | None:
        """Of all that was tried, here and elsewhere."""
        ok = self.ok + self.ok_elsewhere
        total = ok + self.failed + self.failed_elsewhere
        return ok / total if total else None


def rank_by_balance(account: Account) -> float:
    """Whoever has most left goes first."""
    balance = account.balance
    return 0.0 if balance is None else -balance


def _part(limit: int | None, share: float) -> int | None:
    return None if limit is None else max(1, int(limit * share))


def _bucket(limit: int | None, share: float) -> Bucket | None:
    return None if limit is None else Bucket(max(1.0, limit * share))
