"""The thread that writes captures, so that the event loop never waits for a disk."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import structlog

MOST_WAITING = 64

log = structlog.get_logger("trilogue.capture")

Job = Callable[[], None]


class WriterThread:
    """Runs jobs one after the other. The thread is started with the first one, after the process was forked."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._jobs: queue.Queue[Job | None] = queue.Queue(most_waiting)
        self._thread: threading.Thread | None = None

    def put(self, job: Job) -> bool:
        """Add a job, and return whether there was room for it."""
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="captures", daemon=True)
            self._thread.start()
        return True

    def close(self, seconds: float) -> None:
        """Wait this long for the jobs so far, and end the thread. The next job starts another one."""
        if self._thread is None:
            return
        try:
            self._jobs.put(None, timeout=seconds)
        except queue.Full:
            return
        self._thread.join(seconds)
        self._thread = None

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # the boundary of a task: the next capture may still be written
                log.error("a capture failed", error=type(error).__name__, exc_info=True)
