"""The limits and budgets of a configuration and of client keys as subjects, and how much of all budgets is left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from trilogue.gateway.access.client_keys import ClientKey, KeyStatus, ManagedKey
from trilogue.gateway.limits.counters import (
    COUNTED,
    ELSEWHERE,
    OWN,
    PERIODS,
    RESERVED,
    ROW,
    RUNNING,
    RUNNING_ELSEWHERE,
    SPENT,
    SPENT_ELSEWHERE,
    Row,
    budget,
    period_end,
    window,
)
from trilogue.gateway.limits.counting import Subject, budgets_of
from trilogue.gateway.limits.leasing import BILLION
from trilogue.gateway.limits.settings import LimitRules, SharedLimits
from trilogue.model import Json


class LimitStanding(NamedTuple):
    """How much of a limit is used. `resets_at`: seconds since the epoch; None for concurrent requests."""

    name: str
    limit: int
    used: int
    resets_at: float | None


class BudgetStanding(NamedTuple):
    """How much of a budget is spent, in dollars. `reserved`: for requests that run now."""

    period: str
    limit: float
    spent: float
    reserved: float
    resets_at: float | None

    @property
    def left(self) -> float:
        """What may still be spent."""
        return max(0.0, self.limit - self.spent - self.reserved)


def limits_standing(now: float, subject: Subject, row: Row) -> list[LimitStanding]:
    """Return how much of each limit of a subject is used."""
    found = []
    most = subject.limits.concurrency
    if most is not None:
        found.append(LimitStanding("concurrency", most, row[RUNNING] + row[RUNNING_ELSEWHERE], None))
    for position, counted in enumerate(COUNTED):
        limit = getattr(subject.limits, counted.limit)
        if limit is not None:
            at = window(row, position, now)
            ends = (row[at] + 1) * counted.seconds
            found.append(LimitStanding(counted.limit, limit, row[at + OWN] + row[at + ELSEWHERE], float(ends)))
    return found


def budgets_standing(now: float, subject: Subject, row: Row) -> list[BudgetStanding]:
    """Return how much of each budget of a subject is spent."""
    found = []
    for position, limit in budgets_of(subject):
        at, name = budget(row, position, now), PERIODS[position].name
        spent = (row[at + SPENT] + row[at + SPENT_ELSEWHERE]) / BILLION
        reserved = row[at + RESERVED] / BILLION
        found.append(BudgetStanding(name, limit / BILLION, spent, reserved, period_end(name, now)))
    return found


_GLOB = re.compile(r"[*?[]")


def key_subject(key: ClientKey) -> Subject:
    """Return what counts for a client key alone."""
    return Subject("key", key.id or key.owner, key.options.limits, key.options.budget, key.name, key.since)


def shared_subjects(kind: str, shared: Mapping[str, SharedLimits]) -> dict[str, Subject]:
    """Return what counts for all requests of an owner, of a route or for some models, by name."""
    return {name: Subject(kind, name, one.limits, one.budget) for name, one in shared.items()}


def subjects_with_budget(
    rules: LimitRules, configured: Sequence[ClientKey], managed: Sequence[ManagedKey], now: float
) -> list[Subject]:
    """Return everything that has a budget: keys that work, owners, routes and models."""
    keys = [key_subject(key) for key in configured]
    keys += [
        Subject("key", key.id, key.options.limits, key.options.budget, key.name, key.created)
        for key in managed
        if key.status(now) is KeyStatus.ACTIVE
    ]
    shared = zip(("owner", "route", "model"), (rules.owners, rules.routes, rules.models), strict=True)
    found = [*keys, *(subject for kind, one in shared for subject in shared_subjects(kind, one).values())]
    return [subject for subject in found if subject.budget.is_set]


def budget_lines(subjects: Sequence[Subject], row_of: Callable[[str], Row | None], now: float) -> Iterator[Json]:
    """Yield how much of each budget is left. `row_of`: returns the counts of a subject, or None if it has none yet."""
    for subject in subjects:
        for standing in budgets_standing(now, subject, row_of(str(subject)) or [0] * ROW):
            yield {"kind": subject.kind, "name": subject.shown or subject.name, **shown_budget(standing)}


def shown_budget(standing: BudgetStanding) -> dict[str, Json]:
    """Return how much of a budget is left as JSON."""
    return {
        "period": standing.period,
        "limit": standing.limit,
        "spent": round(standing.spent, 9),
        "reserved": round(standing.reserved, 9),
        "left": round(standing.left, 9),
        "resets_at": _time(standing.resets_at),
    }


def shown_limit(standing: LimitStanding) -> dict[str, Json]:
    """Return how much of a limit is left as JSON."""
    return {
        "name": standing.name,
        "limit": standing.limit,
        "used": standing.used,
        "left": max(0, standing.limit - standing.used),
        "resets_at": _time(standing.resets_at),
    }


def how_to_price(provider: str) -> str:
    """Return what to do about an unknown price at a provider."""
    return f"set it in providers.{provider}.prices or in price_file, or set unknown_prices: allow in the budget"


def _time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
