"""Keeps the pools of one process and a store in step: what is learned here is written, what others learned is read.

Each process decides from its memory. A thread writes what changes within milliseconds. What others have written is read
before a choice, at most every 5 ms. If the store fails, nothing is shared or kept until it works again; no request
fails or waits for it. `StateSync` is for gateways; `load_into` and `write_now` are for commands, also while a gateway
runs. `steady_time` is the time that all of them use.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import closing, suppress

import structlog

from trilogue.errors import TrilogueError
from trilogue.routing.pool.changes import AccountTally, Change
from trilogue.routing.pool.pools import Pools
from trilogue.storage.database import StoreBusy, StoreDamaged, StoreError, StoreHealth, StoreUnavailable
from trilogue.storage.records import RecordStore, RecordTable
from trilogue.upstreams.state.change_records import RETENTION, split, to_records
from trilogue.upstreams.state.counters import Counters, merge
from trilogue.upstreams.state.writer import Writer, replace_damaged

log = structlog.get_logger("trilogue.state")


LOOK_SECONDS = 0.005
COUNT_SECONDS = 1.0
REOPEN_SECONDS = 1.0
READ_TIMEOUT = 0.05
START_TIMEOUT = 1.0

COMMAND = "command"
"""The worker name that commands write under: every worker reads what it wrote."""
COMMAND_SECONDS = 5.0
"""How long a command waits for other writers."""


class StateSync:
    """The link between pools and a store. Made inside the worker process; used from its event loop.

    `successor`: that of an earlier link, so that running requests still report to these pools.
    """

    def __init__(self, pools: Pools, store: RecordStore, now: float, successor: PoolSuccessor | None = None) -> None:
        self.pools = pools
        self.worker = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._store = store
        self._table: RecordTable | None = None
        self._revision = 0
        self._thorough = False
        """the next look must not rely on hints"""
        self._looked_at = 0.0
        self._counted_at = now
        self._reopen_at = 0.0
        self._warned = False
        self._counters = Counters()
        self.successor = successor or PoolSuccessor()
        replace_damaged(store)  # some damage would be found much later, or never
        self._look(now, START_TIMEOUT)
        self._writer = Writer(store, self.worker, RETENTION)

    def sync(self, now: float) -> None:
        """Write what happened here, read what happened elsewhere. Cheap: call it before every choice."""
        if self.pools.changes:
            self._put(self.pools.drain(), now)
        if self.successor.retired:
            self._put(self.successor.collect(self.pools, now), now)
        if 0.0 <= now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        if not 0.0 <= now - self._counted_at < COUNT_SECONDS:
            self._counted_at = now
            self._thorough = True
            self._put(self.pools.tallies(), now)
            if self._table is not None and not self._table.is_current():
                self._write_everything(now)
        if self._writer.replaced:
            self._write_everything(now)
        self._look(now)

    @property
    def health(self) -> StoreHealth:
        """How writing to the store goes."""
        return self._writer.health

    def replace(self, pools: Pools, now: float) -> None:
        """Use the pools of a new configuration. They take over what the old ones know and still learn."""
        self.sync(now)
        self._put(self.successor.hand_over(self.pools, pools, now), now)
        self.pools = pools
        pools.set_elsewhere(self._counters.totals())

    def close(self, now: float) -> None:
        """Write what is left. The counts of this process stay in the store."""
        self._put(self.pools.drain(), now)
        self._put(self.pools.unwritten(now), now)
        self._put([_with_nothing_in_flight(tally) for tally in counts(self.pools)], now)
        self._writer.close()
        self._close_table()

    def _put(self, changes: Iterable[Change], now: float) -> None:
        for record in to_records(changes, self.worker, now):
            self._writer.put(record)

    def _look(self, now: float, timeout: float = READ_TIMEOUT) -> None:
        """Read what others have written since the last look."""
        if self._table is None and now < self._reopen_at:
            return
        thorough, self._thorough = self._thorough, False
        try:
            table = self._table or self._open(now, timeout)
            if table.changed(thorough=thorough):
                self._read(table, now)
        except StoreBusy as error:
            if self._table is None:
                self._handle(error, now)
            # Otherwise another process is writing, and the next look finds what it wrote.
        except StoreError as error:
            self._handle(error, now)

    def _open(self, now: float, timeout: float) -> RecordTable:
        table = self._table = self._store.open(timeout)
        with suppress(StoreUnavailable):  # another process is writing: the next start can do it
            merge(table, now)
        table.set_timeout(0.0)  # requests wait here
        return table

    def _read(self, table: RecordTable, now: float) -> None:
        revision, records = table.read_since(self._revision, without=self.worker)
        if revision < self._revision:
            self._write_everything(now)  # another program has emptied the store
            return
        changes, tallies = split(records)
        self._revision = revision
        self.pools.apply(changes, now)
        self.pools.set_elsewhere(self._counters.update(tallies), now)

    def _write_everything(self, now: float) -> None:
        """Write all that is known into a store that was emptied or replaced."""
        self._writer.replaced = False
        self._close_table()
        self._revision = 0
        self._look(now)  # what others have written there since is newer than what is known here
        self._put(self.pools.snapshot(now), now)
        self._put(list(counts(self.pools)), now)

    def _handle(self, error: StoreError, now: float) -> None:
        """Warn once, try again later, and start a new store if this one is damaged."""
        if not self._warned:
            self._warned = True
            log.warning("the state file cannot be read", path=self._store.name, error=str(error))
        self._close_table()
        self._reopen_at = now + REOPEN_SECONDS
        if isinstance(error, StoreDamaged) and replace_damaged(self._store):
            self._revision, self._reopen_at = 0, 0.0
            if self._looked_at:
                self._write_everything(now)

    def _close_table(self) -> None:
        if self._table is not None:
            self._table.close()
            self._table = None


def _with_nothing_in_flight(tally: AccountTally) -> AccountTally:
    return AccountTally(tally.provider, tally.account, tally.ok, tally.failed, tally.spent, 0)


class PoolSuccessor:
    """What pools of a new configuration still have to learn from those of the old one, whose last requests may run.

    `retired`: pools of earlier configurations whose requests still run, the oldest first.
    """

    def __init__(self) -> None:
        self.retired: list[_Retired] = []

    def hand_over(self, old: Pools, new: Pools, now: float) -> list[Change]:
        """Give what the old pools know and have counted to the new ones. Return what only a store has to learn."""
        new.apply(old.snapshot(now), now)
        new.remember_reached(old)
        old.drain()  # the snapshot has it
        passed_on = list(counts(old))
        for tally in passed_on:
            new.add(tally)
        self.retired.append(_Retired(old, passed_on))
        return old.unwritten(now, new)

    def collect(self, pools: Pools, now: float) -> list[Change]:
        """Give `pools`, which are in use, what the retired ones learned since the last call; return the changes."""
        found: list[Change] = []
        successors = [retired.pools for retired in self.retired[1:]]
        for retired, successor in zip(self.retired, [*successors, pools], strict=True):
            found += retired.pools.drain()
            for tally in retired.new_counts():
                successor.add(tally)
        pools.apply(found, now)
        self.retired = [retired for retired in self.retired if retired.pools.busy]
        return found


def counts(pools: Pools) -> Iterable[AccountTally]:
    """Return everything that these pools have counted, for accounts that were used."""
    for pool in pools.pools.values():
        for one in pool.accounts:
            if one.ok or one.failed or one.spent or one.in_flight:
                yield AccountTally(pool.name, one.name, one.ok, one.failed, one.spent, one.in_flight)


class _Retired:
    """Pools that no longer choose accounts. `passed_on`: the counts that their successors already have."""

    def __init__(self, pools: Pools, passed_on: Iterable[AccountTally]) -> None:
        self.pools = pools
        self._passed_on = {(tally.provider, tally.account): tally for tally in passed_on}

    def new_counts(self) -> Iterable[AccountTally]:
        """Return what was counted since the last call."""
        for now in self.pools.tallies():
            key = (now.provider, now.account)
            then = self._passed_on.get(key) or AccountTally(*key)
            self._passed_on[key] = now
            yield AccountTally(
                *key,
                now.ok - then.ok,
                now.failed - then.failed,
                now.spent - then.spent,
                now.in_flight - then.in_flight,
            )


class StateError(TrilogueError):
    """State that a command cannot read or write. The message is one line for a terminal."""


def load_into(pools: Pools, store: RecordStore, now: float) -> None:
    """Give pools everything that the store knows. A store that doesn't exist is not created. Raises StateError."""
    if not store.exists():
        return
    try:
        with closing(store.open(COMMAND_SECONDS)) as table:
            changes, tallies = split(table.read_since(0)[1])
    except StoreError as error:
        raise StateError(f"cannot read {store.name}: {error}") from None
    pools.apply(changes, now)
    pools.set_elsewhere(Counters().update(tallies))


def write_now(store: RecordStore, changes: Iterable[Change], now: float) -> None:
    """Write changes; running workers read them before their next choice. Raises StateError."""
    try:
        with closing(store.open(COMMAND_SECONDS)) as table:
            table.write(COMMAND, to_records(changes, COMMAND, now))
    except StoreError as error:
        raise StateError(f"cannot write {store.name}: {error}") from None
