"""Time limits of a request, and keep-alives for its client.

Nothing is set up or torn down per event: code that makes progress notes the time, and the limits compare it when their
timer fires.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from trilogue.errors import UpstreamTimeout
from trilogue.gateway.request.request import Cancellation, CancelReason
from trilogue.net.event_loop import deadlines
from trilogue.net.server.responder import Responder

KEEPALIVE_SLACK = 0.05
"""How late a keep-alive may be, as a part of the interval: all streams share a timer that fires so often at most."""


class KeepAlive:
    """Calls `send` whenever nothing was written to the client for `interval` seconds, until it is stopped."""

    def __init__(self, interval: float, client: Responder, send: Callable[[], None]) -> None:
        self._interval = interval
        self._client = client
        self._send = send
        self._deadlines = deadlines(asyncio.get_running_loop(), interval * KEEPALIVE_SLACK)
        self._deadlines.add(self._check, time.monotonic() + interval)

    def stop(self) -> None:
        """Send no more keep-alives for this response."""
        self._deadlines.remove(self._check)

    def _check(self) -> None:
        now = time.monotonic()
        due = self._client.last_write_at + self._interval
        if due <= now:
            self._send()
            due = now + self._interval
        self._deadlines.add(self._check, due)


class ProgressLimit:
    """How long an upstream may stream without an event. Bytes and pings are not events.

    While the client is slow, the gateway does not read from the upstream, so that time does not count. Neither does the
    time that a policy takes to decide.
    """

    def __init__(
        self, cancellation: Cancellation, client: Responder, first_event: float, between_events: float
    ) -> None:
        self._cancellation = cancellation
        self._client = client
        self.since = 0.0
        """when the last event came"""
        self.held = False
        """whether a policy holds the response back, so that it need not go on"""
        self._between = between_events
        self._setting, self._seconds = "", 0.0
        self._deadlines = deadlines(asyncio.get_running_loop())
        self._wait("first_event", first_event)

    def began(self) -> None:
        """Note the first event. For later events, setting `since` is enough."""
        if self._setting == "first_event":
            self._wait("between_events", self._between)

    def stop(self) -> None:
        """Remove the limit that applies at the moment, so that it cannot expire."""
        self._deadlines.remove(self._check)

    def _wait(self, setting: str, seconds: float) -> None:
        self._setting, self._seconds, self.since = setting, seconds, time.monotonic()
        self._deadlines.add(self._check, self.since + seconds)

    def _check(self) -> None:
        now = time.monotonic()
        if self._client.busy or self.held:
            self.since = now
        due = self.since + self._seconds
        if due > now:
            self._deadlines.add(self._check, due)
        else:
            text = f"the upstream sent no event within {self._seconds:g} s (timeouts.{self._setting})"
            self._cancellation.cancel(CancelReason.ATTEMPT_TIMED_OUT, UpstreamTimeout(text))


class TimeLimits:
    """The time limits of one request. When one is reached, the request is cancelled with the reason and an error."""

    def __init__(self, cancellation: Cancellation, client: Responder) -> None:
        self._cancellation = cancellation
        self._client = client
        self._started = time.monotonic()
        self._total = 0.0
        self._deadlines = deadlines(asyncio.get_running_loop())
        self._progress: ProgressLimit | None = None

    def limit(self, seconds: float) -> None:
        """Limit the whole request, counted from its start. Each target may have another limit."""
        self._total = seconds
        self._deadlines.add(self._expire, self._started + seconds)

    def streaming(self, first_event: float, between_events: float) -> ProgressLimit:
        """Return the limit on the events of a stream whose headers have arrived."""
        self._progress = ProgressLimit(self._cancellation, self._client, first_event, between_events)
        return self._progress

    def attempt_ended(self) -> None:
        """Remove the limits of one attempt."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def stop(self) -> None:
        """Remove all limits: that of the whole request, and those of the current attempt."""
        self._deadlines.remove(self._expire)
        if self._progress is not None:
            self.attempt_ended()

    def _expire(self) -> None:
        text = f"there was no complete response within {self._total:g} s (timeouts.total)"
        self._cancellation.cancel(CancelReason.REQUEST_TIMED_OUT, UpstreamTimeout(text))
