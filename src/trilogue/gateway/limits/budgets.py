"""The limits and budgets of a configuration and of client keys as subjects, and how much of all budgets is left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from trilogue.gateway.access.client_keys import ClientKey
from trilogue.gateway.access.managed import KeyStatus, ManagedKey
from trilogue.gateway.limits.counters import ROW, Row
from trilogue.gateway.limits.counting import Subject
from trilogue.gateway.limits.remaining import BudgetStanding, LimitStanding, budgets_standing
from trilogue.gateway.limits.settings import LimitRules, SharedLimits
from trilogue.model import Json

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
