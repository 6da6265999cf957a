"""The limits and budgets of a configuration and of client keys as subjects, and how much of all budgets is left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from trilogue.config.types import Config
from trilogue.errors import ClientError
from trilogue.gateway.access.client_keys import ClientKey
from trilogue.gateway.access.managed import KeyStatus, ManagedKey
from trilogue.gateway.limits.counters import ROW, Row
from trilogue.gateway.limits.counting import Subject
from trilogue.gateway.limits.remaining import BudgetStanding, LimitStanding, budgets_standing
from trilogue.gateway.limits.settings import NO_BUDGET, NO_LIMITS
from trilogue.model import Json
from trilogue.routing.models.router import Router, Upstream

_GLOB = re.compile(r"[*?[]")


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


def unpriced(config: Config, router: Router, model: str, hour: int) -> list[Upstream]:
    """Return the targets of a model, as clients name it, whose price is unknown. `hour`: since the epoch."""
    try:
        targets = router.resolve(model).targets
    except ClientError:
        return []
    return [target for target in targets if _has_no_price(config, target, hour)]


def unpriced_targets(config: Config, hour: int) -> Iterator[tuple[str, str]]:
    """Yield the provider and the model of every target whose price a budget needs, and which is unknown.

    The model is "" if no price of the provider's models is known.
    """
    budgets = [one.budget for one in (*config.owners.values(), *config.model_limits.values())]
    budgets += [*(key.budget for key in config.keys), *(route.budget for route in config.routes)]
    if not any(one.is_set and one.unknown_prices == "refuse" for one in budgets):
        return
    empty = {name for name, one in config.served.items() if one.price_book().is_empty}
    yield from ((name, "") for name in sorted(empty))
    for target in sorted(_named_targets(config)):
        if target.provider not in empty and _has_no_price(config, target, hour):
            yield target


def how_to_price(provider: str) -> str:
    """Return what to do about an unknown price at a provider."""
    return f"set it in providers.{provider}.prices or in price_file, or set unknown_prices: allow in the budget"


def _named_targets(config: Config) -> set[Upstream]:
    """Return all targets that the configuration names: in aliases, routes, lists of models, and for its keys."""
    router = config.router()
    found = set(router.named_targets())
    fixed = (target for route in config.routes for target in route.chain() if "$" not in target.model)
    found |= {Upstream(target.provider, target.model) for target in fixed}
    for name in {name for key in config.keys for name in key.models if not _GLOB.search(name)}:
        with suppress(ClientError):
            found |= set(router.resolve(name).targets)
    return {target for target in found if target.provider in config.served}


def _has_no_price(config: Config, target: Upstream, hour: int) -> bool:
    return config.providers[target.provider].price_book().prices(target.model, hour) is None


def _time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
