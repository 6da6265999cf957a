"""What all processes have counted together.

Each writes its own sums, so that nothing is counted twice or lost.

When a process has ended, its counts are added to those of `BASE` and its own become 0. The counts of another machine
are those of a worker whose name begins with `REMOTE`: they stay as that machine says, and are never added to `BASE`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from trilogue.routing.pool.changes import AccountTally
from trilogue.storage.records import RecordTable, StoredRecord
from trilogue.upstreams.state.change_records import TALLY, split, tally_key, to_records

BASE = "base"
REMOTE = "@"

Key = tuple[str, str]
"""a provider and one of its accounts"""


class Counters:
    """The counts of all other processes, by account."""

    def __init__(self) -> None:
        self._by_account: dict[Key, dict[str, AccountTally]] = {}

    def update(self, found: Iterable[tuple[str, AccountTally]]) -> list[AccountTally]:
        """Take over new counts of workers; return the sums that have changed."""
        changed = set()
        for worker, tally in found:
            key = (tally.provider, tally.account)
            self._by_account.setdefault(key, {})[worker] = tally
            changed.add(key)
        return [total(key, self._by_account[key]) for key in changed]

    def totals(self) -> list[AccountTally]:
        """Return the sums of all accounts."""
        return [total(key, tallies) for key, tallies in self._by_account.items()]


def total(key: Key, tallies: dict[str, AccountTally]) -> AccountTally:
    """Return the sum of what several processes have counted; only running ones have requests in flight.

    Whoever writes the counts of another machine ends its requests in flight when the machine is gone.
    """
    return AccountTally(
        key[0],
        key[1],
        sum(one.ok for one in tallies.values()),
        sum(one.failed for one in tallies.values()),
        sum(one.spent for one in tallies.values()),
        sum(one.in_flight for worker, one in tallies.items() if one.in_flight and _counts_now(worker)),
    )


def merge(table: RecordTable, now: float) -> None:
    """Add the counts of processes that have ended to the base, and remove tallies that are 0."""
    with table.transaction(BASE) as batch:
        by_account: dict[Key, dict[str, AccountTally]] = {}
        for owner, tally in split(batch.read_kind(TALLY))[1]:
            if owner == BASE or not (is_remote(owner) or is_running(owner)):
                by_account.setdefault((tally.provider, tally.account), {})[owner] = tally
        records: list[StoredRecord] = []
        for key, tallies in by_account.items():
            records += _merged(key, tallies, now)
            batch.delete(TALLY, [tally_key(*key, owner) for owner, one in tallies.items() if not _has_counts(one)])
        if records:
            batch.put(records)


def _has_counts(tally: AccountTally) -> bool:
    return bool(tally.ok or tally.failed or tally.spent)


def _merged(key: Key, tallies: dict[str, AccountTally], now: float) -> Iterable[StoredRecord]:
    owners = [owner for owner, one in tallies.items() if owner != BASE and _has_counts(one)]
    if not owners:
        return
    yield from to_records([total(key, tallies)], BASE, now)
    for owner in owners:
        # Deleted only by a later merge: other processes must first read that these counts have moved.
        yield from to_records([AccountTally(*key)], owner, now)


def is_remote(worker: str) -> bool:
    """Return whether these are the counts of another machine."""
    return worker.startswith(REMOTE)


def _counts_now(worker: str) -> bool:
    return is_remote(worker) or is_running(worker)


def is_running(worker: str) -> bool:
    """Return whether the process of a worker is running."""
    try:
        os.kill(int(worker.partition("-")[0]), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
