"""Notices that the process has run out of file descriptors, and says so in the log.

The event loop closes connections that come then without a word, so that nothing else would tell of it.
"""

from __future__ import annotations

import os
import resource

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
