"""Modules that only POSIX systems have, and what takes their place elsewhere.

Without `fcntl` nothing is locked: such a system runs one worker, and two gateways must not share state files. Without
`termios` and `resource` what they tell is not known, and the names are None.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class NoLocks:
    """The part of `fcntl` that locks files, without an effect."""

    LOCK_SH = LOCK_EX = LOCK_NB = LOCK_UN = 0

    @staticmethod
    def flock(*_: object) -> None:
        """Do nothing."""

    lockf = flock


def _found(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


fcntl: Any = _found("fcntl") or NoLocks
termios: Any = _found("termios")
resource: Any = _found("resource")
