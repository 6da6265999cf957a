"""What one call may take: the clocks that run while it is under way."""

from __future__ import annotations

import asyncio

from trilogue.deadlines import deadlines
from trilogue.errors import UpstreamError, UpstreamTimeout
from trilogue.gateway.heart import Progress, Total
from trilogue.serving import Responder

LATE = "out of time"


class Clocks:
    """What a call may take. When a clock runs out the call is cancelled, and `error` says which one it was."""

    def __init__(self, task: asyncio.Task[object], responder: Responder) -> None:
        self.task = task
        self.error: UpstreamError | None = None
        self.over = False
        """it was the clock of the whole call: there is no time for another attempt"""
        self.total = Total(self._expired_for_good, deadlines(task.get_loop()))
        self.progress = Progress(self._expired, responder)

    def taken(self, cancelled: asyncio.CancelledError) -> UpstreamError | None:
        """The error of this attempt, if that is why the call was cancelled; then it can go on."""
        if str(cancelled) != LATE or self.over or self.error is None:
            return None
        self.task.uncancel()
        error, self.error = self.error, None
        return error

    def stop(self) -> None:
        """The call is over."""
        self.total.stop()
        self.progress.stop()

    def _expired(self, error: UpstreamTimeout) -> None:
        self.error = error
        self.task.cancel(LATE)

    def _expired_for_good(self, error: UpstreamTimeout) -> None:
        self.over = True
        self._expired(error)
