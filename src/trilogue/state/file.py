"""The state file: one SQLite database with one table of notes, readable by its owner only.

A note is the newest word on one thing: its kind and id, the change as JSON, who wrote it, and a revision that grows
with every transaction, so that readers ask for what is new and nothing else. A file that is broken is put aside and a
new one begun.

SQLite keeps a rollback journal and no write-ahead log: the index of such a log is mapped into memory, and whoever
truncates it ends every process that uses it (SIGBUS). So a reader may find the file locked for the length of a commit.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

SCHEMA = """
CREATE TABLE IF NOT EXISTS note (
    kind TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL, at REAL NOT NULL, worker TEXT NOT NULL,
    rev INTEGER NOT NULL, PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS note_rev ON note (rev);
"""
MODEL_REST = "CooledModel"
"""kind of the notes on accounts that rest for one model: clients make up names of models"""
KEPT = {"Bound": 10_000, "Learned": 1_000, MODEL_REST: 1_000}
"""how many notes of a kind are kept, the newest"""
KEPT_SECONDS = 7 * 86_400
LESSON_SECONDS = 30 * 86_400
"""how long it is remembered what a model has refused: vendors change their models"""
LOCK_SECONDS = 0.05
LAST_REVISION = 2**62
"""more than all gateways of the world will write"""

_WRITE = (
    "INSERT INTO note (kind, id, data, at, worker, rev) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (kind, id) DO UPDATE "
    "SET data = excluded.data, at = excluded.at, worker = excluded.worker, rev = excluded.rev"
)
_OLD = "DELETE FROM note WHERE kind IN ('Bound', 'Cooled', 'CooledModel') AND at < ?"
_OLD_LESSONS = "DELETE FROM note WHERE kind = 'Learned' AND at < ?"
_TOO_MANY = (
    "DELETE FROM note WHERE kind = ?1 AND rev < (SELECT MIN(rev) FROM "
    "(SELECT rev FROM note WHERE kind = ?1 ORDER BY rev DESC LIMIT ?2))"
)
_STRANGE = (
    "SELECT COUNT(*) FROM note WHERE typeof(id) <> 'text' OR typeof(data) NOT IN ('blob', 'text') "
    "OR typeof(rev) <> 'integer' OR rev > ?"
)
"""SQLite keeps whatever it is given: these are notes that nobody here has written"""
_DATA = "SELECT data FROM note WHERE kind <> 'Meta'"

FAILURES = (sqlite3.Error, OSError, UnicodeDecodeError)
"""what using the file may raise; the last where SQLite quotes a broken text in the message of an error"""
_ELSEWHERE = frozenset(
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
    }
)
"""errors that say nothing about what is in the file; all others do, since our statements are correct"""


class Note(Struct, frozen=True):
    """One row to write."""

    kind: str
    id: str
    data: bytes
    at: float


class StateFile:
    """Where the notes are. Every method opens what it needs; connections belong to who asked for them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._real = os.path.realpath(path)

    def connect(self, timeout: float) -> sqlite3.Connection:
        """A connection to the file, which is made if needed. Raises sqlite3.Error or OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.inode() is None:
            # Who comes first makes it whole, so that nobody sees it half made.
            with self._locked(timeout):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
                self._open(timeout).close()
        return self._open(timeout)

    def inode(self) -> int | None:
        """Tells one file of this name from another; None if there is none."""
        try:
            return self.path.stat().st_ino
        except FileNotFoundError:
            return None

    def written(self) -> tuple[int, int]:
        """Changes when someone writes: the time and the size of the file. Two writes within a tick of an old kernel's
        clock may look like one.

        Looking from outside costs a twentieth of asking SQLite. To open the file for a look would be a mistake: closing
        it again would take away the locks that SQLite holds on it in this process.
        """
        try:
            seen = os.stat(self._real)
        except FileNotFoundError:
            return 0, 0
        return seen.st_mtime_ns, seen.st_size

    def _open(self, timeout: float) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = TRUNCATE").fetchone()
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(SCHEMA)
        except FAILURES:
            connection.close()
            raise
        return connection

    def put_aside(self) -> bool:
        """Rename the file if it is broken, so that a new one can be begun; False if it is not."""
        with self._locked(LOCK_SECONDS):
            if self._is_sound():
                return False
            aside = self.path.with_name(f"{self.path.name}.broken-{time.time_ns()}")
            self.path.rename(aside)
            for suffix in ("-journal", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            return True

    def _is_sound(self) -> bool:
        if not self.path.exists():
            return True
        if not self.path.stat().st_size:
            return False  # someone has emptied it
        try:
            with closing(self._open(1.0)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("PRAGMA user_version = 1")  # can it be written? Closing it takes that back.
                if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                    return False
                if connection.execute(_STRANGE, (LAST_REVISION,)).fetchone() != (0,):
                    return False
                return all(_is_json(data) for (data,) in connection.execute(_DATA))
        except FAILURES as error:
            return not self.is_to_blame(error)

    def is_to_blame(self, error: Exception) -> bool:
        """Tell whether the file itself is bad, as opposed to locked, full or out of reach."""
        if isinstance(error, UnicodeDecodeError):
            return True
        code = primary_code(error)
        if code == sqlite3.SQLITE_READONLY:
            # The system lets us write and SQLite does not: by its header it is of a newer format that nobody has made.
            return os.access(self.path, os.W_OK)
        return isinstance(error, sqlite3.DatabaseError) and code not in _ELSEWHERE

    @contextmanager
    def _locked(self, seconds: float) -> Iterator[None]:
        """One process at a time: two that both find the file broken must not put the new one aside.

        Raises BlockingIOError if another one takes longer: it may have been stopped, and requests wait here.
        """
        descriptor = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(descriptor, time.monotonic() + seconds)
            yield
        finally:
            os.close(descriptor)


def _lock(descriptor: int, until: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise BlockingIOError(errno.EAGAIN, "another process holds its lock") from None
            time.sleep(0.005)
        else:
            return


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """The only writer for a moment."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except FAILURES:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def write(connection: sqlite3.Connection, worker: str, notes: list[Note]) -> None:
    """Write notes in one transaction, with one new revision."""
    with transaction(connection):
        insert(connection, worker, notes)


def insert(connection: sqlite3.Connection, worker: str, notes: list[Note]) -> None:
    """As `write`, inside a transaction."""
    revision = newest(connection) + 1
    rows = [(note.kind, note.id, note.data, note.at, worker, revision) for note in notes]
    # One note is always there, so that revisions never start again.
    rows.append(("Meta", "revision", b"", 0.0, worker, revision))
    connection.executemany(_WRITE, rows)


def newest(connection: sqlite3.Connection) -> int:
    """The newest revision."""
    found = connection.execute("SELECT MAX(rev) FROM note").fetchone()[0] or 0
    if not isinstance(found, int) or found > LAST_REVISION:
        raise sqlite3.DatabaseError("a revision is no number")
    return found


def read_since(connection: sqlite3.Connection, after: int, until: int, worker: str) -> list[tuple[str, str, bytes]]:
    """What others have written in between, as (kind, id, data), oldest first."""
    query = "SELECT kind, id, data FROM note WHERE rev > ? AND rev <= ? AND worker <> ? AND kind <> 'Meta' ORDER BY rev"
    return checked(connection.execute(query, (after, until, worker)).fetchall())


def checked(notes: list[tuple[Any, Any, Any]]) -> list[tuple[str, str, bytes]]:
    """Notes as they were read, if they are what was written."""
    for _, note_id, data in notes:
        if not isinstance(note_id, str) or not isinstance(data, bytes | str):
            raise sqlite3.DatabaseError("a note is not what was written")
    return notes


def prune(connection: sqlite3.Connection, now: float) -> None:
    """Forget conversations that are long over, and what models refused long ago."""
    connection.execute(_OLD, (now - KEPT_SECONDS,))
    connection.execute(_OLD_LESSONS, (now - LESSON_SECONDS,))
    for kind, most in KEPT.items():
        connection.execute(_TOO_MANY, (kind, most))


def primary_code(error: Exception) -> int | None:
    """SQLite's code of an error, without what is special about it; None if it was found by Python or by us."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def _is_json(data: bytes | str) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
