"""Connections that wait for their next exchange. The last to come goes first, so that the others can grow old.

One clock for all of them, which runs while any waits: nothing is set up or torn down per exchange.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import islice

from trilogue.upstream.connection import Connection
from trilogue.upstream.origin import Origin

AT_ONCE = 8
PAUSE_SECONDS = 0.02
"""To close a connection takes as long as a few events: a hundred at once would hold up every stream by milliseconds."""


class Idle:
    """`seconds`: how long one may wait. Servers close theirs after 5 to 75 s; we notice at once when they do.

    `per_origin`: how many may wait. Hundreds of streams at a time come and go at random, and to open a connection again
    takes longer than all the rest.
    """

    def __init__(self, seconds: float = 30, per_origin: int = 512) -> None:
        self._seconds = seconds
        self._per_origin = per_origin
        self._waiting: dict[Origin, dict[Connection, float]] = {}
        """since when each waits"""
        self._clock: asyncio.TimerHandle | None = None

    def take(self, origin: Origin) -> Connection | None:
        """A connection that can be used again."""
        waiting = self._waiting.get(origin)
        while waiting:
            connection, _ = waiting.popitem()
            transport = connection.transport
            if transport is not None and not transport.is_closing():
                return connection
        return None

    def put(self, origin: Origin, connection: Connection) -> None:
        """Keep it for later, or close it if enough are waiting."""
        waiting = self._waiting.get(origin)
        if waiting is None:
            waiting = self._waiting[origin] = {}
        if len(waiting) >= self._per_origin:
            connection.abort()
            return
        waiting[connection] = time.monotonic()
        if self._clock is None:
            self._clock = asyncio.get_running_loop().call_later(self._seconds / 4, self._sweep)

    def drop(self, origin: Origin, connection: Connection) -> None:
        """It is gone."""
        waiting = self._waiting.get(origin, {})
        waiting.pop(connection, None)
        if not waiting:
            self._waiting.pop(origin, None)

    def _sweep(self) -> None:
        """Close those that have waited long enough, a few at a time: answers are on their way meanwhile."""
        due = list(islice(self._old(time.monotonic() - self._seconds), AT_ONCE))
        for waiting, connection in due:
            del waiting[connection]
            connection.abort()
        pause = PAUSE_SECONDS if len(due) == AT_ONCE else self._seconds / 4
        some = any(self._waiting.values())
        self._clock = asyncio.get_running_loop().call_later(pause, self._sweep) if some else None

    def _old(self, oldest: float) -> Iterator[tuple[dict[Connection, float], Connection]]:
        """Those that have waited since then or longer; of each origin they come first."""
        for waiting in self._waiting.values():
            for connection, since in waiting.items():
                if since > oldest:
                    break
                yield waiting, connection
