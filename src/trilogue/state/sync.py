"""Keeps the pools of one process and a store in step: what is learned here is written, what others learned is read.

Each process decides from its memory. A thread writes what changes within milliseconds. What others have written is read
before a choice, at most every 5 ms. If the store fails, nothing is shared or kept until it works again; no request
fails or waits for it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress

import structlog

from trilogue.pool import Change, Pools, Tally
from trilogue.state.counters import Counters, merge
from trilogue.state.handover import PoolSuccessor, counts
from trilogue.state.records import RETENTION, split, to_records
from trilogue.state.store import Session, Store, StoreBusy, StoreDamaged, StoreError, StoreUnavailable
from trilogue.state.writer import Writer, replace_damaged

log = structlog.get_logger("trilogue.state")

LOOK_SECONDS = 0.005
COUNT_SECONDS = 1.0
REOPEN_SECONDS = 1.0
READ_TIMEOUT = 0.05
START_TIMEOUT = 1.0


class StateSync:
    """The link between pools and a store. Made inside the worker process; used from its event loop.

    `successor`: that of an earlier link, so that running requests still report to these pools.
    """

    def __init__(self, pools: Pools, store: Store, now: float, successor: PoolSuccessor | None = None) -> None:
        self.pools = pools
        self.worker = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._store = store
        self._session: Session | None = None
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
            if self._session is not None and not self._session.is_current():
                self._write_everything(now)
        if self._writer.replaced:
            self._write_everything(now)
        self._look(now)

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
        self._close_session()

    def _put(self, changes: Iterable[Change], now: float) -> None:
        for record in to_records(changes, self.worker, now):
            self._writer.put(record)

    def _look(self, now: float, timeout: float = READ_TIMEOUT) -> None:
        """Read what others have written since the last look."""
        if self._session is None and now < self._reopen_at:
            return
        thorough, self._thorough = self._thorough, False
        try:
            session = self._session or self._open(now, timeout)
            if session.changed(thorough=thorough):
                self._read(session, now)
        except StoreBusy as error:
            if self._session is None:
                self._handle(error, now)
            # Otherwise another process is writing, and the next look finds what it wrote.
        except StoreError as error:
            self._handle(error, now)

    def _open(self, now: float, timeout: float) -> Session:
        session = self._session = self._store.open(timeout)
        with suppress(StoreUnavailable):  # another process is writing: the next start can do it
            merge(session, now)
        session.set_timeout(0.0)  # requests wait here
        return session

    def _read(self, session: Session, now: float) -> None:
        revision, records = session.read_since(self._revision, without=self.worker)
        if revision < self._revision:
            self._write_everything(now)  # another program has emptied the store
            return
        changes, tallies = split(records)
        self._revision = revision
        self.pools.apply(changes, now)
        self.pools.set_elsewhere(self._counters.update(tallies))

    def _write_everything(self, now: float) -> None:
        """Write all that is known into a store that was emptied or replaced."""
        self._writer.replaced = False
        self._close_session()
        self._revision = 0
        self._put(self.pools.snapshot(now), now)
        self._put(list(counts(self.pools)), now)

    def _handle(self, error: StoreError, now: float) -> None:
        """Warn once, try again later, and start a new store if this one is damaged."""
        if not self._warned:
            self._warned = True
            log.warning("the state file cannot be read", path=self._store.name, error=str(error))
        self._close_session()
        self._reopen_at = now + REOPEN_SECONDS
        if isinstance(error, StoreDamaged) and replace_damaged(self._store):
            self._revision, self._reopen_at = 0, 0.0
            if self._looked_at:
                self._write_everything(now)

    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _with_nothing_in_flight(tally: Tally) -> Tally:
    return Tally(tally.provider, tally.account, tally.ok, tally.failed, tally.spent, 0)
