"""Files that only their owner can read, such as keys: written whole, and made once by one of several processes.

Processes that start together must agree about a key or an id: a file that a second one makes again, after the first has
read it, gives each of them another one.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trilogue.base.posix import fcntl

MAKE_SECONDS = 5.0
"""how long to wait for another process that makes a file: that takes milliseconds, unless it is stopped"""


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
