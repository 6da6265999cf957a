"""The files of the state folder, which only their owner can read: written whole, made once, and renamed if damaged.

Processes that start together must agree about a key or an id: a file that a second one makes again, after the first has
read it, gives each of them another one. So one of several processes makes a file, and one renames it.

A damaged file is never deleted, and SQLite's files next to it are renamed with it: all that is left stays together.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import structlog

from trilogue.base.posix import fcntl

MAKE_SECONDS = 5.0
"""how long to wait for another process that makes a file: that takes milliseconds, unless it is stopped"""

log = structlog.get_logger("trilogue.state")
LOCK_SECONDS = 0.05
_TIME = "%Y%m%d-%H%M%S"
_ASIDE = re.compile(r"\.broken-(\d{8}-\d{6})(-\d+)?")
_COMPANIONS = ("-journal", "-wal", "-shm")


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, in place of an earlier one. Raises OSError.

    It is complete as soon as it is there.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def make_once(path: Path, is_good: Callable[[], bool], content: Callable[[], bytes]) -> None:
    """Write a file with new content unless a good one is there. One of several processes does it. Raises OSError."""
    if is_good():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(path, MAKE_SECONDS):
        if not is_good():
            write_private(path, content())


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Let one process at a time create, change or rename a file, by a lock on a file next to it.

    Raises BlockingIOError if another process holds the lock for longer.
    """
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
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
