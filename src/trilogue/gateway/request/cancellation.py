"""Why the gateway cancelled the task of a request.

asyncio knows one way to interrupt a task, and the gateway has five reasons for it. The reason is kept here and not read
from the `CancelledError`: its message gets lost on the way through `asyncio.gather` and `asyncio.timeout`, and of two
cancellations in the same moment the error shows only one.
"""

from __future__ import annotations

import asyncio
from enum import IntEnum

from msgspec import Struct

from trilogue.errors import UpstreamError


class CancelReason(IntEnum):
    """Why a request was cancelled. If several reasons come together, the highest counts."""

    ATTEMPT_TIMED_OUT = 1
    """The upstream of one attempt sends no events. Another attempt may follow."""
    REQUEST_TIMED_OUT = 2
    """There is no time left for any attempt."""
    DRAINING = 3
    """The gateway shuts down and cannot wait any longer."""
    REVOKED = 4
    """The client key was revoked, and its requests are to end."""
    CLIENT_GONE = 5
    """The client has disconnected: no response is needed."""


class Cancellation(Struct, eq=False):
    """The cancellations of one request's task, if there are any.

    Code that catches a `CancelledError` asks `reason`. If that is None, the cancellation is not the gateway's own.
    """

    _task: asyncio.Task[None]
    reason: CancelReason | None = None
    error: UpstreamError | None = None
    """what the client gets instead of a response, unless it has disconnected"""
    _requested: int = 0
    """how often the task was cancelled and may go on"""

    def cancel(self, reason: CancelReason, error: UpstreamError | None = None) -> None:
        """Cancel the task for this reason."""
        if self.reason is None or reason > self.reason:
            self.reason, self.error = reason, error
        self._requested += 1
        self._task.cancel(reason)

    def client_gone(self) -> None:
        """Cancel the task because the client has disconnected."""
        self.cancel(CancelReason.CLIENT_GONE)

    def clear(self) -> UpstreamError | None:
        """Let the task go on after its `CancelledError` was caught. Return the error that was given with the reason."""
        while self._requested:
            self._requested -= 1
            self._task.uncancel()
        error, self.error, self.reason = self.error, None, None
        return error
