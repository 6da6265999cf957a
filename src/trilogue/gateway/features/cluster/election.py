"""Which process of a machine runs the link to the cluster: the one that holds a lock on a file.

The system releases the lock when the process ends, whatever ends it, and another process takes it at its next try.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from trilogue.base.posix import fcntl


class LinkLock:
    """The lock on a file. Made inside the worker process, after the fork: forked processes would share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Whether this process holds the lock."""
        return self._file is not None

    def acquire(self) -> bool:
        """Take the lock if no other process holds it. Return whether this one does. Raises OSError."""
        if self._file is not None:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except OSError:
            os.close(file)
            raise
        self._file = file
        return True

    def release(self) -> None:
        """Give the lock to whoever tries next."""
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)
            self._file = None
