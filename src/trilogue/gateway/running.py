"""The requests that are being answered, so that a shutdown can wait for them or tell them that it will not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

DRAINING = "draining"


class Running:
    """All running requests of one process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self.draining = False

    def __len__(self) -> int:
        return len(self._tasks)

    @contextmanager
    def watch(self, task: asyncio.Task[object] | None) -> Iterator[None]:
        """Count this task while it runs."""
        tasks = {task} if task else set()
        self._tasks |= tasks
        try:
            yield
        finally:
            self._tasks -= tasks

    def stop_all(self) -> None:
        """Out of time: every request still running is told to end with an error of its own."""
        for task in list(self._tasks):
            task.cancel(DRAINING)
