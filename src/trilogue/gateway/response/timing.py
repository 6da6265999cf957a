"""What one call may take: the clocks that run while it is under way.

Clocks of one streamed call: signs of life for the client, and limits for an upstream that makes no progress.

Nothing is set up or torn down per event: whoever makes progress notes the time, and the clocks look when they fire.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from time import monotonic

from trilogue.deadlines import deadlines
from trilogue.errors import UpstreamError, UpstreamTimeout
from trilogue.serving import Responder

Expired = Callable[[UpstreamTimeout], None]

KEEPALIVE_SLACK = 0.05
"""how late a sign of life may be, as a part of the interval: all streams share a timer that looks so often at most"""


class KeepAlive:
    """Calls `beat` whenever nothing was written to the client for `interval` seconds, until it is stopped."""

    def __init__(self, interval: float, last_write: Callable[[], float], beat: Callable[[], None]) -> None:
        self._interval = interval
        self._last_write = last_write
        self._beat = beat
        self._deadlines = deadlines(asyncio.get_running_loop(), interval * KEEPALIVE_SLACK)
        self._deadlines.add(self._look, time.monotonic() + interval)

    def stop(self) -> None:
        """The client has its answer."""
        self._deadlines.remove(self._look)

    def _look(self) -> None:
        now = time.monotonic()
        due = self._last_write() + self._interval
        if due <= now:
            self._beat()
            due = now + self._interval
        self._deadlines.add(self._look, due)


class ProgressLimit:
    """How long a streaming upstream may go on without an event. Bytes and pings are no events.

    While the client is busy it is the client that we wait for, so the upstream cannot be blamed.
    """

    def __init__(self, expired: Expired, client: Responder, first_event: float, between_events: float) -> None:
        self._expired = expired
        self._client = client
        self.since = 0.0
        """when the last event came"""
        self._between = between_events
        self._setting, self._seconds = "", 0.0
        self._deadlines = deadlines(asyncio.get_running_loop())
        self._wait("first_event", first_event)

    def began(self) -> None:
        """The first event has come; of further ones it is enough to set `since`."""
        if self._setting == "first_event":
            self._wait("between_events", self._between)

    def stop(self) -> None:
        """Nothing is waited for any more."""
        self._deadlines.remove(self._look)

    def _wait(self, setting: str, seconds: float) -> None:
        self._setting, self._seconds, self.since = setting, seconds, time.monotonic()
        self._deadlines.add(self._look, self.since + seconds)

    def _look(self) -> None:
        now = time.monotonic()
        if self._client.busy:
            self.since = now
        due = self.since + self._seconds
        if due > now:
            self._deadlines.add(self._look, due)
        else:
            text = f"the upstream sent no event within {self._seconds:g} s (timeouts.{self._setting})"
            self._expired(UpstreamTimeout(text))


LATE = "out of time"


class TimeLimits:
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
        self._progress: ProgressLimit | None = None

    def limit(self, seconds: float) -> None:
        """So long may the whole call take, from its start. Each target may have a limit of its own."""
        self._total = seconds
        self._deadlines.add(self._expire, self._started + seconds)

    def streaming(self, first_event: float, between_events: float) -> ProgressLimit:
        """The headers of a stream are here: now its first event is due."""
        self._progress = ProgressLimit(self._expired, self._client, first_event, between_events)
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
