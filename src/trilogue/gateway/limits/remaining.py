"""What is left of the limits and budgets of a subject, for people: nothing is decided or counted here."""

from __future__ import annotations

from typing import NamedTuple

from trilogue.gateway.limits.counters import (
    COUNTED,
    ELSEWHERE,
    OWN,
    PERIODS,
    RESERVED,
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
