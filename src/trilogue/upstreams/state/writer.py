"""Writes records in a thread, so that no request waits for a disk.

Whatever the store does, `put` returns at once and never raises. While the store cannot be written, the newest record of
each key is kept in memory, up to a limit, and written when that works again, unless another process has written the
same key since.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

import structlog

from trilogue.storage.database import StoreDamaged, StoreError, StoreHealth, StoreUnavailable
from trilogue.storage.records import RecordBatch, RecordStore, RecordTable, Retention, StoredRecord

log = structlog.get_logger("trilogue.state")

MAX_QUEUED = 20_000
MAX_PENDING = 50_000
RETRY_SECONDS = 0.5
LATE_SECONDS = 0.1
"""Records that waited for longer are compared with what is there. Others are not: two processes' clocks may differ."""
BUSY_SECONDS = 1.0
PRUNE_SECONDS = 600.0
PRUNE_RECORDS = 1_000
"""Records after which the store is pruned, however little time has passed."""


class Writer:
    """The writing side of one process. `worker`: the name that it writes under."""

    def __init__(self, store: RecordStore, worker: str, retention: Mapping[str, Retention]) -> None:
        self._store = store
        self._worker = worker
        self._retention = retention
        self._queue: queue.Queue[StoredRecord | None] = queue.Queue(MAX_QUEUED)
        self._pending: dict[tuple[str, str], StoredRecord] = {}
        self._waiting_since = 0.0
        """when the first of the pending records came"""
        self._table: RecordTable | None = None
        self._closing = False
        self._pruned_at = 0.0
        self._written_since = 0
        """records written since the store was last pruned"""
        self._thread = threading.Thread(target=self._run, name="trilogue-state", daemon=True)
        self.failing = False
        self.dropped = 0
        """records that were lost because too many were waiting"""
        self.replaced = False
        """the store was damaged and an empty one was started: everything has to be written again"""
        self._thread.start()

    def put(self, record: StoredRecord) -> None:
        """Queue a record, which is written within milliseconds. It is dropped if the queue is full."""
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    @property
    def health(self) -> StoreHealth:
        """How writing goes. Records that were dropped count as failures; others are written later."""
        return StoreHealth(self.failing, self._queue.qsize() + len(self._pending), self.dropped)

    def close(self, timeout: float = 2.0) -> None:
        """Write what is left, for at most this many seconds."""
        self._closing = True
        with suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        while not (self._closing and self._queue.empty()):
            self._collect()
            if self._pending and not self._try():
                if self._closing:
                    self._try()  # if the store was found damaged just now, there is a new one
                    break
                time.sleep(RETRY_SECONDS)
        self._close_table()

    def _try(self) -> bool:
        try:
            return self._write()
        except Exception as error:  # the boundary of the thread: without it, nothing would be written any more
            if not self.failing:
                self.failing = True
                log.error("bug", error=type(error).__name__, exc_info=True)
            self._close_table()
            return False

    def _collect(self) -> None:
        """Wait for a record, unless some are pending already, and take all that are queued."""
        try:
            record = self._queue.get(timeout=RETRY_SECONDS if self._pending else 60.0)
            while True:
                if record is not None:
                    self._keep(record)
                record = self._queue.get_nowait()
        except queue.Empty:
            pass

    def _keep(self, record: StoredRecord) -> None:
        if not self._pending:
            self._waiting_since = time.monotonic()
        key = (record.kind, record.key)
        if len(self._pending) >= MAX_PENDING and key not in self._pending:
            self.dropped += 1
        else:
            self._pending[key] = record

    def _write(self) -> bool:
        try:
            if self._table is not None and not self._table.is_current():
                self._close_table()  # the other processes use the new one
            if self._table is None:
                self._table = self._store.open(BUSY_SECONDS)
            with self._table.transaction(self._worker) as batch:
                late = time.monotonic() - self._waiting_since > LATE_SECONDS
                records = list(self._pending.values())
                batch.put(_still_newest(batch, records) if late else records)
            self._prune(self._table)
        except StoreError as error:
            self._handle(error)
            return False
        self._pending.clear()
        if self.failing:
            self.failing = False
            log.info("the state file is written again", path=self._store.name)
        return True

    def _prune(self, table: RecordTable) -> None:
        now = time.time()
        self._written_since += len(self._pending)
        if now - self._pruned_at > PRUNE_SECONDS or self._written_since >= PRUNE_RECORDS:
            self._pruned_at, self._written_since = now, 0
            table.prune(now, self._retention)

    def _handle(self, error: StoreError) -> None:
        """Warn at the first of several failures in a row, and start a new store if this one is damaged."""
        if not self.failing:
            self.failing = True
            log.warning(
                "the state file cannot be written: cooling and stickiness are kept in memory only",
                path=self._store.name,
                error=str(error),
            )
        self._close_table()
        if isinstance(error, StoreDamaged) and replace_damaged(self._store):
            self.replaced = True

    def _close_table(self) -> None:
        if self._table is not None:
            self._table.close()
            self._table = None


def _still_newest(batch: RecordBatch, records: list[StoredRecord]) -> list[StoredRecord]:
    """Return the records that are not older than those of the same keys in the store."""
    times = {(kind, one.key): one.at for kind in {one.kind for one in records} for one in batch.read_kind(kind)}
    return [one for one in records if one.at >= times.get((one.kind, one.key), one.at)]


def replace_damaged(store: RecordStore) -> bool:
    """Start a new store if this one is damaged; return whether that was done."""
    try:
        return store.replace_damaged()
    except StoreUnavailable:
        return False
