"""What was used before the counts of a subject were made, or were lost: the usage ledger says it.

In a cluster that keeps what each machine has spent in a database, that says it, because machines share the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from trilogue.gateway.features.usage.ledger.live_file import HOUR_SECONDS
from trilogue.gateway.features.usage.ledger.tables import UsageLine, UsageQuery
from trilogue.gateway.features.usage.observer import LOCAL, OTHER
from trilogue.gateway.limits.budget_table import SpentRow
from trilogue.gateway.limits.counters import COUNTED, MINUTE, PERIODS, Before, period_start
from trilogue.gateway.limits.counting import Subject
from trilogue.gateway.limits.leasing import FIRST_BUDGET
from trilogue.gateway.limits.shared_table import SpendingUnknown

_PICO_PER_NANO = 1_000


class Sources(NamedTuple):
    """Where to find out what was used. `ledger`: None if usage is not counted.

    `spent_here`: what this machine has spent of the budgets of a subject; None outside of such a cluster.
    `ledger_lost`: returns when a damaged ledger was set aside for the last time; 0 for never. `route_of`: returns the
    route of a model.
    """

    ledger: Callable[[UsageQuery], list[UsageLine]] | None = None
    spent_here: Callable[[str], Sequence[SpentRow]] | None = None
    ledger_lost: Callable[[], float] = lambda: 0.0
    route_of: Callable[[str], str] = str


def used_before(sources: Sources, subject: Subject, now: float, lost: str, is_unknown: bool = False) -> Before:
    """Return what a subject has used of its budgets and limits. May block. Raises StoreError.

    `lost`: the file whose counts were lost; "" if none were. Then it must be known what was spent, or SpendingUnknown
    is raised, as it is for `is_unknown`: it was not known before.
    """
    if sources.spent_here is not None:
        rows = sources.spent_here(str(subject)) if subject.budget.is_set else ()
        return Before(tuple([_spent_here(rows, position, now) for position in range(len(PERIODS))]))
    if lost and subject.budget.is_set and (is_unknown or not _says_all(sources, subject, now)):
        raise SpendingUnknown(
            f"{lost} was damaged, and the usage ledger does not say what was spent: stop the gateway and delete "
            "this file to begin all budgets and limits at 0"
        )
    if sources.ledger is None or (lost and not _has_any(sources.ledger)):
        return Before()
    spent = [
        0 if getattr(subject.budget, one.name) is None else _cost(_lines(sources, subject, period_start(one.name, now)))
        for one in PERIODS
    ]
    counted = []
    for one in COUNTED:
        # The ledger has sums of hours: of a minute it says nothing.
        is_known = getattr(subject.limits, one.limit) is not None and one.seconds != MINUTE
        lines = _lines(sources, subject, int(now) // one.seconds * one.seconds) if is_known else []
        counted.append(sum(_number(line, one.what) for line in lines))
    return Before(tuple(spent), tuple(counted))


def _says_all(sources: Sources, subject: Subject, now: float) -> bool:
    """Return whether the ledger has all that a subject has spent: it was not lost as well, in one of its periods."""
    if sources.ledger is None or not _has_any(sources.ledger):
        return False
    starts = [period_start(one.name, now) for one in PERIODS if getattr(subject.budget, one.name) is not None]
    ended = sources.ledger_lost()
    return not ended or ended < max(min(starts, default=now), subject.since)


def _has_any(ledger: Callable[[UsageQuery], list[UsageLine]]) -> bool:
    return any(line.counts.requests for line in ledger(UsageQuery()))


def _spent_here(rows: Sequence[SpentRow], position: int, now: float) -> int:
    period = PERIODS[position].number(now)
    return sum(row.spent for row in rows if row.counter == FIRST_BUDGET + position and row.period == period)


def _lines(sources: Sources, subject: Subject, start: float) -> list[UsageLine]:
    """Return what the ledger has of a subject from a time on."""
    first = int(max(start, subject.since)) // HOUR_SECONDS
    only: Mapping[str, str] = {}
    if subject.kind == "key":
        only = {"key": subject.shown or LOCAL}
    elif subject.kind == "owner":
        only = {"owner": subject.name}
    if sources.ledger is None:
        return []
    found = sources.ledger(UsageQuery(by=() if only else ("model",), start=first, only=only))
    return found if only else [line for line in found if _counts_for(sources, subject, line.names[0])]


def _counts_for(sources: Sources, subject: Subject, model: str) -> bool:
    """Return whether a model counts for a route, or for a pattern of models. `other` may be any model."""
    if model == OTHER:
        return "*" in subject.name
    return (
        sources.route_of(model) == subject.name
        if subject.kind == "route"
        else fnmatchcase(model.strip().lower(), subject.name.lower())
    )


def _cost(lines: Sequence[UsageLine]) -> int:
    return -(-sum(line.counts.cost + line.counts.reserved for line in lines) // _PICO_PER_NANO)


def _number(line: UsageLine, what: str) -> int:
    return line.counts.requests if what == "requests" else line.counts.input + line.counts.output
