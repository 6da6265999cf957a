"""Limits and budgets of the requests of one worker: who a request counts for, and what it may take.

The counts are in a table that all workers share. A request is counted before its first attempt, and settled when it has
ended, whatever its end. A table that cannot be used stops requests with a budget, and no others.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from fnmatch import translate as glob_pattern

import structlog
from msgspec import Struct

from trilogue.config import Config
from trilogue.errors import LimitReached, NotAllowed
from trilogue.gateway.observe.record import RequestRecord
from trilogue.gateway.setup.access import ClientKey
from trilogue.limits import (
    NO_BUDGET,
    Estimate,
    LimitsFull,
    LimitTable,
    Refused,
    Remaining,
    Subject,
    Warned,
    admit,
    charge,
    settle,
)
from trilogue.routing import Upstream
from trilogue.state.store import StoreError

log = structlog.get_logger("trilogue.limits")

Cost = Callable[[RequestRecord], int | None]
"""returns what a request has cost, in billionths of a dollar; None if that is unknown"""


class Reservation(Struct, frozen=True):
    """A request that was counted, for whom, and what they have left."""

    subjects: tuple[Subject, ...]
    estimate: Estimate
    remaining: list[Remaining]


class Limiter:
    """The limits of one configuration. `table`: the counts, which outlive it."""

    def __init__(self, config: Config, table: LimitTable, cost: Cost) -> None:
        self._owners = {name: Subject("owner", name, one.limits, one.budget) for name, one in config.owners.items()}
        self._models = [
            (re.compile(glob_pattern(pattern)), Subject("model", pattern, one.limits, one.budget))
            for pattern, one in config.model_limits.items()
        ]
        self._table = table
        self._cost = cost
        self.applies_to_all = bool(self._models)
        """whether there are limits that do not depend on the client key"""

    def check(self, key: ClientKey, model: str, targets: Sequence[Upstream]) -> Sequence[Upstream]:
        """Return the targets that a key may use. Raises NotAllowed if it may not ask for this model."""
        options = key.options
        if options.models and not any(re.fullmatch(glob_pattern(one), model) for one in options.models):
            raise NotAllowed(f"the client key {key.name} may not use the model {model}", code="model_not_allowed")
        allowed = [target for target in targets if not options.providers or target.provider in options.providers]
        if not allowed:
            raise NotAllowed(
                f"the client key {key.name} may not use the providers of the model {model}", code="model_not_allowed"
            )
        return allowed

    def begin(self, key: ClientKey, model: str, estimate: Estimate) -> Reservation | None:
        """Count a request, and return what `settle` needs; None if nobody counts it. Raises LimitReached."""
        subjects = self._subjects(key, model)
        if not subjects:
            return None
        try:
            with self._table.rows([str(one) for one in subjects]) as rows:
                result = admit(time.time(), list(zip(subjects, rows, strict=True)), estimate)
        except (StoreError, OSError, ValueError, LimitsFull) as error:
            self._without_table(subjects, error)
            return None
        if isinstance(result, Refused):
            raise _refusal(result)
        return Reservation(subjects, estimate, result)

    def settle(self, reservation: Reservation, record: RequestRecord) -> None:
        """Replace what was estimated for a request by what it took."""
        used, subjects = self._used(record), reservation.subjects
        with self._table.rows([str(one) for one in subjects]) as rows:
            warned = settle(time.time(), list(zip(subjects, rows, strict=True)), reservation.estimate, used)
        for one in warned:
            _warn(one)

    def charge(self, key: ClientKey, record: RequestRecord) -> None:
        """Add what a request of a policy took to the tokens and budgets of the key that caused it, and of its owner.

        It does not count as a request: nobody could have refused it.
        """
        subjects = self._subjects(key)
        used = self._used(record)
        if not subjects or not used.tokens:
            return
        try:
            with self._table.rows([str(one) for one in subjects]) as rows:
                warned = charge(time.time(), list(zip(subjects, rows, strict=True)), used)
        except (StoreError, OSError, ValueError, LimitsFull) as error:
            log.warning("the cost of a policy cannot be counted", error=type(error).__name__)
            return
        for one in warned:
            _warn(one)

    def _used(self, record: RequestRecord) -> Estimate:
        usage = record.usage
        tokens = 0 if usage is None else usage.input + usage.output
        return Estimate(tokens, 0 if usage is None else self._cost(record))

    def _subjects(self, key: ClientKey, model: str | None = None) -> tuple[Subject, ...]:
        """Return whom a request counts for. `model`: None if it counts for no model."""
        options = key.options
        found = [Subject("key", key.id or key.owner, options.limits, options.budget)] if key.restricted else []
        owner = self._owners.get(options.owner)
        if owner is not None:
            found.append(owner)
        if model is None:
            return tuple(found)
        return tuple([*found, *(subject for pattern, subject in self._models if pattern.fullmatch(model))])

    def _without_table(self, subjects: Sequence[Subject], error: Exception) -> None:
        """Let a request go on whose limits cannot be checked, unless it has a budget."""
        if any(one.budget != NO_BUDGET for one in subjects):
            raise LimitReached(
                "budgets cannot be checked now", code="budget_unavailable", retry_after=5.0, is_budget=False
            )
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
    text = f"{shown} has spent its budget ({refused.limit}), or would with this request"
    return LimitReached(text, code="budget_exceeded", retry_after=None, is_budget=True)


def _warn(warned: Warned) -> None:
    log.warning(
        "budget nearly spent",
        subject=str(warned.subject),
        period=warned.period,
        spent=round(warned.spent, 4),
        limit=warned.limit,
    )
