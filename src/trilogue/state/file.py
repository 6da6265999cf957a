"""The state file: one SQLite database with one table of notes, readable by its owner only.

A note is the newest word on one thing: its kind and id, the change as JSON, who wrote it, and a revision that grows
with every transaction, so that readers ask for what is new and nothing else. A file that is broken is put aside and a
new one begun.
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

from msgspec import Struct

SCHEMA = """
CREATE TABLE IF NOT EXISTS note (
    kind TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL, at REAL NOT NULL, worker TEXT NOT NULL,
    rev INTEGER NOT NULL, PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS note_rev ON note (rev);
"""
KEPT_BINDINGS = 10_000
KEPT_LESSONS = 1_000
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
_OLD = "DELETE FROM note WHERE kind IN ('Bound', 'Cooled') AND at < ?"
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
        self._log = f"{os.path.realpath(path)}-wal"

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
        """Changes when someone writes: the time and the size of SQLite's log. Two writes within a tick of an old
        kernel's clock may look like one.

        Looking from outside costs a twentieth of asking SQLite. To open the file for a look would be a mistake: closing
        it again would take away the locks that SQLite holds on it in this process.
        """
        try:
            seen = os.stat(self._log)
        except FileNotFoundError:
            return 0, 0
        return seen.st_mtime_ns, seen.st_size

    def _open(self, timeout: float) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(SCHEMA)
        except sqlite3.Error:
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
            for suffix in ("-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            return True

    def _is_sound(self) -> bool:
        if not self.path.exists():
            return True
        try:
            with closing(self._open(1.0)) as connection:
                sound = connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
                return bool(sound and connection.execute(_STRANGE, (LAST_REVISION,)).fetchone() == (0,))
        except sqlite3.OperationalError:
            return True
        except sqlite3.DatabaseError:
            return False

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
    except sqlite3.Error:
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
    query = "SELECT kind, id, data FROM note WHERE rev > ? AND rev <= ? AND worker <> ? ORDER BY rev"
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
    connection.execute(_TOO_MANY, ("Bound", KEPT_BINDINGS))
    connection.execute(_TOO_MANY, ("Learned", KEPT_LESSONS))
