"""The limits and budgets of a configuration and of client keys as subjects, and how much of all budgets is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from trilogue.config import Config
from trilogue.gateway.setup.access import ClientKey
from trilogue.keys import KeyStatus, ManagedKey
from trilogue.limits import NO_BUDGET, NO_LIMITS, BudgetStanding, LimitStanding, Subject, budgets_standing
from trilogue.limits.slots import ROW, Row
from trilogue.model import Json


def key_subject(key: ClientKey) -> Subject:
    """Return what counts for a client key alone."""
    return Subject("key", key.id or key.owner, key.options.limits, key.options.budget, key.name, key.since)


def owner_subjects(config: Config) -> dict[str, Subject]:
    """Return what counts for all keys of an owner, by owner."""
    return {name: Subject("owner", name, one.limits, one.budget) for name, one in config.owners.items()}


def route_subjects(config: Config) -> dict[str, Subject]:
    """Return what counts for all requests of a route, by the `match` of the routes that have limits or a budget."""
    return {
        one.match: Subject("route", one.match, one.limits, one.budget)
        for one in reversed(config.routes)
        if one.limits != NO_LIMITS or one.budget != NO_BUDGET
    }


def model_subjects(config: Config) -> dict[str, Subject]:
    """Return what counts for all requests for some models, by the pattern of their names."""
    return {pattern: Subject("model", pattern, one.limits, one.budget) for pattern, one in config.model_limits.items()}


def subjects_with_budget(
    config: Config, configured: Sequence[ClientKey], managed: Sequence[ManagedKey], now: float
) -> list[Subject]:
    """Return everything that has a budget: keys that work, owners, routes and models."""
    keys = [key_subject(key) for key in configured]
    keys += [
        Subject("key", key.id, key.options.limits, key.options.budget, key.name, key.created)
        for key in managed
        if key.status(now) is KeyStatus.ACTIVE
    ]
    shared = (owner_subjects(config), route_subjects(config), model_subjects(config))
    found = [*keys, *(subject for subjects in shared for subject in subjects.values())]
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


def _time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
