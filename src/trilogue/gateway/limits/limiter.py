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
from functools import partial
from hashlib import sha256
from typing import NamedTuple, Protocol

import structlog
from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import LimitReached, NotAllowed
from trilogue.gateway.access.client_keys import ClientKey
from trilogue.gateway.limits.counters import COMPLETE, Before, complete
from trilogue.gateway.limits.counting import Estimate, Refused, Remaining, Subject, Warned, admit, mark_told, settle
from trilogue.gateway.limits.leasing import BILLION, Leasing
from trilogue.gateway.limits.remaining import (
    BudgetStanding,
    LimitStanding,
    budget_lines,
    budgets_standing,
    how_to_price,
    key_subject,
    limits_standing,
    shared_subjects,
)
from trilogue.gateway.limits.settings import NO_LIMITS, LimitRules, RateLimits
from trilogue.gateway.limits.shared_table import LimitsFull, LimitTable, SpendingUnknown
from trilogue.gateway.limits.webhook import Webhook
from trilogue.gateway.record import RequestRecord
from trilogue.model import Json
from trilogue.routing.router import ProviderModel
from trilogue.storage.database import StoreError, StoreUnavailable

log = structlog.get_logger("trilogue.limits")

UNAVAILABLE = "budgets cannot be checked now"
_REDIS_AWAY = "the Redis server of the cluster is away"
RETURN_PAUSES = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""seconds between questions to the cluster, while other machines return what is needed"""
Cost = Callable[[RequestRecord, float], int | None]
"""returns what a request has cost by the prices of a time, in billionths of a dollar; None if that is unknown"""


class Reservation(Struct):
    """A request that was counted, for whom, and what they have left. `estimate`: of one attempt.

    `attempts`: how many may have cost something, and are reserved. `others`: see `Asked`.
    """

    subjects: tuple[Subject, ...]
    estimate: Estimate
    remaining: list[Remaining]
    began: float
    attempts: int = 1
    others: tuple[str, ...] = ()

    @property
    def reserved(self) -> Estimate:
        """What is reserved for all attempts."""
        return self.estimate.times(self.attempts)


class Asked(NamedTuple):
    """What a request asks for: a model, as the client names it, and the route that it goes by.

    `by_policy`: a policy asks, so it is no request of the key and its owner, who only pay for it. `routes`: all routes
    whose limits and budgets hold for it, because it may be sent to one of their targets. `names`: all names of the
    model: the client's, and those of the targets. `others`: models that the upstream may use instead of its own.
    """

    model: str
    route: str
    by_policy: bool = False
    routes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


_ANYTHING = Asked("", "")


UsedBefore = Callable[[Subject, float, str, bool], Before]
"""returns what a subject has used before it was counted, at a time; the file whose counts were lost, "" if none were;
whether it was not known before. May block, and raise StoreError"""


def nothing_before(subject: Subject, now: float, lost: str, is_unknown: bool) -> Before:
    """Return that nothing was used."""
    return Before()


class Leases(Protocol):
    """What a cluster has granted to this machine, and where to ask for more."""

    @property
    def leasing(self) -> Leasing:
        """What was granted."""

    def use(self, names: Sequence[str]) -> None:
        """Note that these subjects are in use, so that their grants are renewed."""

    async def more(self, subjects: Sequence[Subject], estimate: Estimate, requests: int) -> bool:
        """Ask for more, for a request of these subjects. Return whether asking again later may help."""

    def now(self) -> float:
        """Return the time of the cluster."""


class LimitState(NamedTuple):
    """What outlives a configuration: the counts, the webhook, and what a cluster has granted; None without one."""

    table: LimitTable
    webhook: Webhook
    leases: Leases | None = None


class Limiter:
    """The limits of one configuration. `state`: what outlives it. `before`: what was used before that was counted.

    `unpriced`: returns the target of a model whose price is unknown, or None.
    """

    def __init__(
        self,
        rules: LimitRules,
        state: LimitState,
        cost: Cost,
        before: UsedBefore = nothing_before,
        unpriced: Callable[[str], ProviderModel | None] = lambda _: None,
    ) -> None:
        self.rules = rules
        self._owners = shared_subjects("owner", rules.owners)
        self._models = [
            (re.compile(glob_pattern(name), re.IGNORECASE), one)
            for name, one in shared_subjects("model", rules.models).items()
        ]
        self._routes = shared_subjects("route", rules.routes)
        self._unpriced = unpriced
        self._table = state.table
        self._webhook = state.webhook
        self._leases = state.leases
        self._cost = cost
        self._before = before
        self._learning = asyncio.Lock()
        self.applies_to_all = bool(self._models or self._routes)
        """whether there are limits that do not depend on the client key"""

    def check(self, key: ClientKey, asked: Asked, targets: Sequence[ProviderModel]) -> Sequence[ProviderModel]:
        """Return the targets that a key may use. Raises NotAllowed if it may not ask for this model."""
        options, model = key.options, asked.model
        if options.routes and asked.route not in options.routes:
            raise NotAllowed(
                f"the client key {key.name} may not use the route of the model {model}", code="model_not_allowed"
            )
        if options.models and not any(re.fullmatch(glob_pattern(one), model) for one in options.models):
            raise NotAllowed(f"the client key {key.name} may not use the model {model}", code="model_not_allowed")
        return self.check_providers(key, f"the model {model}", targets)

    def check_providers(self, key: ClientKey, what: str, targets: Sequence[ProviderModel]) -> Sequence[ProviderModel]:
        """Return the targets that a key may use, whatever the model. Raises NotAllowed if there is none."""
        providers = key.options.providers
        allowed = [target for target in targets if not providers or target.provider in providers]
        if not allowed:
            raise NotAllowed(f"the client key {key.name} may not use the providers of {what}", code="model_not_allowed")
        return allowed

    def limits_tokens(self, key: ClientKey) -> bool:
        """Return whether tokens of requests with a key are limited."""
        return any(_limits_tokens(one.limits) for one in self._subjects(key, _ANYTHING))

    def charges(self, key: ClientKey, asked: Asked) -> bool:
        """Return whether the usage of a request counts against a budget or a limit on tokens."""
        return any(one.budget.is_set or _limits_tokens(one.limits) for one in self._subjects(key, asked))

    async def begin(self, key: ClientKey, asked: Asked, estimate: Estimate) -> Reservation | None:
        """Count a request, and return what `settle` needs; None if nobody counts it. Raises LimitReached.

        This only waits if the limits are those of a cluster, and what this machine was granted is used up.
        """
        subjects = self._subjects(key, asked)
        if not subjects:
            return None
        try:
            began, result = await self._count(subjects, estimate, 1)
        except (StoreError, OSError, ValueError, LimitsFull) as error:
            self._without_table(subjects, error)
            return None
        if isinstance(result, Refused):
            raise self._refusal(result, asked, estimate)
        return Reservation(subjects, estimate, result, began, others=asked.others)

    async def extend(self, reservation: Reservation, attempts: int) -> bool:
        """Reserve as much as so many attempts may cost together. Return False if there is no room for that."""
        more = attempts - reservation.attempts
        if more <= 0:
            return True
        try:
            _, result = await self._count(reservation.subjects, reservation.estimate.times(more), 0)
        except (StoreError, OSError, ValueError, LimitsFull) as error:
            log.warning("limits cannot be checked for another attempt", error=type(error).__name__)
            return False
        if isinstance(result, Refused):
            return False
        reservation.attempts = attempts
        return True

    async def _count(
        self, subjects: Sequence[Subject], estimate: Estimate, requests: int
    ) -> tuple[float, Refused | list[Remaining]]:
        began, result = self._admit(subjects, estimate, requests)
        while result is None:
            await self._complete(subjects)
            began, result = self._admit(subjects, estimate, requests)
        if self._leases is not None and isinstance(result, Refused):
            return await self._admit_with_more(self._leases, subjects, estimate, requests)
        return began, result

    async def _complete(self, subjects: Sequence[Subject]) -> None:
        """Find out what subjects that are new to the table have used before. Raises StoreError, OSError, ValueError."""
        async with self._learning:
            for subject in self._lacking(subjects):
                before = await self._used_before(subject)
                now = self._now()
                with self._table.rows([str(subject)]) as rows:
                    complete(rows[0], now, before)

    async def _used_before(self, subject: Subject) -> Before:
        """Return what a subject has used before. Raises StoreError, OSError, ValueError."""
        table = self._table
        work = partial(self._before, subject, self._now(), table.lost, table.is_unknown)
        try:
            return await asyncio.to_thread(work)
        except SpendingUnknown:
            # The ledger goes on, and would look as if it had said so.
            table.stay_unknown()
            raise

    def _lacking(self, subjects: Sequence[Subject]) -> list[Subject]:
        with self._table.rows([str(one) for one in subjects]) as rows:
            return [subject for subject, row in zip(subjects, rows, strict=True) if not row[COMPLETE]]

    def _admit(
        self, subjects: Sequence[Subject], estimate: Estimate, requests: int
    ) -> tuple[float, Refused | list[Remaining] | None]:
        """Count a request, or return why not; None if it must be found out first what subjects have used before."""
        names, leases = [str(one) for one in subjects], self._leases
        leasing = None
        if leases is not None:
            leases.use(names)
            leasing = leases.leasing
        now = self._now()
        with self._table.rows(names) as rows:
            if not all([row[COMPLETE] for row in rows]):
                return now, None
            return now, admit(now, list(zip(subjects, rows, strict=True)), estimate, leasing, requests)

    async def _admit_with_more(
        self, leases: Leases, subjects: Sequence[Subject], estimate: Estimate, requests: int
    ) -> tuple[float, Refused | list[Remaining]]:
        """Ask the cluster for more, a few times if other machines have to return it first."""
        for pause in RETURN_PAUSES:
            may_help = await leases.more(subjects, estimate, requests)
            began, result = self._admit(subjects, estimate, requests)
            if result is not None and not (may_help and isinstance(result, Refused)):
                break
            await asyncio.sleep(pause)
        if result is None:
            raise StoreUnavailable("the counts of limits were lost just now")
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
                warned = settle(self._now(), pairs, reservation.reserved, used, reservation.began)
        except (StoreError, OSError, ValueError) as error:
            # The client has its response. What was reserved stays reserved until the worker ends.
            log.warning("limits cannot be settled", error=type(error).__name__)
            return
        for one in warned:
            self._warn(one)

    def _used(self, reservation: Reservation, record: RequestRecord) -> Estimate:
        """Return what a request took. Attempts without usage count as much as was reserved for them."""
        usage, most = record.metered, reservation.estimate
        uncertain = most.times(record.unmetered)
        if usage is None:
            return uncertain
        own = record.upstream_model
        models = (own, *reservation.others)
        # Unless the response tells which of several models it comes from, it may be from the dearest.
        used = (record.response_model,) if record.response_model in models else models
        found = [
            self._cost(record if one == own else replace(record, upstream_model=one), reservation.began) for one in used
        ]
        cost = max([one for one in found if one is not None], default=None)
        if None in found and most.cost is not None:
            # A part of it has no known price.
            cost = most.cost
        whole = usage.whole
        return Estimate(uncertain.tokens + whole.input + whole.output, (uncertain.cost or 0) + (cost or 0))

    async def standing(self, key: ClientKey) -> tuple[list[LimitStanding], list[BudgetStanding]]:
        """Return how much of the limits and budgets of a key is left. Raises StoreError, OSError or ValueError."""
        if key.options.limits == NO_LIMITS and not key.options.budget.is_set:
            return [], []
        subject, now = key_subject(key), self._now()
        await self._complete([subject])
        with self._table.rows([str(subject)]) as rows:
            return limits_standing(now, subject, rows[0]), budgets_standing(now, subject, rows[0])

    async def budgets_left(self, subjects: Sequence[Subject]) -> list[Json]:
        """Return how much of the budgets of some subjects is left. Raises StoreError, OSError or ValueError."""
        names = [str(subject) for subject in subjects]
        await self._complete(subjects)
        with self._table.rows(names) as rows:
            return list(budget_lines(subjects, dict(zip(names, rows, strict=True)).get, self._now()))

    def _subjects(self, key: ClientKey, asked: Asked) -> tuple[Subject, ...]:
        """Return whom a request counts for."""
        options = key.options
        found = [key_subject(key)] if key.restricted else []
        owner = self._owners.get(options.owner)
        if owner is not None:
            found.append(owner)
        if asked.by_policy:
            found = [replace(one, pays_only=True) for one in found]
        found += [self._routes[route] for route in asked.routes if route in self._routes]
        # Servers may ignore case, and space around a name.
        names = [name.strip() for name in (asked.model, *asked.names)]
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
            log.error("budgets cannot be checked", error=str(error) or type(error).__name__)
            text = f"{UNAVAILABLE}: the counts of this machine cannot be read or written"
            raise LimitReached(text, code="budget_unavailable", retry_after=5.0, is_budget=False)
        log.warning("limits cannot be checked", error=type(error).__name__)

    def _refusal(self, refused: Refused, asked: Asked, estimate: Estimate) -> LimitReached | NotAllowed:
        subject = refused.subject
        shown = f"the {subject.kind}" if subject.kind == "key" else f"the {subject.kind} {subject.name}"
        if refused.reason == "rate":
            text = f"{shown} has reached its limit: {refused.limit}{self._why_less()}"
            return LimitReached(text, code="rate_limit_exceeded", retry_after=refused.retry_after, is_budget=False)
        if refused.reason == "unbounded":
            text = f"{shown} has a budget, and what this request costs at most is unknown (budget.unbounded)"
            return NotAllowed(text, code="not_bounded")
        if refused.reason == "price":
            text = f"{shown} has a budget, and {self._without_price(asked.model)}"
            return LimitReached(text, code="unknown_price", retry_after=None, is_budget=True)
        if refused.reason == "unavailable":
            text = f"{UNAVAILABLE}{self._why_unavailable()}"
            return LimitReached(text, code="budget_unavailable", retry_after=refused.retry_after, is_budget=False)
        most = f", which may cost ${(estimate.cost or 0) / BILLION:,.4f}"
        text = f"{shown} has spent its budget ({refused.limit}), or would with this request{most}"
        return LimitReached(text, code="budget_exceeded", retry_after=None, is_budget=True)

    def _without_price(self, model: str) -> str:
        """Return which price is unknown, and what to do about it."""
        found = self._unpriced(model)
        named = f"{found.provider}/{found.model}" if found is not None else model or "this request"
        return f"the price of {named} is unknown: {how_to_price(found.provider if found is not None else 'NAME')}"

    def _why_less(self) -> str:
        """Return why this machine may use less than the whole limit, if that is so."""
        away = self._leases is not None and self._leases.leasing.away
        return f" ({_REDIS_AWAY}, so this machine may use only its share)" if away else ""

    def _why_unavailable(self) -> str:
        if self._leases is None:
            return ""
        if self._leases.leasing.away:
            return f": {_REDIS_AWAY}, and this machine has used what it was granted"
        return ": the cluster does not know yet what was spent"


def _limits_tokens(limits: RateLimits) -> bool:
    return any(one is not None for one in (limits.tokens_per_minute, limits.tokens_per_hour, limits.tokens_per_day))
