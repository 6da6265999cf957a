"""The store in one SQLite file that only its owner can read, for the processes of one machine.

The table is as earlier versions made it: one row per record with its kind, id (the key), data (the value), time, worker
(the writer) and revision. A damaged file is renamed and a new one started.

SQLite keeps a rollback journal and not a write-ahead log: the index of such a log is mapped into memory, and truncating
that file ends every process that uses it (SIGBUS). So readers may find the file locked for the length of a commit.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from trilogue.storage.database import StoreBusy, StoreDamaged, StoreError, StoreUnavailable
from trilogue.storage.private_files import locked, set_aside
from trilogue.storage.sqlite import FAILURES, blames_content, primary_code
from trilogue.storage.store import Retention, Session, Store, StoredRecord, Transaction

SCHEMA = """
CREATE TABLE IF NOT EXISTS note (
    kind TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL, at REAL NOT NULL, worker TEXT NOT NULL,
    rev INTEGER NOT NULL, PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS note_rev ON note (rev);
"""
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


class FileStore(Store):
    """The records in one file. `durable`: wait for the disk; otherwise a power failure may damage the file."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        self._synchronous = "NORMAL" if durable else "OFF"
        self._real = os.path.realpath(path)

    @property
    def name(self) -> str:
        """The path of the file."""
        return str(self.path)

    def open(self, timeout: float) -> FileSession:
        """Open a session for one thread, and create the file if needed."""
        try:
            self._create(timeout)
            inode = self.inode()  # before connecting: if the file is replaced now, the session is not current
            return FileSession(self, self._connect(timeout), inode)
        except FAILURES as error:
            raise self.failure(error) from error

    def exists(self) -> bool:
        """Return whether there is a file, without creating it."""
        return self.path.exists()

    def copy_to(self, path: Path) -> None:
        """Copy all records to a new file. Does nothing if that is not possible, as with a damaged file."""
        unfinished = path.with_suffix(".copy")
        try:
            os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
            # Not a copy of the bytes: another process may be writing.
            with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(unfinished)) as target:
                source.backup(target)
            unfinished.replace(path)
        except FAILURES:
            unfinished.unlink(missing_ok=True)

    def inode(self) -> int | None:
        """Return what differs between one file of this name and another; None if there is no file."""
        try:
            return self.path.stat().st_ino
        except FileNotFoundError:
            return None

    def written(self) -> tuple[int, int]:
        """Return the time and the size of the file, which change with every write.

        Two writes within a tick of an old kernel's clock may look like one. Asking SQLite instead costs twenty times
        as much. Opening the file to look would be a mistake: closing it drops the locks that SQLite holds on it in
        this process.
        """
        try:
            seen = os.stat(self._real)
        except FileNotFoundError:
            return 0, 0
        return seen.st_mtime_ns, seen.st_size

    def replace_damaged(self) -> bool:
        """Check the file; rename it if it is damaged, so that a new one can be started. Return whether it did."""
        if not self.exists():
            return False
        try:
            return set_aside(self.path, lambda: not self._is_sound())
        except OSError as error:
            raise StoreUnavailable(str(error)) from error

    def failure(self, error: Exception) -> StoreError:
        """Return the error of the interface for an error of SQLite or of the system."""
        if blames_content(error, self.path):
            return StoreDamaged(str(error))
        return StoreBusy(str(error)) if primary_code(error) == sqlite3.SQLITE_BUSY else StoreUnavailable(str(error))

    def _create(self, timeout: float) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.inode() is None:
            # The first process creates the file with its schema under the lock, so that no other sees it without.
            with locked(self.path, timeout):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
                self._connect(timeout).close()

    def _connect(self, timeout: float) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = TRUNCATE").fetchone()
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.executescript(SCHEMA)
        except FAILURES:
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
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("PRAGMA user_version = 1")  # fails if it cannot be written; closing takes it back
                if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                    return False
                if connection.execute(_WRONG_TYPES, (LAST_REVISION,)).fetchone() != (0,):
                    return False
                return all(_is_json(data) for (data,) in connection.execute(_DATA))
        except FAILURES as error:
            return not blames_content(error, self.path)


class FileSession(Session):
    """One connection to the file."""

    def __init__(self, store: FileStore, connection: sqlite3.Connection, inode: int | None) -> None:
        self.connection = connection
        self._store = store
        self._inode = inode
        self._written = (0, 0)
        """time and size of the file at the last look"""
        self._settled = False
        """the look before had found the same, so that no commit can still be under way"""
        self._version = self._read_version = -1
        """SQLite's number of the last change of others: at the last look, and at the last complete reading"""

    def changed(self, *, thorough: bool = False) -> bool:
        """Return False if nothing was written since the last `read_since`, as far as time and size of the file show.

        With `thorough`, SQLite is asked in any case.
        """
        try:
            written = self._store.written()
            same = written == self._written
            if same and self._settled and not thorough:
                return False
            self._written, self._settled = written, same
            self._version = self.connection.execute("PRAGMA data_version").fetchone()[0]
        except FAILURES as error:
            raise self._failure(error) from error
        return self._version != self._read_version

    def is_current(self) -> bool:
        """Return False if the file was deleted or renamed since it was opened."""
        try:
            return self._store.inode() == self._inode
        except OSError:
            return False

    def read(self, kind: str, key: str) -> StoredRecord | None:
        """Return one record, or None."""
        found = self.select("WHERE kind = ? AND id = ? AND kind <> 'Meta'", (kind, key))
        return found[0] if found else None

    def read_kind(self, kind: str) -> list[StoredRecord]:
        """Return all records of a kind in the order of their keys."""
        return self.select("WHERE kind = ? AND kind <> 'Meta' ORDER BY id", (kind,))

    def read_since(self, revision: int, *, without: str = "") -> tuple[int, list[StoredRecord]]:
        """Return the newest revision and the records written after `revision`, except those of the writer `without`."""
        newest = self.newest()
        # The second query may see a later commit than the first: its upper end leaves that for the next call.
        where = "WHERE rev > ? AND rev <= ? AND worker <> ? AND kind <> 'Meta' ORDER BY rev, kind, id"
        found = self.select(where, (revision, newest, without))
        self._read_version = self._version
        return newest, found

    @contextmanager
    def transaction(self, writer: str) -> Iterator[Transaction]:
        """Return a transaction that commits at the end of a `with` block, or leaves no trace if the block raises."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield FileTransaction(self, writer)
            self.execute("COMMIT")
        except BaseException:
            with suppress(*FAILURES):
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
            raise

    def prune(self, now: float, retention: Mapping[str, Retention]) -> None:
        """Remove records that are older than their kind allows, then the oldest beyond its number."""
        for kind, limits in retention.items():
            if limits.seconds is not None:
                self.execute(_TOO_OLD, (kind, now - limits.seconds))
            if limits.records is not None:
                self.execute(_TOO_MANY, (kind, kind, limits.records, LAST_REVISION + 1))

    def set_timeout(self, seconds: float) -> None:
        """Wait at most this long for other writers from now on; then raise StoreBusy."""
        self.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def close(self) -> None:
        """Close the connection; any later call raises StoreUnavailable."""
        self.connection.close()

    def newest(self) -> int:
        """Return the newest revision; 0 if nothing was ever written."""
        found = self.execute("SELECT MAX(rev) FROM note")[0][0] or 0
        if not isinstance(found, int) or found > LAST_REVISION:
            raise StoreDamaged("a revision is not a number")
        return found

    def select(self, where: str, values: tuple[Any, ...]) -> list[StoredRecord]:
        """Return the records of a query. Raises StoreDamaged if a row is not of the types that are written."""
        return [_record(row) for row in self.execute(_READ + where, values)]

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Run a statement and return its rows."""
        try:
            return self.connection.execute(statement, values).fetchall()
        except FAILURES as error:
            raise self._failure(error) from error

    def execute_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run a statement for each of the rows."""
        try:
            self.connection.executemany(statement, rows)
        except FAILURES as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> StoreError:
        if isinstance(error, sqlite3.ProgrammingError):
            return StoreUnavailable(str(error))  # the connection is closed
        failure = self._store.failure(error)
        if isinstance(failure, StoreBusy):
            self._settled = False  # another process is writing: the next look must ask SQLite again
        return failure


class FileTransaction(Transaction):
    """SQLite's own transaction, of which there is one at a time in all processes."""

    def __init__(self, session: FileSession, writer: str) -> None:
        self._session = session
        self._writer = writer
        self._revision = 0

    def read(self, kind: str, key: str) -> StoredRecord | None:
        """Return one record as this transaction would leave it, or None."""
        return self._session.read(kind, key)

    def read_kind(self, kind: str) -> list[StoredRecord]:
        """Return all records of a kind as this transaction would leave them, in the order of their keys."""
        return self._session.read_kind(kind)

    def put(self, records: Iterable[StoredRecord]) -> None:
        """Write records over earlier ones of the same kind and key."""
        revision = self._revision = self._revision or self._session.newest() + 1
        rows = [(one.kind, one.key, one.value, one.at, self._writer, revision) for one in records]
        # One row always stays, so that revisions never start again when all records are deleted.
        rows.append(("Meta", "revision", b"", 0.0, self._writer, revision))
        self._session.execute_many(_WRITE, rows)

    def delete(self, kind: str, keys: Iterable[str]) -> None:
        """Remove records if they exist."""
        self._session.execute_many(_DELETE, [(kind, key) for key in keys])


def _record(row: tuple[Any, Any, Any, Any]) -> StoredRecord:
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
