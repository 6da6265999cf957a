"""Limits over machines: a machine may use of each limit what the cluster has granted it, which its rows say.

Pure: rows come from a locked table, the cluster's decisions are in `features.cluster.leases`. All counts of a subject
are leased together. A lease is valid for some seconds. When it ends without being renewed, the machine may use no more
than it has used, because the cluster may grant the rest to others by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trilogue.gateway.limits.counters import (
    COUNTED,
    ELSEWHERE,
    GRANTED,
    LEASE_ASKED,
    LEASE_NUMBER,
    LEASE_UNTIL,
    OWN,
    PERIODS,
    RESERVED,
    RUNNING,
    RUNNING_GRANTED,
    SPENT,
    SPENT_ELSEWHERE,
    SPENT_GRANTED,
    Row,
    budget,
    window,
)
from trilogue.gateway.limits.settings import BudgetSettings, RateLimits

BILLION = 1_000_000_000
_ANY_LIMITS = RateLimits(concurrency=1, **{counted.limit: 1 for counted in COUNTED})
_ANY_BUDGET = BudgetSettings(day=0, week=0, month=0, total=0)
LEASE_SECONDS = 6.0
ASK_SECONDS = 2.0
"""how long a process may be asking; then it has died"""
FIRST_BUDGET = 1 + len(COUNTED)
"""the first count of money"""


class Leasing(NamedTuple):
    """How a cluster is doing. `away`: it cannot be asked. `share`: of rate limits that this machine may use then.

    `money_unknown`: it can be asked, and does not know what was spent.
    """

    away: bool = False
    share: float = 1.0
    money_unknown: bool = False


class Counter(NamedTuple):
    """One count of a subject. `which`: 0 is concurrency, then come those of `COUNTED`, then those of `PERIODS`.

    `at`: where its cells `granted` and, next to it, `elsewhere` are in the row. `period`: the number of its window.
    """

    which: int
    period: int
    limit: int
    granted: int
    used: int
    at: int


class CounterRequest(NamedTuple):
    """What is asked for one count. `want`: how much more is needed now."""

    counter: Counter
    want: int


class Grant(NamedTuple):
    """What the cluster decided on one count. `period`: the current one. `given`: more that may be used.

    `elsewhere`: what other machines have used. `held`: what they were granted and have not used.
    """

    which: int
    period: int
    given: int
    elsewhere: int
    held: int


def counters(now: float, limits: RateLimits, money: BudgetSettings, row: Row) -> Iterator[Counter]:
    """Yield the counts of a row that have a limit."""
    if limits.concurrency is not None:
        yield Counter(0, 0, limits.concurrency, row[RUNNING_GRANTED], row[RUNNING], RUNNING_GRANTED)
    for position, counted in enumerate(COUNTED):
        limit = getattr(limits, counted.limit)
        if limit is not None:
            at = window(row, position, now)
            yield Counter(1 + position, row[at], limit, row[at + GRANTED], row[at + OWN], at + GRANTED)
    for position, period in enumerate(PERIODS):
        amount = getattr(money, period.name)
        if amount is not None:
            at = budget(row, position, now)
            used = row[at + SPENT] + row[at + RESERVED]
            most = round(amount * BILLION)
            yield Counter(FIRST_BUDGET + position, row[at], most, row[at + SPENT_GRANTED], used, at + SPENT_GRANTED)


def is_valid(now: float, row: Row) -> bool:
    """Return whether the lease of a row is valid. A time that is too far ahead is that of another clock."""
    return 0 <= row[LEASE_UNTIL] - now * 1000 <= LEASE_SECONDS * 1000


def usable(now: float, row: Row, granted: int, used: int) -> int:
    """Return how much this machine may use of a count in all."""
    return granted if is_valid(now, row) else min(granted, used)


def begin_ask(now: float, row: Row) -> int | None:
    """Note that this process asks for the lease of a row; return the number of the question.

    None if another process of this machine is asking.
    """
    if 0 < row[LEASE_ASKED] - now * 1000 <= ASK_SECONDS * 1000:
        return None
    # Later than every earlier number, also if the row was lost since.
    row[LEASE_NUMBER] = max(row[LEASE_NUMBER] + 1, round(now * 1000))
    row[LEASE_ASKED] = round((now + ASK_SECONDS) * 1000)
    return row[LEASE_NUMBER]


def end_ask(row: Row, number: int) -> bool:
    """Note that a question was answered, or failed. Return False if another process has asked since."""
    if row[LEASE_NUMBER] != number:
        return False
    row[LEASE_ASKED] = 0
    return True


def take_grants(row: Row, asked: Sequence[Counter], grants: Sequence[Grant], until: int) -> None:
    """Write into a row what the cluster decided. `until`: when the lease ends, in milliseconds."""
    row[LEASE_UNTIL] = until
    for counter, grant in zip(asked, grants, strict=True):
        if grant.period != counter.period:
            # The clock of this machine is behind: the new period has begun.
            _begin_period(row, counter, grant.period)
            continue
        if _period_now(row, counter) == counter.period:
            row[counter.at] += grant.given
            row[counter.at + 1] = grant.elsewhere


def all_counters(now: float, row: Row) -> Iterator[Counter]:
    """Yield the counts of a row that are used or granted, without their limits."""
    for counter in counters(now, _ANY_LIMITS, _ANY_BUDGET, row):
        if counter.granted or counter.used:
            yield counter._replace(limit=0)


def give_back(now: float, row: Row) -> bool:
    """Reduce what a machine may use to what it uses. Return whether there was more. The cluster must be told next."""
    found = False
    for counter in all_counters(now, row):
        if counter.granted > counter.used:
            row[counter.at] = counter.used
            found = True
    return found


def _period_now(row: Row, counter: Counter) -> int:
    return counter.period if counter.which == 0 else row[_first_cell(counter)]


def _begin_period(row: Row, counter: Counter, period: int) -> None:
    at = _first_cell(counter)
    if counter.which == 0 or row[at] >= period:
        return
    row[at] = period
    if counter.which < FIRST_BUDGET:
        row[at + OWN] = row[at + GRANTED] = row[at + ELSEWHERE] = 0
    else:
        row[at + SPENT] = row[at + SPENT_GRANTED] = row[at + SPENT_ELSEWHERE] = 0


def _first_cell(counter: Counter) -> int:
    return counter.at - (GRANTED if counter.which < FIRST_BUDGET else SPENT_GRANTED)
