"""Decides whether a request may go on, by the limits and budgets of all its subjects, and settles it when it has ended.

Pure: the rows come from a table that the caller has locked, and the time is an argument. A request is counted for all
of its subjects or for none. Tokens and money are estimated before the request is sent, and corrected at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from trilogue.gateway.limits.counters import (
    COUNTED,
    DAY,
    ELSEWHERE,
    OWN,
    PERIODS,
    RESERVED,
    RUNNING,
    SPENT,
    SPENT_ELSEWHERE,
    WARNED,
    Row,
    budget,
    period_end,
    window,
)
from trilogue.gateway.limits.leasing import BILLION, FIRST_BUDGET, Counter, CounterRequest, Leasing, counters, usable
from trilogue.gateway.limits.settings import NO_BUDGET, NO_LIMITS, BudgetSettings, RateLimits

WARN_SHARE = 0.8
TOLD = -1
"""marks a warning that has arrived; until then the cell has the time of the latest try"""
REMIND_SECONDS = 600
"""after which a warning is given again that has not arrived, because its process ended or gave up"""
RUNNING_RETRY = 1.0
"""seconds: when a running request ends is not known"""
UNAVAILABLE_RETRY = 5.0


class Subject(Struct, frozen=True):
    """Who or what a request counts for: `kind` is key, owner, model or route. `shown`: its name for people.

    `since`: when it was made. `pays_only`: it pays for the request, which does not count
    as a request of its own, and which no other limit refuses.
    """

    kind: str
    name: str
    limits: RateLimits = NO_LIMITS
    budget: BudgetSettings = NO_BUDGET
    shown: str = ""
    since: float = 0.0
    pays_only: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Estimate(NamedTuple):
    """What a request will take at most. `cost`: in billionths of a dollar; None if the price is unknown.

    `bounded`: whether it cannot take more.
    """

    tokens: int
    cost: int | None
    bounded: bool = True

    def times(self, number: int) -> Estimate:
        """Return what several such requests take."""
        return Estimate(self.tokens * number, None if self.cost is None else self.cost * number, self.bounded)


class Refused(NamedTuple):
    """Why a request may not go on. `retry_after`: seconds; None if waiting does not help.

    `limit`: the setting that is exhausted. `reason`: `rate`, `budget`, `price` if the price is unknown, `unbounded` if
    nobody can tell what the request costs at most, or `unavailable` if it cannot be known what was spent.
    """

    subject: Subject
    limit: str
    reason: Literal["rate", "budget", "price", "unbounded", "unavailable"]
    retry_after: float | None


class Remaining(NamedTuple):
    """What is left of a limit after this request, for the client's headers. `reset`: seconds until it is full again."""

    what: str
    limit: int
    remaining: int
    reset: float


class Warned(NamedTuple):
    """A budget of which most is spent, noticed for the first time in its period. Amounts are in dollars.

    `number`: tells the period from other ones of its kind.
    """

    subject: Subject
    period: str
    number: int
    spent: float
    limit: float


Subjects = Sequence[tuple[Subject, Row]]


def admit(
    now: float, subjects: Subjects, estimate: Estimate, leasing: Leasing | None = None, requests: int = 1
) -> Refused | list[Remaining]:
    """Count a request for all of its subjects, and return what they have left; or count nothing and say why.

    `leasing`: how the cluster is doing that grants limits to this machine; None if there is none. `requests`: 0 for
    one more attempt of a request that was counted.
    """
    for subject, row in subjects:
        refused = _refusal(now, subject, row, (estimate, requests), leasing)
        if refused is not None:
            return refused
    remaining = [one for subject, row in subjects for one in _count(now, subject, row, estimate, requests)]
    tightest: dict[str, Remaining] = {}
    for one in remaining:
        known = tightest.get(one.what)
        if known is None or one.remaining * known.limit < known.remaining * one.limit:
            tightest[one.what] = one
    return list(tightest.values())


def settle(now: float, subjects: Subjects, estimate: Estimate, used: Estimate, began: float) -> list[Warned]:
    """Replace the estimate of a request that has ended by what it took; return the budgets that are nearly spent.

    `began`: when it was admitted.
    """
    warned = []
    for subject, row in subjects:
        row[RUNNING] = max(0, row[RUNNING] - (not subject.pays_only))
    for subject, row in subjects:
        for position, counted in enumerate(COUNTED):
            if counted.what == "tokens" and getattr(subject.limits, counted.limit) is not None:
                at, more = window(row, position, now), used.tokens - estimate.tokens
                if int(began) // counted.seconds != row[at]:
                    # The estimate was counted in an earlier window: only what is over it is counted in this one.
                    more = max(0, more)
                row[at + OWN] = max(0, row[at + OWN] + more)
        for position, limit in budgets_of(subject):
            at = budget(row, position, now)
            row[at + RESERVED] = max(0, row[at + RESERVED] - (estimate.cost or 0))
            row[at + SPENT] += used.cost or 0
            total = row[at + SPENT] + row[at + SPENT_ELSEWHERE]
            told = row[at + WARNED]
            if total >= WARN_SHARE * limit and told != TOLD and now - told >= REMIND_SECONDS:
                row[at + WARNED] = int(now)
                warned.append(Warned(subject, PERIODS[position].name, row[at], total / BILLION, limit / BILLION))
    return warned


def mark_told(now: float, subject: Subject, row: Row, period: str) -> None:
    """Note that a warning about a budget has arrived, so that it is not given again in this period."""
    for position, _ in budgets_of(subject):
        if PERIODS[position].name == period:
            row[budget(row, position, now) + WARNED] = TOLD


def shortage(now: float, subject: Subject, row: Row, estimate: Estimate, requests: int = 1) -> list[CounterRequest]:
    """Return the counts of a subject that have a limit, and how much more of each a request needs to be granted."""
    found = []
    for counter in counters(now, subject.limits, subject.budget, row):
        needed = counter.used + _taken(counter.which, counter.limit, (estimate, requests))
        found.append(CounterRequest(counter, max(0, needed - usable(now, row, counter.granted, counter.used))))
    return found


def _taken(index: int, limit: int, asked: tuple[Estimate, int]) -> int:
    """Return what a request takes of a count."""
    estimate, requests = asked
    if index >= FIRST_BUDGET:
        return estimate.cost or 0
    # A request larger than the whole limit may use a window of its own, or it could never be sent.
    return min(estimate.tokens, limit) if index and COUNTED[index - 1].what == "tokens" else requests


def _refusal(
    now: float, subject: Subject, row: Row, asked: tuple[Estimate, int], leasing: Leasing | None
) -> Refused | None:
    for counter in counters(now, subject.limits, subject.budget, row):
        index, limit = counter.which, counter.limit
        if index >= FIRST_BUDGET:
            refused = _budget_refusal(now, subject, row, asked[0], (counter, leasing))
            if refused is not None:
                return refused
            continue
        most = limit
        if leasing is not None:
            least = max(1, int(limit * leasing.share)) if leasing.away else 0
            most = min(limit, max(least, usable(now, row, counter.granted, counter.used)))
        taken = _taken(index, limit, asked)
        if taken and not subject.pays_only and counter.used + taken > most:
            if not index:
                return Refused(subject, "concurrency", "rate", RUNNING_RETRY)
            counted = COUNTED[index - 1]
            return Refused(subject, counted.limit, "rate", _until_next(now, counted.seconds))
    return None


def _budget_refusal(
    now: float, subject: Subject, row: Row, estimate: Estimate, leased: tuple[Counter, Leasing | None]
) -> Refused | None:
    counter, leasing = leased
    name = PERIODS[counter.which - FIRST_BUDGET].name
    settings = subject.budget
    is_counted = estimate.cost is not None or settings.unknown_prices == "refuse"
    if not estimate.bounded and estimate.cost != 0 and is_counted and settings.unbounded == "refuse":
        return Refused(subject, name, "unbounded", None)
    if estimate.cost is None:
        return Refused(subject, name, "price", None) if subject.budget.unknown_prices == "refuse" else None
    wanted, limit = counter.used + estimate.cost, counter.limit
    if leasing is None:
        fits = wanted <= limit
    elif wanted <= min(limit, usable(now, row, counter.granted, counter.used)):
        fits = True
    elif not (leasing.away or leasing.money_unknown) or wanted + row[counter.at + 1] > limit:
        fits = False
    elif subject.budget.store_away == "allow":
        fits = True
    else:
        return Refused(subject, name, "unavailable", UNAVAILABLE_RETRY)
    if fits:
        return None
    end = period_end(name, now)
    return Refused(subject, name, "budget", None if end is None else max(1.0, end - now))


def _count(now: float, subject: Subject, row: Row, estimate: Estimate, requests: int) -> Iterable[Remaining]:
    requests = 0 if subject.pays_only else requests
    row[RUNNING] += requests
    for position, _ in budgets_of(subject):
        row[budget(row, position, now) + RESERVED] += estimate.cost or 0
    for position, counted in enumerate(COUNTED):
        limit = getattr(subject.limits, counted.limit)
        if limit is None:
            continue
        at = window(row, position, now)
        row[at + OWN] += requests if counted.what == "requests" else estimate.tokens
        left = max(0, limit - row[at + OWN] - row[at + ELSEWHERE])
        yield Remaining(counted.what, limit, left, _until_next(now, counted.seconds))


def budgets_of(subject: Subject) -> Iterable[tuple[int, int]]:
    """Return the position in `PERIODS` and the amount of each budget that a subject has."""
    for position, period in enumerate(PERIODS):
        amount = getattr(subject.budget, period.name)
        if amount is not None:
            yield position, round(amount * BILLION)


def _until_next(now: float, seconds: int) -> float:
    return min(float(DAY), seconds - now % seconds)
