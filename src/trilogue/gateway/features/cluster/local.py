"""The local state of accounts, as the thread of the link uses it: a table that is opened again if the store fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import structlog

from trilogue.storage.database import StoreBusy, StoreError
from trilogue.storage.records import RecordStore, RecordTable, StoredRecord

WRITER = "cluster"
"""the name that the link writes under: what it has read from the cluster is not sent back"""
TIMEOUT_SECONDS = 1.0
REOPEN_SECONDS = 1.0
LOOK_SECONDS = 1.0
"""how often it is made sure that nothing was missed, and that the store is still the same"""


log = structlog.get_logger("trilogue.cluster")


class LocalState:
    """The store of one machine. Call its methods, which raise StoreError, inside of `attempt`."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._table: RecordTable | None = None
        self._revision = 0
        self._look_at = 0.0
        self._reopen_at = 0.0
        self._warned = False
        self.replaced = True
        """whether the store was opened or emptied, so that everything has to be exchanged"""

    def attempt(self, step: Callable[[], None]) -> None:
        """Do something with the store; if that fails, leave it alone for a moment, with one warning."""
        if self._table is None and time.monotonic() < self._reopen_at:
            return
        try:
            step()
            self._warned = False
        except StoreBusy:
            pass  # a process of this machine is writing: the next pass of the link is milliseconds away
        except StoreError as error:
            self._reopen_at = time.monotonic() + REOPEN_SECONDS
            self.close()
            if not self._warned:
                self._warned = True
                log.warning("the cluster cannot use the state file", path=self._store.name, error=str(error))

    def changes(self) -> list[StoredRecord]:
        """Return what processes of this machine have written since the last call. Cheap if there is nothing."""
        table = self._open()
        now = time.monotonic()
        thorough = now >= self._look_at
        if thorough:
            self._look_at = now + LOOK_SECONDS
            if not table.is_current():
                self.close()
                return []
        if not table.changed(thorough=thorough):
            return []
        revision, records = table.read_since(self._revision, without=WRITER)
        if revision < self._revision:
            self.replaced = True
        self._revision = revision
        return records

    def everything(self) -> list[StoredRecord]:
        """Return all records. The next `changes` are those after them."""
        table = self._open()
        self._revision, records = table.read_since(0)
        self.replaced = False
        return records

    def write_newer(self, records: Iterable[StoredRecord]) -> int:
        """Write the records that are newer than what is there; return how many there were."""
        table = self._open()
        known = [(one, table.read(one.kind, one.key)) for one in records]
        if not any(_is_newer(one, old) for one, old in known):
            return 0
        with table.transaction(WRITER) as batch:
            newer = [one for one, _ in known if _is_newer(one, batch.read(one.kind, one.key))]
            batch.put(newer)
        return len(newer)

    def write(self, records: list[StoredRecord]) -> None:
        """Write records over whatever is there."""
        self._open().write(WRITER, records)

    def close(self) -> None:
        """Close the table. The next use opens another one."""
        if self._table is not None:
            with suppress(StoreError):
                self._table.close()
            self._table = None
        self.replaced = True

    def _open(self) -> RecordTable:
        if self._table is None:
            self._table = self._store.open(TIMEOUT_SECONDS)
            self.replaced = True
        return self._table


def _is_newer(record: StoredRecord, old: StoredRecord | None) -> bool:
    return old is None or record.at > old.at
