"""Keeps the pools of one process and the state file together: what is learnt here goes there, and the other way round.

Each process decides from its memory. What changes is written by a thread within milliseconds; what others have written
is taken over by a look at the file, before a choice but at most every 5 ms. A file that fails costs the memory of it,
never a request.

Pools of one configuration after those of another: they know what the old ones knew, and hear what the requests that
the old ones have begun still learn and cost.

The time that pools go by: the wall clock, but steady within a process.

Workers and restarts must mean the same by "until then", so it starts as the wall clock; when someone sets that clock
while a process runs, nothing here jumps.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import structlog

from trilogue.pool import Change, Pools, Tally
from trilogue.state.file import FAILURES, StateFile, newest, primary_code, read_since
from trilogue.state.records import Counters, merge, to_change, to_notes, worker_of
from trilogue.state.writer import Writer, put_aside

_OFFSET = time.time() - time.monotonic()


def steady_time() -> float:
    """Seconds since the epoch."""
    return _OFFSET + time.monotonic()


class PoolSuccessor:
    """`retired`: pools of earlier configurations whose requests still run, the oldest first."""

    def __init__(self) -> None:
        self.retired: list[_Retired] = []

    def hand_over(self, old: Pools, new: Pools, now: float) -> list[Change]:
        """A new configuration: what the old pools know and have counted goes on in the new ones.

        Gives what a file must know of it besides, if there is one.
        """
        new.apply(old.snapshot(now), now)
        old.drain()  # it is in the snapshot
        told = list(counts(old))
        for tally in told:
            new.add(tally)
        self.retired.append(_Retired(old, told))
        return old.tell(now, new)

    def hear(self, pools: Pools, now: float) -> list[Change]:
        """What the retired ones have learnt since the last call: `pools`, which are in use, know it now."""
        found: list[Change] = []
        heirs = [retired.pools for retired in self.retired[1:]]
        for retired, heir in zip(self.retired, [*heirs, pools], strict=True):
            found += retired.pools.drain()
            for tally in retired.news():
                heir.add(tally)
        pools.apply(found, now)
        self.retired = [retired for retired in self.retired if retired.pools.busy]
        return found


def counts(pools: Pools) -> Iterable[Tally]:
    """All that was counted here, of accounts that have been used."""
    for pool in pools.pools.values():
        for one in pool.accounts:
            if one.ok or one.failed or one.spent or one.in_flight:
                yield Tally(pool.name, one.name, one.ok, one.failed, one.spent, one.in_flight)


class _Retired:
    """Pools that choose no more. `told`: what their heirs know of their counts."""

    def __init__(self, pools: Pools, told: Iterable[Tally]) -> None:
        self.pools = pools
        self._told = {(tally.provider, tally.account): tally for tally in told}

    def news(self) -> Iterable[Tally]:
        """What was counted since the last call."""
        for now in self.pools.tallies():
            key = (now.provider, now.account)
            then = self._told.get(key) or Tally(*key)
            self._told[key] = now
            yield Tally(
                *key,
                now.ok - then.ok,
                now.failed - then.failed,
                now.spent - then.spent,
                now.in_flight - then.in_flight,
            )


log = structlog.get_logger("trilogue.state")

LOOK_SECONDS = 0.005
COUNT_SECONDS = 1.0
REOPEN_SECONDS = 1.0
READ_TIMEOUT = 0.05
START_TIMEOUT = 1.0
FILE_NAME = "pool.db"


class StateSync:
    """The link between pools and a state file. Made inside the worker process; used from its event loop."""

    def __init__(self, pools: Pools, path: Path, now: float) -> None:
        self.pools = pools
        self.worker = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._file = StateFile(path)
        self._reader: sqlite3.Connection | None = None
        self._revision = 0
        self._version = -1
        self._written = (0, 0)
        """what the file looked like at the last look"""
        self._settled = False
        """it looked the same at the look before: what is in its log can also be read by now"""
        self._looked_at = 0.0
        self._counted_at = now
        self._reopen_at = 0.0
        self._warned = False
        self._tallies = Counters()
        self._earlier = PoolSuccessor()
        self._inode: int | None = None
        put_aside(self._file)  # some damage would only be found much later, or never
        self._look(now, START_TIMEOUT)
        self._writer = Writer(self._file, self.worker)

    def sync(self, now: float) -> None:
        """Pass on what happened here, take over what happened elsewhere. Cheap; call it before every choice."""
        if self.pools.changes:
            self._put(self.pools.drain(), now)
        if self._earlier.retired:
            self._put(self._earlier.hear(self.pools, now), now)
        if 0.0 <= now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        if not 0.0 <= now - self._counted_at < COUNT_SECONDS:
            self._counted_at = now
            self._settled = False
            self._put(self.pools.tallies(), now)
            if self._reader is not None and self._file.inode() != self._inode:
                self._begin_anew(now)
        if self._writer.begun_anew:
            self._begin_anew(now)
        self._look(now)

    def replace(self, pools: Pools, now: float) -> None:
        """A new configuration: its pools take over what the old ones know and what their last requests still learn."""
        self.sync(now)
        self._put(self._earlier.hand_over(self.pools, pools, now), now)
        self.pools = pools
        pools.elsewhere(self._tallies.totals())

    def close(self, now: float) -> None:
        """Write what is left. Counts of this process stay in the file as they are."""
        self._put(self.pools.drain(), now)
        self._put(self.pools.tell(now), now)
        self._put([_at_rest(tally) for tally in counts(self.pools)], now)
        self._writer.close()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _put(self, changes: Iterable[Change], now: float) -> None:
        for note in to_notes(changes, self.worker, now):
            self._writer.put(note)

    def _look(self, now: float, timeout: float = READ_TIMEOUT) -> None:
        """Take over what others have written since the last look."""
        if self._reader is None and now < self._reopen_at:
            return
        try:
            written = self._file.written()
            same = written == self._written
            if same and self._settled and self._reader is not None:
                return
            self._written, self._settled = written, same
            if self._reader is None:
                self._reader = self._file.connect(timeout)
                self._inode = self._file.inode()
                self._version = -1
                with suppress(sqlite3.OperationalError):  # someone writes: it can be done at the next start
                    merge(self._reader, now)
                self._reader.execute("PRAGMA busy_timeout = 0")  # requests wait here
            version = self._reader.execute("PRAGMA data_version").fetchone()[0]
            if version != self._version:
                self._take_over(self._reader, now)
                self._version = version
        except FAILURES as error:
            if primary_code(error) == sqlite3.SQLITE_BUSY and self._reader is not None:
                self._settled = False  # someone writes just now: at the next look
            else:
                self._trouble(error, now)

    def _take_over(self, reader: sqlite3.Connection, now: float) -> None:
        revision = newest(reader)
        if revision < self._revision:
            self._begin_anew(now)  # someone has emptied the file
            return
        tallies: list[tuple[str, Tally]] = []
        changes: list[Change] = []
        for _, note_id, data in read_since(reader, self._revision, revision, self.worker):
            change = to_change(data)
            if isinstance(change, Tally):
                tallies.append((worker_of(note_id), change))
            elif change is not None:
                changes.append(change)
        self._revision = revision
        self.pools.apply(changes, now)
        self.pools.elsewhere(self._tallies.update(tallies))

    def _begin_anew(self, now: float) -> None:
        """The new file knows nothing: tell it everything."""
        self._writer.begun_anew = False
        self._forget()
        self._put(self.pools.snapshot(now), now)
        self._put(list(counts(self.pools)), now)

    def _forget(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._revision, self._version = 0, -1

    def _trouble(self, error: Exception, now: float) -> None:
        if not self._warned:
            self._warned = True
            log.warning("the state file cannot be read", path=str(self._file.path), error=str(error))
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._reopen_at = now + REOPEN_SECONDS
        if self._file.is_to_blame(error) and put_aside(self._file):
            self._revision, self._reopen_at = 0, 0.0
            if self._looked_at:
                self._begin_anew(now)


def _at_rest(tally: Tally) -> Tally:
    return Tally(tally.provider, tally.account, tally.ok, tally.failed, tally.spent, 0)
