"""The store for gateways that keep nothing: records in the memory of one process, gone when it ends."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from trilogue.storage.database import StoreBusy, StoreUnavailable
from trilogue.storage.store import Retention, Session, Store, StoredRecord, Transaction

Key = tuple[str, str]


class _Row(Struct, frozen=True):
    record: StoredRecord
    writer: str
    revision: int


class MemoryStore(Store):
    """Records of this process, for all its threads."""

    def __init__(self) -> None:
        self.revision = 0
        self._rows: dict[Key, _Row] = {}
        """in the order of their revisions, oldest first"""
        self._reading = threading.Lock()
        """held for as long as the rows are looked through or changed"""
        self._writing = threading.Lock()
        """held for the length of a transaction"""

    @property
    def name(self) -> str:
        """Where it is, for messages and log lines."""
        return "memory"

    def open(self, timeout: float) -> Session:
        """Open a session for one thread."""
        return MemorySession(self, timeout)

    def exists(self) -> bool:
        """Return True: it exists as long as the process does."""
        return True

    def replace_damaged(self) -> bool:
        """Return False: memory isn't damaged by others."""
        return False

    def find(self, key: Key) -> StoredRecord | None:
        """Return one record, or None."""
        row = self._rows.get(key)
        return row.record if row is not None else None

    def of_kind(self, kind: str) -> dict[str, StoredRecord]:
        """Return all records of a kind by key."""
        with self._reading:
            return {key: row.record for (of, key), row in self._rows.items() if of == kind}

    def since(self, revision: int, without: str) -> tuple[int, list[StoredRecord]]:
        """Return the newest revision, and what others than this writer wrote after another revision."""
        found: list[_Row] = []
        with self._reading:
            for row in reversed(self._rows.values()):
                if row.revision <= revision:
                    break
                if row.writer != without:
                    found.append(row)
            newest = self.revision
        found.sort(key=lambda row: (row.revision, row.record.kind, row.record.key))
        return newest, [row.record for row in found]

    @contextmanager
    def locked(self, timeout: float) -> Iterator[None]:
        """Be the only writer for the length of a block. Raises StoreBusy."""
        if not self._writing.acquire(timeout=timeout):
            raise StoreBusy("another session is writing")
        try:
            yield
        finally:
            self._writing.release()

    def commit(self, writer: str, changes: Mapping[Key, StoredRecord | None]) -> None:
        """Apply puts, and deletions (None), with one new revision."""
        with self._reading:
            if any(changes.values()):
                self.revision += 1
            for key, record in changes.items():
                self._rows.pop(key, None)
                if record is not None:
                    self._rows[key] = _Row(record, writer, self.revision)

    def prune(self, kind: str, now: float, retention: Retention) -> None:
        """Remove the records of a kind that are too old or too many."""
        with self._reading:
            rows = [(key, row) for key, row in self._rows.items() if key[0] == kind]
            oldest = now - retention.seconds if retention.seconds is not None else None
            gone = [key for key, row in rows if oldest is not None and row.record.at < oldest]
            left = [(key, row) for key, row in rows if key not in set(gone)]
            if retention.records is not None and len(left) > retention.records:
                first = left[-retention.records][1].revision if retention.records else self.revision + 1
                gone += [key for key, row in left if row.revision < first]
            for key in gone:
                del self._rows[key]


class MemoryTransaction(Transaction):
    """Changes that are not visible to others yet."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.changes: dict[Key, StoredRecord | None] = {}

    def read(self, kind: str, key: str) -> StoredRecord | None:
        """Return one record as this transaction would leave it, or None."""
        return self.changes[kind, key] if (kind, key) in self.changes else self._store.find((kind, key))

    def read_kind(self, kind: str) -> list[StoredRecord]:
        """Return all records of a kind as this transaction would leave them, in the order of their keys."""
        found: dict[str, StoredRecord | None] = dict(self._store.of_kind(kind))
        found |= {key: record for (of, key), record in self.changes.items() if of == kind}
        return [record for _, record in sorted(found.items()) if record is not None]

    def put(self, records: Iterable[StoredRecord]) -> None:
        """Write records over earlier ones of the same kind and key."""
        self.changes.update({(record.kind, record.key): record for record in records})

    def delete(self, kind: str, keys: Iterable[str]) -> None:
        """Remove records if they exist."""
        self.changes.update({(kind, key): None for key in keys})


class MemorySession(Session):
    """One thread's access to the records in memory."""

    def __init__(self, store: MemoryStore, timeout: float) -> None:
        self._open: MemoryStore | None = store
        self._timeout = timeout
        self._seen = -1

    @property
    def _store(self) -> MemoryStore:
        if self._open is None:
            raise StoreUnavailable("the session is closed")
        return self._open

    def changed(self, *, thorough: bool = False) -> bool:
        """Return False if nothing was written since the last `read_since`."""
        return self._store.revision != self._seen

    def is_current(self) -> bool:
        """Return True: there is only one."""
        return True

    def read(self, kind: str, key: str) -> StoredRecord | None:
        """Return one record, or None."""
        return self._store.find((kind, key))

    def read_kind(self, kind: str) -> list[StoredRecord]:
        """Return all records of a kind in the order of their keys."""
        return [record for _, record in sorted(self._store.of_kind(kind).items())]

    def read_since(self, revision: int, *, without: str = "") -> tuple[int, list[StoredRecord]]:
        """Return the newest revision and the records written after `revision`, except those of the writer `without`."""
        newest, records = self._store.since(revision, without)
        self._seen = newest
        return newest, records

    @contextmanager
    def transaction(self, writer: str) -> Iterator[Transaction]:
        """Return a transaction that commits at the end of a `with` block, or leaves no trace if the block raises."""
        store = self._store
        with store.locked(self._timeout):
            batch = MemoryTransaction(store)
            yield batch
            store.commit(writer, batch.changes)

    def prune(self, now: float, retention: Mapping[str, Retention]) -> None:
        """Remove records that are older than their kind allows, then the oldest beyond its number."""
        store = self._store
        with store.locked(self._timeout):
            for kind, limits in retention.items():
                store.prune(kind, now, limits)

    def set_timeout(self, seconds: float) -> None:
        """Wait at most this long for other writers from now on; then raise StoreBusy."""
        self._timeout = seconds

    def close(self) -> None:
        """Make any later call raise StoreUnavailable."""
        self._open = None
