"""Limits on time that are hardly ever reached: many of them, and one timer of the event loop.

Every request has some, and almost all of them are taken back: to set and cancel a timer for each would cost more than
the rest of waiting. Here a limit is an entry in a table, and the timer looks through the table when it fires. So this
is for limits of seconds and more; whatever happens again and again within a second has timers of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from math import inf
from time import monotonic

Late = Callable[[], object]

GRAIN = 0.005
"""Seconds between two looks at the least: limits that are reached together are found together."""
_ROUNDING = 0.001
"""What a timer may be early by: uvloop counts in milliseconds."""


class Deadlines:
    """The limits of one event loop. `grain`: how late one may be found, in seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, grain: float = GRAIN) -> None:
        self._loop = loop
        self._grain = grain
        self._due: dict[Late, float] = {}
        self._next = inf
        """when the timer fires"""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, late: Late, due: float) -> None:
        """Call `late` at this time of `time.monotonic` unless it is removed by then. Added again, it has a new time."""
        self._due[late] = due
        if due < self._next:
            self._set(due)

    def remove(self, late: Late) -> None:
        """It was in time, or was never added."""
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
                # It may have been removed by the one before.
                if self._due.pop(late, None) is not None:
                    late()
        finally:
            if self._due:
                self._set(max(min(self._due.values()), now + self._grain))


@lru_cache(16)
def deadlines(loop: asyncio.AbstractEventLoop, grain: float = GRAIN) -> Deadlines:
    """Those of this loop. A process has one loop, tests have many: the last few are enough."""
    return Deadlines(loop, grain)
