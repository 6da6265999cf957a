"""Limits and budgets of the requests of one worker: who a request counts for, and what it may take.

The counts are in a table that all workers share. A request is counted before its first attempt, and settled when it has
ended, whatever its end. A table that cannot be used stops requests with a budget, and no others.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import translate as glob_pattern
from hashlib import sha256
from typing import NamedTuple

import structlog
from msgspec import Struct

from trilogue.config import Config
from trilogue.errors import LimitReached, NotAllowed
from trilogue.gateway.observe.record import RequestRecord
from trilogue.gateway.setup.access import ClientKey
from trilogue.gateway.setup.budgets import (
    budget_lines,
    key_subject,
    model_subjects,
    owner_subjects,
    route_subjects,
)
from trilogue.gateway.setup.leases import LeaseKeeper
from trilogue.gateway.setup.webhook import Webhook
from trilogue.limits import (
    NO_LIMITS,
    BudgetStanding,
    Estimate,
    LimitsFull,
    LimitStanding,
    LimitTable,
    Refused,
    Remaining,
    Subject,
    Warned,
    admit,
    budgets_standing,
    charge,
    limits_standing,
    mark_told,
    settle,
)
from trilogue.model import Json
from trilogue.routing import Upstream
from trilogue.state.store import StoreError

log = structlog.get_logger("trilogue.limits")

UNAVAILABLE = "budgets cannot be checked now"
RETURN_PAUSES = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""seconds between questions to the cluster, while other machines return what is needed"""
Cost = Callable[[RequestRecord], int | None]
"""returns what a request has cost, in billionths of a dollar; None if that is unknown"""


class Reservation(Struct, frozen=True):
    """A request that was counted, for whom, and what they have left."""

    subjects: tuple[Subject, ...]
    estimate: Estimate
    remaining: list[Remaining]
    began: float


class Asked(NamedTuple):
    """What a request asks for: a model, as the client names it, and the route that it goes by.

    `routes`: all routes whose limits and budgets hold for it, because it may be sent to one of their targets. `names`:
    all names of the model: the client's, and those of the targets.
    """

    model: str
    route: str
    routes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class LimitState(NamedTuple):
    """What outlives a configuration: the counts, the webhook, and what a cluster has granted; None without one."""

    table: LimitTable
    webhook: Webhook
    leases: LeaseKeeper | None = None


class Limiter:
    """The limits of one configuration. `state`: what outlives it."""

    def __init__(self, config: Config, state: LimitState, cost: Cost) -> None:
        self._owners = owner_subjects(config)
        self._models = [(re.compile(glob_pattern(name)), one) for name, one in model_subjects(config).items()]
        self._routes = route_subjects(config)
        self._table = state.table
        self._webhook = state.webhook
        self._leases = state.leases
        self._cost = cost
        self.applies_to_all = bool(self._models or self._routes)
        """whether there are limits that do not depend on the client key"""

    def check(self, key: ClientKey, asked: Asked, targets: Sequence[Upstream]) -> Sequence[Upstream]:
        """Return the targets that a key may use. Raises NotAllowed if it may not ask for this model."""
        options, model = key.options, asked.model
        if options.routes and asked.route not in options.routes:
            raise NotAllowed(
                f"the client key {key.name} may not use the route of the model {model}", code="model_not_allowed"
            )
        if options.models and not any(re.fullmatch(glob_pattern(one), model) for one in options.models):
            raise NotAllowed(f"the client key {key.name} may not use the model {model}", code="model_not_allowed")
        allowed = [target for target in targets if not options.providers or target.provider in options.providers]
        if not allowed:
            raise NotAllowed(
                f"the client key {key.name} may not use the providers of the model {model}", code="model_not_allowed"
            )
        return allowed

    async def begin(self, key: ClientKey, asked: Asked, estimate: Estimate) -> Reservation | None:
        """Count a request, and return what `settle` needs; None if nobody counts it. Raises LimitReached.

        This only waits if the limits are those of a cluster, and what this machine was granted is used up.
        """
        subjects = self._subjects(key, asked)
        if not subjects:
            return None
        try:
            began, result = self._admit(subjects, estimate)
            if self._leases is not None and isinstance(result, Refused):
                began, result = await self._admit_with_more(self._leases, subjects, estimate)
        except (StoreError, OSError, ValueError, LimitsFull) as error:
            self._without_table(subjects, error)
            return None
        if isinstance(result, Refused):
            raise _refusal(result)
        return Reservation(subjects, estimate, result, began)

    def _admit(self, subjects: Sequence[Subject], estimate: Estimate) -> tuple[float, Refused | list[Remaining]]:
        names, leases = [str(one) for one in subjects], self._leases
        leasing = None
        if leases is not None:
            leases.use(names)
            leasing = leases.leasing
        now = self._now()
        with self._table.rows(names) as rows:
            return now, admit(now, list(zip(subjects, rows, strict=True)), estimate, leasing)

    async def _admit_with_more(
        self, leases: LeaseKeeper, subjects: Sequence[Subject], estimate: Estimate
    ) -> tuple[float, Refused | list[Remaining]]:
        """Ask the cluster for more, a few times if other machines have to return it first."""
        for pause in RETURN_PAUSES:
            may_help = await leases.more(subjects, estimate)
            began, result = self._admit(subjects, estimate)
            if not may_help or not isinstance(result, Refused):
                break
            await asyncio.sleep(pause)
        return began, result

    def _now(self) -> float:
        """Return the time that limits go by: that of the cluster if there is one."""
        return time.time() if self._leases is None else self._leases.now()

    def settle(self, reservation: Reservation, record: RequestRecord) -> None:
        """Replace what was estimated for a request by what it took."""
        used, subjects = self._used(reservation, record), reservation.subjects
        try:
            with self._table.rows([str(one) for one in subjects]) as rows:
                pairs = list(zip(subjects, rows, strict=True))
                warned = settle(self._now(), pairs, reservation.estimate, used, reservation.began)
        except (StoreError, OSError, ValueError) as error:
            # The client has its response. What was reserved stays reserved until the worker ends.
            log.warning("limits cannot be settled", error=type(error).__name__)
            return
        for one in warned:
            self._warn(one)

    def charge(self, key: ClientKey, record: RequestRecord) -> None:
        """Add what a request of a policy took to the tokens and budgets of the key that caused it, and of its owner.

        It does not count as a request: nobody could have refused it.
        """
        subjects, usage = self._subjects(key, None), record.usage
        if not subjects or usage is None:
            return
        used = Estimate(usage.input + usage.output, self._cost(record))
        try:
            with self._table.rows([str(one) for one in subjects]) as rows:
                warned = charge(self._now(), list(zip(subjects, rows, strict=True)), used)
        except (StoreError, OSError, ValueError, LimitsFull) as error:
            log.warning("the cost of a policy cannot be counted", error=type(error).__name__)
            return
        for one in warned:
            self._warn(one)

    def _used(self, reservation: Reservation, record: RequestRecord) -> Estimate:
        """Return what a request took. If the upstream has not said so, it may have been as much as was reserved."""
        usage = record.usage
        if usage is not None:
            return Estimate(usage.input + usage.output, self._cost(record))
        was_refused = record.failure is not None and record.content_at is None
        return Estimate(0, 0) if was_refused or not record.provider else reservation.estimate

    def standing(self, key: ClientKey) -> tuple[list[LimitStanding], list[BudgetStanding]]:
        """Return how much of the limits and budgets of a key is left. Raises StoreError, OSError or ValueError."""
        if key.options.limits == NO_LIMITS and not key.options.budget.is_set:
            return [], []
        subject, now = key_subject(key), self._now()
        with self._table.rows([str(subject)]) as rows:
            return limits_standing(now, subject, rows[0]), budgets_standing(now, subject, rows[0])

    def budgets_left(self, subjects: Sequence[Subject]) -> list[Json]:
        """Return how much of the budgets of some subjects is left. Raises StoreError, OSError or ValueError."""
        names = [str(subject) for subject in subjects]
        with self._table.rows(names) as rows:
            return list(budget_lines(subjects, dict(zip(names, rows, strict=True)).get, self._now()))

    def _subjects(self, key: ClientKey, asked: Asked | None) -> tuple[Subject, ...]:
        """Return whom a request counts for. `asked`: None if it counts for no model and no route."""
        options = key.options
        found = [key_subject(key)] if key.restricted else []
        owner = self._owners.get(options.owner)
        if owner is not None:
            found.append(owner)
        if asked is None:
            return tuple(found)
        found += [self._routes[route] for route in asked.routes if route in self._routes]
        names = (asked.model, *asked.names)
        found += [subject for pattern, subject in self._models if any(pattern.fullmatch(name) for name in names)]
        return tuple(found)

    def _warn(self, warned: Warned) -> None:
        """Say in the log and by the webhook that a budget is nearly spent."""
        subject, spent = warned.subject, round(warned.spent, 6)
        shown = subject.shown or subject.name
        log.warning(
            "budget nearly spent",
            subject=f"{subject.kind} {shown}",
            period=warned.period,
            spent=spent,
            limit=warned.limit,
        )
        if not self._webhook.is_on:
            self._mark_told(warned)
            return
        at = time.time()
        event: dict[str, Json] = {
            "id": sha256(f"{subject} {warned.period} {warned.number}".encode()).hexdigest()[:32],
            "event": "budget.nearly_spent",
            "at": datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"),
            "kind": subject.kind,
            "name": shown,
            "period": warned.period,
            "spent": spent,
            "limit": warned.limit,
        }
        self._webhook.send(event, lambda: self._mark_told(warned))

    def _mark_told(self, warned: Warned) -> None:
        with suppress(StoreError, OSError, ValueError), self._table.rows([str(warned.subject)]) as rows:
            mark_told(self._now(), warned.subject, rows[0], warned.period)

    def _without_table(self, subjects: Sequence[Subject], error: Exception) -> None:
        """Let a request go on whose limits cannot be checked, unless it has a budget."""
        if any(one.budget.is_set and one.budget.store_away == "refuse" for one in subjects):
            raise LimitReached(UNAVAILABLE, code="budget_unavailable", retry_after=5.0, is_budget=False)
        log.warning("limits cannot be checked", error=type(error).__name__)


def _refusal(refused: Refused) -> LimitReached:
    subject = refused.subject
    shown = f"the {subject.kind}" if subject.kind == "key" else f"the {subject.kind} {subject.name}"
    if refused.reason == "rate":
        text = f"{shown} has reached its limit: {refused.limit}"
        return LimitReached(text, code="rate_limit_exceeded", retry_after=refused.retry_after, is_budget=False)
    if refused.reason == "price":
        text = f"{shown} has a budget, and the price of this model is unknown (unknown_prices)"
        return LimitReached(text, code="unknown_price", retry_after=None, is_budget=True)
    if refused.reason == "unavailable":
        return LimitReached(UNAVAILABLE, code="budget_unavailable", retry_after=refused.retry_after, is_budget=False)
    text = f"{shown} has spent its budget ({refused.limit}), or would with this request"
    return LimitReached(text, code="budget_exceeded", retry_after=None, is_budget=True)
