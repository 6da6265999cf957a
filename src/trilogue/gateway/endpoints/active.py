"""The requests that are being answered, so that a shutdown can wait for them or tell them that it will not."""

from __future__ import annotations

import asyncio

DRAINING = "draining"


class ActiveRequests:
    """All running requests of one process, each with what it uses."""

    def __init__(self) -> None:
        self.tasks: dict[asyncio.Task[None], object] = {}
        """what uses what"""
        self.leaving = False
        """told to stop: not ready for more, though what comes is still answered"""
        self.draining = False
        """out of time: what still comes on open connections is refused"""

    def using(self, resource: object) -> bool:
        """Whether any running request still needs this."""
        return any(used is resource for used in self.tasks.values())

    def stop_all(self) -> None:
        """Out of time: every request still running is told to end with an error of its own, and no more are taken."""
        self.draining = True
        for task in list(self.tasks):
            task.cancel(DRAINING)
