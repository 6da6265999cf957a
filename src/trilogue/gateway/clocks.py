"""What one call may take: the clocks that run while it is under way."""

from __future__ import annotations

import asyncio
from time import monotonic

from trilogue.deadlines import deadlines
from trilogue.errors import UpstreamError, UpstreamTimeout
from trilogue.gateway.heart import Progress
from trilogue.serving import Responder

LATE = "out of time"


class Clocks:
    """What a call may take. When a clock runs out the call is cancelled, and `error` says which one it was."""

    def __init__(self, task: asyncio.Task[None], client: Responder) -> None:
        self.task = task
        self.error: UpstreamError | None = None
        self._client = client
        self._started = monotonic()
        self._total = 0.0
        self._over = False
        """it was the clock of the whole call: there is no time for another attempt"""
        self._deadlines = deadlines(task.get_loop())
        self._progress: Progress | None = None

    def limit(self, seconds: float) -> None:
        """So long may the whole call take, from its start. Each target may have a limit of its own."""
        self._total = seconds
        self._deadlines.add(self._expire, self._started + seconds)

    def streaming(self, first_event: float, between_events: float) -> Progress:
        """The headers of a stream are here: now its first event is due."""
        self._progress = Progress(self._expired, self._client, first_event, between_events)
        return self._progress

    def attempted(self) -> None:
        """The attempt under way is over."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def taken(self, cancelled: asyncio.CancelledError) -> UpstreamError | None:
        """The error of this attempt, if that is why the call was cancelled; then it can go on."""
        if str(cancelled) != LATE or self._over or self.error is None:
            return None
        self.task.uncancel()
        error, self.error = self.error, None
        return error

    def stop(self) -> None:
        """The call is over."""
        self._deadlines.remove(self._expire)
        if self._progress is not None:
            self.attempted()

    def _expire(self) -> None:
        self._over = True
        self._expired(UpstreamTimeout(f"there was no complete answer within {self._total:g} s (timeouts.total)"))

    def _expired(self, error: UpstreamTimeout) -> None:
        self.error = error
        self.task.cancel(LATE)
