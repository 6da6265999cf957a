"""Records that several threads and processes share: each has a kind, a key, a JSON value, a time and a revision.

Nothing here knows accounts. `RecordFile` keeps them in one SQLite file, for the processes of one machine, and
`RecordMemory` in the memory of one process, until it ends.

    store = RecordFile(path)                             # or RecordMemory()
    table = store.open(timeout=1.0)                      # one per thread
    table.write("worker-1", [StoredRecord("Response", "resp_1", b"{}", now)])
    revision, records = table.read_since(0)
    with table.transaction("worker-1") as batch:         # the only writer until the block ends
        batch.add("Usage", "key-1", 12.5, now)
        batch.delete("Response", ["resp_1"])
    table.prune(now, {"Response": Retention(seconds=3600.0, records=1_000)})

Every method may block for as long as the table's timeout and raises nothing but `StoreError`, so callers that must not
wait use a thread. `RecordTable.changed` is the exception: it is cheap enough for an event loop.

The table is as earlier versions made it: one row per record with its kind, id (the key), data (the value), time, worker
(the writer) and revision. A damaged file is renamed and a new one started: what accounts have learned can be learned
again, which is not so for client keys or responses.

SQLite keeps a rollback journal and not a write-ahead log: the index of such a log is mapped into memory, and truncating
that file ends every process that uses it (SIGBUS). So readers may find the file locked for the length of a commit.

tests/state/test_contract.py holds both to what the docstrings promise.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import msgspec
from msgspec import Struct

from trilogue.storage.database import Row, StoreBusy, StoreDamaged, StoreError, StoreUnavailable
from trilogue.storage.private_files import locked, set_aside
from trilogue.storage.sqlite import (
    FAILURES,
    SharedMemory,
    SharedMemoryConnection,
    SqliteConnection,
    blames_content,
    copy_file,
    is_busy,
)

P = ParamSpec("P")
T = TypeVar("T")

TABLE = (
    "CREATE TABLE IF NOT EXISTS note (kind TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL, at REAL NOT NULL, "
    "worker TEXT NOT NULL, rev INTEGER NOT NULL, PRIMARY KEY (kind, id)) WITHOUT ROWID"
)
INDEX = "CREATE INDEX IF NOT EXISTS note_rev ON note (rev)"
LAST_REVISION = 2**62
"""A larger revision is damage: no gateway writes this often."""

_WRITE = (
    "INSERT INTO note (kind, id, data, at, worker, rev) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (kind, id) DO UPDATE "
    "SET data = excluded.data, at = excluded.at, worker = excluded.worker, rev = excluded.rev"
)
_READ = "SELECT kind, id, data, at FROM note "
_DELETE = "DELETE FROM note WHERE kind = ? AND id = ?"
_TOO_OLD = "DELETE FROM note WHERE kind = ? AND at < ?"
_TOO_MANY = (
    "DELETE FROM note WHERE kind = ? AND rev < COALESCE((SELECT MIN(rev) FROM "
    "(SELECT rev FROM note WHERE kind = ? ORDER BY rev DESC LIMIT ?)), ?)"
)
_WRONG_TYPES = (
    "SELECT COUNT(*) FROM note WHERE typeof(id) <> 'text' OR typeof(data) NOT IN ('blob', 'text') "
    "OR typeof(rev) <> 'integer' OR rev > ?"
)
"""SQLite stores values of any type in any column, so that damage and other programs can leave what we never write."""
_DATA = "SELECT data FROM note WHERE kind <> 'Meta'"


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


class RecordTable:
    """One thread's access to records. Sees everything that was committed before the call, by whichever thread."""

    def __init__(self, connection: SqliteConnection) -> None:
        self.connection = connection
        self._written = (0, 0)
        """time and size of the file at the last look"""
        self._settled = False
        """the look before had found the same, so that no commit can still be under way"""
        self._version = self._read_version = -1
        """SQLite's number of the last change of others: at the last look, and at the last complete reading"""

    def changed(self, *, thorough: bool = False) -> bool:
        """Return False if nothing was written since the last `read_since`, as far as time and size of the file show.

        The look may miss a write that follows another one immediately. With `thorough`, SQLite is asked in any case,
        and nothing is missed.
        """
        written = self.connection.written()
        same = written == self._written
        if same and self._settled and not thorough:
            return False
        self._written, self._settled = written, same
        self._version = self._run(self.connection.version)
        return self._version != self._read_version

    def is_current(self) -> bool:
        """Return False if the file was deleted or replaced since the table was opened: open a new one."""
        return self.connection.usable()

    def read(self, kind: str, key: str) -> StoredRecord | None:
        """Return one record, or None."""
        found = self._select("WHERE kind = ? AND id = ? AND kind <> 'Meta'", (kind, key))
        return found[0] if found else None

    def read_kind(self, kind: str) -> list[StoredRecord]:
        """Return all records of a kind in the order of their keys."""
        return self._select("WHERE kind = ? AND kind <> 'Meta' ORDER BY id", (kind,))

    def read_since(self, revision: int, *, without: str = "") -> tuple[int, list[StoredRecord]]:
        """Return the newest revision and the records written after `revision`, except those of the writer `without`.

        Records come in the order of their revisions, and in the order of kind and key within one revision. A newest
        revision below `revision` means that the table was emptied. Revisions never repeat otherwise, even if every
        record is deleted.
        """
        newest = self.newest()
        # The second query may see a later commit than the first: its upper end leaves that for the next call.
        where = "WHERE rev > ? AND rev <= ? AND worker <> ? AND kind <> 'Meta' ORDER BY rev, kind, id"
        found = self._select(where, (revision, newest, without))
        self._read_version = self._version
        return newest, found

    @contextmanager
    def transaction(self, writer: str) -> Iterator[RecordBatch]:
        """Return a transaction that commits at the end of a `with` block, or leaves no trace if the block raises."""
        self._run(self.connection.begin)
        try:
            yield RecordBatch(self, writer)
            self._run(self.connection.commit)
        except BaseException:
            self.connection.rollback()
            raise

    def write(self, writer: str, records: Iterable[StoredRecord]) -> None:
        """Write records in one transaction."""
        with self.transaction(writer) as batch:
            batch.put(records)

    def prune(self, now: float, retention: Mapping[str, Retention]) -> None:
        """Remove records that are older than their kind allows, then the oldest beyond its number.

        Records of one revision are removed together, so a few more than that number may stay.
        """
        for kind, limits in retention.items():
            if limits.seconds is not None:
                self._execute(_TOO_OLD, (kind, now - limits.seconds))
            if limits.records is not None:
                self._execute(_TOO_MANY, (kind, kind, limits.records, LAST_REVISION + 1))

    def set_timeout(self, seconds: float) -> None:
        """Wait at most this long for other writers from now on; then raise StoreBusy."""
        self.connection.set_timeout(seconds)

    def close(self) -> None:
        """Close the connection; any later call raises StoreUnavailable."""
        self.connection.close()

    def newest(self) -> int:
        """Return the newest revision; 0 if nothing was ever written."""
        found = self._execute("SELECT MAX(rev) FROM note")[0][0] or 0
        if not isinstance(found, int) or found > LAST_REVISION:
            raise StoreDamaged("a revision is not a number")
        return found

    def execute_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run a statement for each of the rows."""
        self._run(self.connection.execute_many, statement, rows)

    def _select(self, where: str, values: tuple[Any, ...]) -> list[StoredRecord]:
        """Return the records of a query. Raises StoreDamaged if a row is not of the types that are written."""
        return [_record(row) for row in self._execute(_READ + where, values)]

    def _execute(self, statement: str, values: tuple[Any, ...] = ()) -> list[Row]:
        return self._run(self.connection.execute, statement, values)

    def _run(self, use: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return use(*args, **kwargs)
        except StoreBusy:
            self._settled = False  # another process is writing: the next look must ask SQLite again
            raise


class RecordBatch:
    """Reads and writes that happen all together or not at all. No other thread writes until it ends."""

    def __init__(self, table: RecordTable, writer: str) -> None:
        self._table = table
        self._writer = writer
        self._revision = 0

    def read(self, kind: str, key: str) -> StoredRecord | None:
        """Return one record as this transaction would leave it, or None."""
        return self._table.read(kind, key)

    def read_kind(self, kind: str) -> list[StoredRecord]:
        """Return all records of a kind as this transaction would leave them, in the order of their keys."""
        return self._table.read_kind(kind)

    def put(self, records: Iterable[StoredRecord]) -> None:
        """Write records over earlier ones of the same kind and key. All writes of a transaction have one revision."""
        revision = self._revision = self._revision or self._table.newest() + 1
        rows = [(one.kind, one.key, one.value, one.at, self._writer, revision) for one in records]
        # One row always stays, so that revisions never start again when all records are deleted.
        rows.append(("Meta", "revision", b"", 0.0, self._writer, revision))
        self._table.execute_many(_WRITE, rows)

    def delete(self, kind: str, keys: Iterable[str]) -> None:
        """Remove records if they exist. `read_since` doesn't report this: put a value first that says so."""
        self._table.execute_many(_DELETE, [(kind, key) for key in keys])

    def add(self, kind: str, key: str, amount: float, at: float) -> float:
        """Add to a counter, which starts at 0, and return its new value."""
        before = self.read(kind, key)
        total: float = amount + (msgspec.json.decode(before.value, type=float) if before else 0.0)
        self.put([StoredRecord(kind, key, msgspec.json.encode(total), at)])
        return total


class RecordStore(ABC):
    """A place for records that several threads use at the same time. `name`: where it is, for messages; no secrets."""

    name: str

    @abstractmethod
    def open(self, timeout: float) -> RecordTable:
        """Open the table for one thread, and create it if needed. `timeout`: see `RecordTable.set_timeout`."""

    @abstractmethod
    def exists(self) -> bool:
        """Return whether the table was created, without creating it."""

    @abstractmethod
    def replace_damaged(self) -> bool:
        """Check all records; if some cannot be what was written, keep a copy and start empty. Return whether it did."""


class RecordMemory(RecordStore):
    """The records of gateways that keep nothing."""

    name = "memory"

    def __init__(self) -> None:
        self._memory = SharedMemory()
        _create_table(self._memory.database)

    def open(self, timeout: float) -> RecordTable:
        """Open the table for one thread."""
        return RecordTable(SharedMemoryConnection(self._memory, timeout))

    def exists(self) -> bool:
        """Return True: it exists as long as the process does."""
        return True

    def replace_damaged(self) -> bool:
        """Return False: memory isn't damaged by others."""
        return False


class RecordFile(RecordStore):
    """The records in one file. `durable`: wait for the disk; otherwise a power failure may damage the file."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        self.name = str(path)
        self._synchronous = "NORMAL" if durable else "OFF"

    def open(self, timeout: float) -> RecordTable:
        """Open the table for one thread, and create the file if needed."""
        try:
            self._create(timeout)
        except FAILURES as error:
            raise _failure(error, self.path) from error
        return RecordTable(self._connect(timeout))

    def exists(self) -> bool:
        """Return whether there is a file, without creating it."""
        return self.path.exists()

    def copy_to(self, path: Path) -> None:
        """Copy all records to a new file. Does nothing if that is not possible, as with a damaged file."""
        copy_file(self.path, path)

    def replace_damaged(self) -> bool:
        """Check the file; rename it if it is damaged, so that a new one can be started. Return whether it did."""
        if not self.exists():
            return False
        try:
            return set_aside(self.path, lambda: not self._is_sound())
        except OSError as error:
            raise StoreUnavailable(str(error)) from error

    def _create(self, timeout: float) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.exists():
            # The first process creates the file with its table under the lock, so that no other sees it without.
            with locked(self.path, timeout):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
                self._connect(timeout).close()

    def _connect(self, timeout: float) -> SqliteConnection:
        connection = _FileConnection(self.path, timeout)
        try:
            connection.execute("PRAGMA journal_mode = TRUNCATE")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            _create_table(connection)
        except StoreError:
            connection.close()
            raise
        return connection

    def _is_sound(self) -> bool:
        if not self.path.exists():
            return True
        if not self.path.stat().st_size:
            return False  # another program has truncated it
        try:
            with closing(self._connect(1.0)) as connection:
                connection.begin()
                connection.execute("PRAGMA user_version = 1")  # fails if it cannot be written; closing takes it back
                if connection.execute("PRAGMA integrity_check") != [("ok",)]:
                    return False
                if connection.execute(_WRONG_TYPES, (LAST_REVISION,)) != [(0,)]:
                    return False
                return all(_is_json(data) for (data,) in connection.execute(_DATA))
        except StoreError as error:
            return not isinstance(error, StoreDamaged)


class _FileConnection(SqliteConnection):
    """A connection to a file whose content may be given up: any error that blames it means that it is damaged."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._file = path
        super().__init__(path, timeout)

    def _failure(self, error: Exception) -> StoreError:
        return _failure(error, self._file)


def _failure(error: Exception, path: Path) -> StoreError:
    if blames_content(error, path):
        return StoreDamaged(str(error))
    return StoreBusy(str(error)) if is_busy(error) else StoreUnavailable(str(error))


def _create_table(connection: SqliteConnection) -> None:
    connection.execute(TABLE)
    connection.execute(INDEX)


def _record(row: Row) -> StoredRecord:
    kind, key, data, at = row
    if not isinstance(key, str) or not isinstance(data, bytes | str):
        raise StoreDamaged("a record is not what was written")
    return StoredRecord(kind, key, data.encode() if isinstance(data, str) else data, at)


def _is_json(data: bytes | str) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
