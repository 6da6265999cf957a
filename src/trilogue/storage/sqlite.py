"""SQLite databases: one file for the processes of one machine, which only its owner can read, or memory of one process.

A `SqliteDatabase` keeps a write-ahead log, so that reading and writing do not wait for each other. `synchronous` is
NORMAL: a commit returns when the operating system has it, so that what was acknowledged survives `kill -9`. A power
failure may take the last commits along, but never damages the file. With FULL nothing would be lost, and every response
that is stored would wait for the disk: measured in November 2026, 5 ms on a busy machine instead of 0.15 ms, and 290 µs
of CPU time instead of 100 µs. PostgreSQL waits for its disk, unless its `synchronous_commit` is off.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from trilogue.storage.database import (
    Database,
    DatabaseConnection,
    Dialect,
    Row,
    StoreAway,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)
from trilogue.storage.private_files import set_aside

SQLITE = Dialect(
    serial="INTEGER PRIMARY KEY",
    real="REAL",
    blob="BLOB",
    clustered=") WITHOUT ROWID",
    has_table="SELECT 1 FROM sqlite_master WHERE name = ?",
    lock_migrations="SELECT 1",
    begin_snapshot="BEGIN DEFERRED",
    placeholder="?",
    append_only=(
        "CREATE TRIGGER TABLE_no_update BEFORE UPDATE ON TABLE BEGIN SELECT RAISE(ABORT, 'TABLE is append-only'); END",
        "CREATE TRIGGER TABLE_no_delete BEFORE DELETE ON TABLE BEGIN SELECT RAISE(ABORT, 'TABLE is append-only'); END",
        # INSERT OR REPLACE deletes a row without firing the trigger above.
        "CREATE TRIGGER TABLE_no_replace BEFORE INSERT ON TABLE WHEN EXISTS (SELECT 1 FROM TABLE WHERE seq = NEW.seq) "
        "BEGIN SELECT RAISE(ABORT, 'TABLE is append-only'); END",
    ),
    for_update="",  # a transaction that writes is alone
)


_creating = threading.Lock()
"""so that no thread connects to a file that another one has created and not closed yet"""
BUSY_SECONDS = 5.0
CACHE_KIB = 16_384
CACHED_STATEMENTS = 256
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
THOROUGH_BYTES = 64 * 2**20
"""A file of up to this size is read completely when it is checked, in at most a third of a second."""

FAILURES = (sqlite3.Error, OSError, UnicodeDecodeError)
"""What using a file of SQLite may raise; the last where SQLite quotes a damaged text in an error message."""
_NOT_THE_CONTENT = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISUSE,
        sqlite3.SQLITE_TOOBIG,
    }
)
"""Errors that say nothing about the content of a file. All others do, since our statements are correct."""


class SqliteDatabase(Database):
    """A file. Its folder is created if needed. `clock`: for tests. `synchronous`: SQLite's setting of that name."""

    dialect = SQLITE

    def __init__(self, path: Path, clock: Callable[[], float] = time.time, synchronous: str = "NORMAL") -> None:
        self.name = str(path)
        self._synchronous = synchronous
        self._path = path
        self._clock = clock

    def connect(self) -> SqliteConnection:
        """Open the file, and create it for its owner alone."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _create(os.path.realpath(self._path))
        except IsADirectoryError:
            raise StoreDamaged(f"{self.name} is a folder") from None
        except OSError as error:
            raise StoreAway(f"cannot open {self.name}: {error.strerror}") from None
        connection = SqliteConnection(self._path)
        try:
            connection.configure(self._synchronous)
        except StoreError:
            connection.close()
            raise
        return connection

    def begin_anew(self, is_damaged: Callable[[], bool]) -> bool:
        """Set the file aside if it is damaged, so that the next use creates a new one. Return whether it was."""
        try:
            return set_aside(self._path, is_damaged, BUSY_SECONDS)
        except OSError as error:
            raise StoreUnavailable(f"{self.name} is damaged and cannot be renamed: {error.strerror}") from None

    def now(self) -> float:
        """Return the time of this machine: all processes that use the file run on it."""
        return self._clock()


def _create(path: str) -> None:
    """Create a file for its owner alone, unless there is one that can be used. Raise OSError.

    One that is there is not opened: closing it would drop the locks that SQLite holds on it in this process. Whoever
    else then closes the database takes its write-ahead log away, and this process learns of no change any more.
    """
    with _creating:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            if stat.S_ISDIR(os.stat(path).st_mode):
                raise IsADirectoryError from None
            if not os.access(path, os.R_OK | os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None


class SqliteConnection(DatabaseConnection):
    """An open file, or a database in memory if there is no path. `timeout`: see `set_timeout`."""

    def __init__(self, path: Path | None, timeout: float = BUSY_SECONDS) -> None:
        self._name = str(path or "the store in memory")
        self._path = path
        self._real = os.path.realpath(path) if path is not None else ""
        self._identity = _identity(path)
        try:
            self.raw = sqlite3.connect(
                path or ":memory:",
                timeout=timeout,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=CACHED_STATEMENTS,
            )
        except sqlite3.Error as error:
            raise self._failure(error) from None

    def configure(self, synchronous: str) -> None:
        """Set what SQLite keeps per connection. The first process also switches the file to a write-ahead log."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self.execute("PRAGMA journal_mode = WAL")
                break
            except StoreBusy:
                # SQLite does not wait here if two processes do this at the same time.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        self.execute(f"PRAGMA synchronous = {synchronous}")
        self.execute("PRAGMA foreign_keys = ON")
        self.execute(f"PRAGMA cache_size = -{CACHE_KIB}")

    def check(self) -> None:
        """Read everything, unless that would take long: damage that is not found now is found when it is read."""
        if self._path is None or self._path.stat().st_size > THOROUGH_BYTES:
            return
        if self.execute("PRAGMA integrity_check(1)") != [("ok",)]:
            raise StoreDamaged(f"{self._name} is damaged")

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement and return its rows."""
        try:
            return self.raw.execute(statement, values).fetchall()
        except FAILURES as error:
            raise self._failure(error) from None

    def execute_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement once for each row of values."""
        try:
            self.raw.executemany(statement, rows)
        except FAILURES as error:
            raise self._failure(error) from None

    def begin(self) -> None:
        """Become the only writer. Raise StoreBusy if another one stays for too long."""
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Write to the disk. A failed commit is undone, so it is never unsure."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction, unless SQLite already has: it does that itself if the disk is full."""
        with suppress(*FAILURES):
            if self.raw.in_transaction:
                self.raw.execute("ROLLBACK")

    def set_timeout(self, seconds: float) -> None:
        """Wait at most this long for other writers from now on; then raise StoreBusy."""
        self.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def written(self) -> tuple[int, int]:
        """Return the time and the size of the file, which change with every write.

        Two writes within a tick of an old kernel's clock may look like one. Asking SQLite (`version`) instead costs
        twenty times as much. Opening the file to look would be a mistake: closing it drops the locks that SQLite holds
        on it in this process.
        """
        try:
            seen = os.stat(self._real)
        except FileNotFoundError:
            return 0, 0
        except OSError as error:
            raise self._failure(error) from None
        return seen.st_mtime_ns, seen.st_size

    def version(self) -> int:
        """Return a number that differs if another connection has written since the last call."""
        return int(self.execute("PRAGMA data_version")[0][0])

    def usable(self) -> bool:
        """Return False if the file was deleted or replaced: what is written to it then would be lost."""
        return self._path is None or self._identity == _identity(self._path)

    def close(self) -> None:
        """Close the database file. Errors of SQLite while closing are ignored."""
        with suppress(sqlite3.Error):
            self.raw.close()

    def _failure(self, error: Exception) -> StoreError:
        code = primary_code(error)
        if is_busy(error):
            return StoreBusy(f"{self._name} is locked by another process")
        # A migration with a mistake is an error of the statement, and must not look like a damaged file.
        if code != sqlite3.SQLITE_ERROR and self._path is not None and blames_content(error, self._path):
            return StoreDamaged(f"{self._name} is damaged")
        if code == sqlite3.SQLITE_FULL:
            return StoreUnavailable(f"{self._name} cannot grow: the disk is full")
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        return StoreUnavailable(f"{self._name} cannot be used: {name}")


def _identity(path: Path | None) -> tuple[int, int] | None:
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class MemoryDatabase(Database):
    """A database that ends with its process. Its threads take turns. `clock`: for tests."""

    name = "the store in memory"
    dialect = SQLITE

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.exclusive = threading.RLock()
        self._connection: SqliteConnection | None = None

    def connect(self) -> DatabaseConnection:
        """Return the connection that all threads share, opened by the first call."""
        with self.exclusive:
            if self._connection is None:
                self._connection = SqliteConnection(None)
                self._connection.execute("PRAGMA foreign_keys = ON")
            return self._connection

    def now(self) -> float:
        """Return the time of this process."""
        return self._clock()


class SharedMemory:
    """A database in memory for several connections, which take turns: by statement, and by transaction."""

    def __init__(self) -> None:
        self.database = SqliteConnection(None)
        self.turn = threading.Lock()
        """held for the length of a statement or a transaction"""
        # Not at the end of the process: its threads may still be writing.
        weakref.finalize(self, self.database.close).atexit = False


class SharedMemoryConnection(SqliteConnection):
    """One thread's connection to a database in memory. `timeout`: how long it waits for its turn."""

    def __init__(self, memory: SharedMemory, timeout: float) -> None:
        self.raw = memory.database.raw
        self._name = "memory"
        self._path = None
        self._turn = memory.turn
        self._timeout = timeout
        self._has_turn = False
        self._closed = False

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement and return its rows."""
        with self._in_turn():
            return super().execute(statement, values)

    def execute_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement once for each row of values."""
        with self._in_turn():
            super().execute_many(statement, rows)

    def begin(self) -> None:
        """Become the only user. Raise StoreBusy if another one stays for too long."""
        self._take_turn()
        super().begin()

    def commit(self) -> None:
        """End the transaction."""
        super().commit()
        self._end_turn()

    def rollback(self) -> None:
        """Undo the transaction."""
        if self._has_turn:
            super().rollback()
            self._end_turn()

    def set_timeout(self, seconds: float) -> None:
        """Wait at most this long for other users from now on; then raise StoreBusy."""
        self._timeout = seconds

    def written(self) -> tuple[int, int]:
        """Return the number of rows that were written, and 0."""
        return self.raw.total_changes, 0

    def version(self) -> int:
        """Return a number that differs if a row was written since the last call."""
        self._check_open()
        return self.raw.total_changes

    def close(self) -> None:
        """Make any later call raise StoreUnavailable."""
        self.rollback()
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"{self._name} was closed")

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        if self._has_turn:
            yield
            return
        self._take_turn()
        try:
            yield
        finally:
            self._end_turn()

    def _take_turn(self) -> None:
        self._check_open()
        if not self._turn.acquire(timeout=self._timeout):
            raise StoreBusy("another session is writing")
        self._has_turn = True

    def _end_turn(self) -> None:
        self._has_turn = False
        self._turn.release()


def blames_content(error: Exception, path: Path) -> bool:
    """Return whether an error of SQLite means that the file is damaged, as opposed to locked, full or out of reach."""
    if isinstance(error, UnicodeDecodeError):
        return True
    if isinstance(error, sqlite3.ProgrammingError):
        return False  # the connection is closed
    code = primary_code(error)
    if code == sqlite3.SQLITE_READONLY:
        # If the system lets us write and SQLite doesn't, the header names a newer format, which we never write.
        return os.access(path, os.W_OK)
    return isinstance(error, sqlite3.DatabaseError) and code not in _NOT_THE_CONTENT


def is_busy(error: Exception) -> bool:
    """Return whether SQLite has raised an error because another process writes."""
    return primary_code(error) in _BUSY


def primary_code(error: Exception) -> int | None:
    """Return SQLite's primary code of an error, or None if SQLite has not raised it."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def copy_file(source: Path, target: Path) -> None:
    """Copy a database to a new file. Does nothing if that is not possible, as with a damaged file."""
    unfinished = target.with_suffix(".copy")
    try:
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        # Not a copy of the bytes: another process may be writing.
        with closing(sqlite3.connect(source)) as read, closing(sqlite3.connect(unfinished)) as written:
            read.backup(written)
        unfinished.replace(target)
    except FAILURES:
        unfinished.unlink(missing_ok=True)
