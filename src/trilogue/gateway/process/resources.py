"""How the C library keeps memory that is free for the moment. Without glibc, or without ctypes, it stays as it is.

By itself glibc gives larger pieces back to the system at once, and the next request gets them as new pages: with a
body of 1 MB some 500, which make it half as dear again. It learns from the pieces that it sees; here it is told at once
what it would have learnt from the largest. What is free goes back when there is nothing to do.

Notices that the process has run out of file descriptors, and says so in the log.

The event loop closes connections that come then without a word, so that nothing else would tell of it.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from importlib import import_module
from typing import Any

import structlog

from trilogue.upstream.failures import NO_DESCRIPTORS

log = structlog.get_logger("trilogue.server")


class Descriptors:
    """Asks the system for a descriptor now and then: the cheapest way to know whether there is one."""

    def __init__(self) -> None:
        self._gone = False

    def look(self) -> None:
        """Say when there are none left, and when there are some again."""
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            gone = error.errno in NO_DESCRIPTORS
        else:
            gone = False
        if gone and not self._gone:
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            log.error("out of file descriptors: new connections are closed. Raise the limit (ulimit -n)", limit=limit)
        elif self._gone and not gone:
            log.info("there are file descriptors again")
        self._gone = gone


_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8
"""as malloc.h has them"""
_LARGEST = 32 * 1024 * 1024
"""where glibc's own learning ends: larger pieces always come from the system and go back to it"""
_MOST = 256 * 1024 * 1024
"""what is kept at most, for some requests of 10 MB at a time"""


def keep_free() -> None:
    """From now on memory that becomes free is kept for the next request."""
    with suppress(ImportError, AttributeError, OSError):
        mallopt = _library().mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, _MOST)
        # Large bodies are worked on in a thread: with memory of its own, what is free there would not go back.
        mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """Whatever is free, now. Takes a millisecond or two."""
    with suppress(ImportError, AttributeError, OSError):
        _library().malloc_trim(0)


def _library() -> Any:
    """The C library of this process. Not every Python is built with what it takes to call it."""
    return import_module("ctypes").CDLL(None)
