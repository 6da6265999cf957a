"""Damaged files of the state folder: found out, and set aside under another name, so that a new one can be begun.

A file is renamed, never deleted, and SQLite's files next to it go with it: all that is left of it stays together. Of
several processes that find the same damage one renames; the others find the new file.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import structlog

from trilogue.storage.private_files import locked

log = structlog.get_logger("trilogue.state")

LOCK_SECONDS = 0.05
_TIME = "%Y%m%d-%H%M%S"
_ASIDE = re.compile(r"\.broken-(\d{8}-\d{6})(-\d+)?")
_COMPANIONS = ("-journal", "-wal", "-shm")

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


def set_aside(path: Path, is_damaged: Callable[[], bool], seconds: float = LOCK_SECONDS) -> bool:
    """Rename a file that is damaged to `NAME.broken-DATE`, say so in the log, and return whether it was.

    Raises OSError, also if another process holds the lock for longer: it may be stopped, and requests may wait here.
    """
    if not _holds(is_damaged):
        return False
    # Of two processes that find damage, the second would otherwise rename the new file of the first.
    with locked(path, seconds):
        if not _holds(is_damaged):
            return False
        kept = _free_name(path)
        path.rename(kept)
        for suffix in _COMPANIONS:
            companion = path.with_name(path.name + suffix)
            if companion.exists() and companion.stat().st_size:
                companion.rename(kept.with_name(kept.name + suffix))
            else:
                companion.unlink(missing_ok=True)
    log.error("a damaged file was set aside", file=str(path), kept_as=kept.name)
    return True


def _holds(is_damaged: Callable[[], bool]) -> bool:
    try:
        return is_damaged()
    except FileNotFoundError:  # another process has set it aside just now
        return False


def last_set_aside(path: Path) -> float:
    """Return when a file of this name was set aside for the last time, in seconds since the epoch; 0 for never.

    Raises OSError.
    """
    found = [_ASIDE.fullmatch(one.name[len(path.name) :]) for one in path.parent.glob(f"{path.name}.broken-*")]
    times = [datetime.strptime(one[1], _TIME).timestamp() for one in found if one is not None]
    return max(times, default=0.0)


def _free_name(path: Path) -> Path:
    name = f"{path.name}.broken-{datetime.now():{_TIME}}"
    number, found = 1, path.with_name(name)
    while found.exists():
        number, found = number + 1, path.with_name(f"{name}-{number + 1}")
    return found


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


def primary_code(error: Exception) -> int | None:
    """Return SQLite's primary code of an error, or None if SQLite has not raised it."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None
