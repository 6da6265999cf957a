"""How connections share one event loop: many time limits with one timer, and the bytes of fast peers in portions.

Every request has several time limits, and almost all are removed in time: setting and cancelling a timer for each
would cost more than the rest of the waiting. Here a limit is an entry in a table, and one timer goes through the
table when it fires. Use it for limits of seconds and more; what happens several times a second needs its own
timers.

An event loop hands over up to 256 KiB at a time, and uvloop does that up to 32 times in a row for one connection.
Each read can have tens of thousands of chunks, events or frames, which take seconds, and all other clients wait
meanwhile. So long reads are taken in portions.
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

PORTION = 16 * 1024
"""Bytes. Smaller reads are taken at once: that is all there is in almost every response."""
FIRST_PORTION = 2 * 1024
"""Bytes of the first portion of a long read. It doubles as long as portions take little time."""
PORTION_SECONDS = 0.002
"""How long a connection may go on before the others have their turn."""
LITTLE_TIME = PORTION_SECONDS / 10


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


def take_portions(
    data: bytes, take: Callable[[bytes], None], goes_on: Callable[[], bool], size: int = PORTION
) -> bytes:
    """Call `take` with portions of some bytes until the time is over or `goes_on` returns False. Return the rest."""
    start, portion, began = 0, min(FIRST_PORTION, size), monotonic()
    until = began + PORTION_SECONDS
    while start < len(data):
        take(data[start : start + portion])
        start += portion
        now = monotonic()
        if now > until or not goes_on():
            return data[start:]
        if now - began < LITTLE_TIME:
            portion = min(2 * portion, size)
        began = now
    return b""
