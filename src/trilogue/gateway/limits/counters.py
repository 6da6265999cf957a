"""The counts of one subject, such as a client key, as a row of whole numbers, and what each number means.

A row is all that a table of counts stores for a subject, so that several processes can share it as plain memory. Money
is in billionths of a dollar.

`…_granted` and `…_elsewhere` are for clusters; a single machine leaves them at 0. `…_granted` is how much of a limit
this machine may use. `…_elsewhere` is what other machines have used, as far as it is known here, for people.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

MINUTE, HOUR, DAY = 60, 3_600, 86_400
_MONDAY = 3
"""the first day since the epoch was a Thursday"""


class Counted(NamedTuple):
    """A kind of count in windows of fixed length. `limit`: the name of the field in `RateLimits`."""

    limit: str
    what: str
    seconds: int


COUNTED = (
    Counted("requests_per_minute", "requests", MINUTE),
    Counted("requests_per_hour", "requests", HOUR),
    Counted("requests_per_day", "requests", DAY),
    Counted("tokens_per_minute", "tokens", MINUTE),
    Counted("tokens_per_hour", "tokens", HOUR),
    Counted("tokens_per_day", "tokens", DAY),
)
"""in the order of a row"""


def _month(now: float) -> int:
    moment = datetime.fromtimestamp(now, UTC)
    return moment.year * 12 + moment.month - 1


class Period(NamedTuple):
    """A period of a budget. `number`: tells which one a time is in."""

    name: str
    number: Callable[[float], int]


PERIODS = (
    Period("day", lambda now: int(now) // DAY),
    Period("week", lambda now: (int(now) // DAY + _MONDAY) // 7),
    Period("month", _month),
    Period("total", lambda now: 0),
)
"""in the order of a row"""


def period_start(name: str, now: float) -> float:
    """Return when the current period began, in seconds since the epoch; 0 for `total`."""
    moment = datetime.fromtimestamp(now, UTC)
    midnight = int(now) // DAY * DAY
    starts = {
        "day": midnight,
        "week": midnight - moment.weekday() * DAY,
        "month": midnight - (moment.day - 1) * DAY,
        "total": 0,
    }
    return float(starts[name])


def period_end(name: str, now: float) -> float | None:
    """Return when the current period ends; None for `total`."""
    if name == "total":
        return None
    start = period_start(name, now)
    if name != "month":
        return start + (DAY if name == "day" else 7 * DAY)
    # A month and a day later is in the next month, whatever the lengths of months.
    return period_start("month", start + 32 * DAY)


# A row: running, granted, elsewhere, and three numbers about its lease; then window, own, granted, elsewhere for each
# of COUNTED; then number, spent, reserved, granted, elsewhere, warned for each of PERIODS; then whether the row knows
# what was used before it was made.
RUNNING, RUNNING_GRANTED, RUNNING_ELSEWHERE = 0, 1, 2
LEASE_NUMBER, LEASE_ASKED, LEASE_UNTIL = 3, 4, 5
"""how often the lease was asked for, until when a process may be doing so, and until when the lease is valid; both
times in milliseconds of the common clock"""
_WINDOWS = 6
_WINDOW_CELLS = 4
_BUDGETS = _WINDOWS + _WINDOW_CELLS * len(COUNTED)
_BUDGET_CELLS = 6
COMPLETE = _BUDGETS + _BUDGET_CELLS * len(PERIODS)
ROW = COMPLETE + 1
"""the numbers of a row"""
OWN, GRANTED, ELSEWHERE = 1, 2, 3
SPENT, RESERVED, SPENT_GRANTED, SPENT_ELSEWHERE, WARNED = 1, 2, 3, 4, 5

Row = list[int]


def window(row: Row, position: int, now: float) -> int:
    """Return where the count at a position of `COUNTED` begins in a row, after a new window has begun if it has."""
    at, number = _WINDOWS + _WINDOW_CELLS * position, int(now) // COUNTED[position].seconds
    if row[at] < number:
        row[at : at + _WINDOW_CELLS] = (number, 0, 0, 0)
    return at


def budget_at(position: int) -> int:
    """Return where the budget at a position of `PERIODS` begins in a row."""
    return _BUDGETS + _BUDGET_CELLS * position


def budget(row: Row, position: int, now: float) -> int:
    """Return where the budget at a position of `PERIODS` begins in a row, after a new period has begun if it has.

    What is reserved stays: its requests still run, and are settled in the new period.
    """
    at, number = budget_at(position), PERIODS[position].number(now)
    if row[at] < number:
        row[at : at + _BUDGET_CELLS] = (number, 0, row[at + RESERVED], 0, 0, 0)
    return at


class Before(NamedTuple):
    """What was used before a row was made, or before it was lost: by positions of `PERIODS` and of `COUNTED`."""

    spent: tuple[int, ...] = ()
    counted: tuple[int, ...] = ()


def complete(row: Row, now: float, before: Before) -> None:
    """Write into a row what was used before, unless that was done already."""
    if row[COMPLETE]:
        return
    row[COMPLETE] = 1
    for position, spent in enumerate(before.spent):
        row[budget(row, position, now) + SPENT] += spent
    for position, used in enumerate(before.counted):
        row[window(row, position, now) + OWN] += used
