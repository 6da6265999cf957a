"""Time limits that are rarely reached: many of them with one timer of the event loop.

Every request has several, and almost all are removed in time: setting and cancelling a timer for each would cost more
than the rest of the waiting. Here a limit is an entry in a table, and one timer goes through the table when it fires.
Use it for limits of seconds and more; what happens several times a second needs its own timers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from math import inf
from time import monotonic

Late = Callable[[], object]

GRAIN = 0.005
"""Shortest time in seconds between two passes, so that limits reached together are handled together."""
_ROUNDING = 0.001
"""How early a timer may fire: uvloop counts in milliseconds."""


class Deadlines:
    """The time limits of one event loop. `grain`: how late one may be noticed, in seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, grain: float = GRAIN) -> None:
        self._loop = loop
        self._grain = grain
        self._due: dict[Late, float] = {}
        self._next = inf
        """when the timer fires"""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, late: Late, due: float) -> None:
        """Call `late` at this time of `time.monotonic` unless it is removed by then. Added again, it is moved."""
        self._due[late] = due
        if due < self._next:
            self._set(due)

    def remove(self, late: Late) -> None:
        """Remove a limit, if there is one, because what it waits for came in time."""
        self._due.pop(late, None)

    def _set(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = due
        self._timer = self._loop.call_later(max(0.0, due - monotonic()) + _ROUNDING, self._look)

    def _look(self) -> None:
        now = monotonic()
        self._timer, self._next = None, inf
        try:
            for late in [late for late, due in self._due.items() if due <= now]:
                # An earlier callback of this pass may have removed it.
                if self._due.pop(late, None) is not None:
                    late()
        finally:
            if self._due:
                self._set(max(min(self._due.values()), now + self._grain))


@lru_cache(16)
def deadlines(loop: asyncio.AbstractEventLoop, grain: float = GRAIN) -> Deadlines:
    """Return the time limits of a loop. A process has one loop; for tests, which have many, the last few are kept."""
    return Deadlines(loop, grain)
