"""The requests that are being answered, so that a shutdown can wait for them or tell them that it will not."""

from __future__ import annotations

import asyncio

from trilogue.errors import InternalError

DRAINING = "draining"


def current_task() -> asyncio.Task[object]:
    """The task that runs now."""
    task = asyncio.current_task()
    if task is None:
        raise InternalError("not in a task")
    return task


class Running:
    """All running requests of one process, each with what it uses."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[object], object] = {}
        self.leaving = False
        """told to stop: not ready for more, though what comes is still answered"""
        self.draining = False
        """no longer listening: what still comes on open connections is refused"""

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, uses: object) -> asyncio.Task[object]:
        """Count the task that runs now, until `end`."""
        task = current_task()
        self._tasks[task] = uses
        return task

    def end(self, task: asyncio.Task[object]) -> None:
        """It is over."""
        del self._tasks[task]

    def using(self, resource: object) -> bool:
        """Whether any running request still needs this."""
        return any(used is resource for used in self._tasks.values())

    def stop_all(self) -> None:
        """Out of time: every request still running is told to end with an error of its own."""
        for task in list(self._tasks):
            task.cancel(DRAINING)
