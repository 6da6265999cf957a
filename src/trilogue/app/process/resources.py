"""Memory and file descriptors of a worker process.

By default glibc returns larger free blocks to the system at once, and the next request gets them as new pages: some 500
for a body of 1 MB, which makes that request half as expensive again. glibc adapts to the blocks that it sees; here it
is set at once to what it would learn from the largest. Free memory is returned when the process is idle. Without glibc
or ctypes, nothing changes.

When file descriptors run out, the event loop closes new connections silently: the log line here is the only sign.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from typing import Any

import structlog

from trilogue.base.posix import resource
from trilogue.net.client.failures import NO_DESCRIPTORS

log = structlog.get_logger("trilogue.server")


class Descriptors:
    """A check for free file descriptors. Opening one now and then is the cheapest way to know."""

    def __init__(self) -> None:
        self._gone = False

    def look(self) -> None:
        """Log when there are none left, and when there are some again."""
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            gone = error.errno in NO_DESCRIPTORS
        else:
            gone = False
        if gone and not self._gone:
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource is not None else None
            log.error("out of file descriptors: new connections are closed. Raise the limit (ulimit -n)", limit=limit)
        elif self._gone and not gone:
            log.info("there are file descriptors again")
        self._gone = gone


_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8
"""Numbers from malloc.h."""
_LARGEST = 32 * 1024 * 1024
"""The highest threshold that glibc adapts to: larger blocks always come from the system and go back to it."""
_MOST = 256 * 1024 * 1024
"""Free memory that is kept at most: enough for several requests of 10 MB at a time."""


def keep_free() -> None:
    """Keep free memory for the next request from now on."""
    with suppress(ImportError, AttributeError, OSError):
        mallopt = _library().mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, _MOST)
        # Large bodies are parsed in a thread: memory that is free in a second arena would not be returned.
        mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """Return free memory to the system now. Takes a millisecond or two."""
    with suppress(ImportError, AttributeError, OSError):
        _library().malloc_trim(0)


def _library() -> Any:
    """Return the C library of this process. Some Pythons are built without ctypes."""
    return import_module("ctypes").CDLL(None)
