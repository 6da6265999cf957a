"""The interface of shared, durable state: records with keys, revisions, transactions, lifetimes.

In: records, each with a kind, a key, a JSON value and a time. Out: the newest record of a key, and everything that was
written since a revision. Nothing here knows accounts, processes, files or a database.

    store = FileStore(path)                              # or MemoryStore()
    session = store.open(timeout=1.0)                    # one per thread
    session.write("worker-1", [StoredRecord("Response", "resp_1", b"{}", now)])
    revision, records = session.read_since(0)
    with session.transaction("worker-1") as batch:       # the only writer until the block ends
        batch.add("Usage", "key-1", 12.5, now)
        batch.delete("Response", ["resp_1"])
    session.prune(now, {"Response": Retention(seconds=3600.0, records=1_000)})

Every method may block for as long as the session's timeout and raises nothing but `StoreError`, so callers that must
not wait use a thread. `Session.changed` is the exception: it is cheap enough for an event loop.

tests/state/test_contract.py holds every implementation to what the docstrings promise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager

import msgspec
from msgspec import Struct


class StoredRecord(Struct, frozen=True):
    """The value of one key. `value`: JSON text. `at`: when it was written, in seconds since the epoch."""

    kind: str
    key: str
    value: bytes
    at: float


class Retention(Struct, frozen=True):
    """How long records of one kind are kept, and how many of them; None means no limit."""

    seconds: float | None = None
    records: int | None = None


class Transaction(ABC):
    """Reads and writes that happen all together or not at all. No other session writes until it ends."""

    @abstractmethod
    def read(self, kind: str, key: str) -> StoredRecord | None:
        """Return one record as this transaction would leave it, or None."""

    @abstractmethod
    def read_kind(self, kind: str) -> list[StoredRecord]:
        """Return all records of a kind as this transaction would leave them, in the order of their keys."""

    @abstractmethod
    def put(self, records: Iterable[StoredRecord]) -> None:
        """Write records over earlier ones of the same kind and key. All writes of a transaction have one revision."""

    @abstractmethod
    def delete(self, kind: str, keys: Iterable[str]) -> None:
        """Remove records if they exist. `read_since` doesn't report this: put a value first that says so."""

    def add(self, kind: str, key: str, amount: float, at: float) -> float:
        """Add to a counter, which starts at 0, and return its new value."""
        before = self.read(kind, key)
        total: float = amount + (msgspec.json.decode(before.value, type=float) if before else 0.0)
        self.put([StoredRecord(kind, key, msgspec.json.encode(total), at)])
        return total


class Session(ABC):
    """One thread's access to a store. Sees everything that was committed before the call, by whichever session."""

    @abstractmethod
    def changed(self, *, thorough: bool = False) -> bool:
        """Return False if nothing was written since the last `read_since`, as far as a cheap look shows.

        The look may miss a write that follows another one immediately; with `thorough` it misses nothing.
        """

    @abstractmethod
    def is_current(self) -> bool:
        """Return False if the store was deleted or replaced since the session was opened: open a new one."""

    @abstractmethod
    def read(self, kind: str, key: str) -> StoredRecord | None:
        """Return one record, or None."""

    @abstractmethod
    def read_kind(self, kind: str) -> list[StoredRecord]:
        """Return all records of a kind in the order of their keys."""

    @abstractmethod
    def read_since(self, revision: int, *, without: str = "") -> tuple[int, list[StoredRecord]]:
        """Return the newest revision and the records written after `revision`, except those of the writer `without`.

        Records come in the order of their revisions, and in the order of kind and key within one revision. A newest
        revision below `revision` means that the store was emptied. Revisions never repeat otherwise, even if every
        record is deleted.
        """

    @abstractmethod
    def transaction(self, writer: str) -> AbstractContextManager[Transaction]:
        """Return a transaction that commits at the end of a `with` block, or leaves no trace if the block raises."""

    def write(self, writer: str, records: Iterable[StoredRecord]) -> None:
        """Write records in one transaction."""
        with self.transaction(writer) as batch:
            batch.put(records)

    @abstractmethod
    def prune(self, now: float, retention: Mapping[str, Retention]) -> None:
        """Remove records that are older than their kind allows, then the oldest beyond its number.

        Records of one revision are removed together, so a few more than that number may stay.
        """

    @abstractmethod
    def set_timeout(self, seconds: float) -> None:
        """Wait at most this long for other writers from now on; then raise StoreBusy."""

    @abstractmethod
    def close(self) -> None:
        """Give up what the session holds. Any later call raises StoreUnavailable."""


class Store(ABC):
    """A place for records that several threads and processes use at the same time."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Where it is, for messages and log lines; no secrets."""

    @abstractmethod
    def open(self, timeout: float) -> Session:
        """Open a session for one thread, and create the store if needed. `timeout`: see `Session.set_timeout`."""

    @abstractmethod
    def exists(self) -> bool:
        """Return whether the store was created, without creating it."""

    @abstractmethod
    def replace_damaged(self) -> bool:
        """Check all records; if some cannot be what was written, keep a copy and start empty. Return whether it did."""
