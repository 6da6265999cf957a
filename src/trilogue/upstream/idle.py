"""Connections that wait for their next exchange. The last to come goes first, so that the others can grow old."""

from __future__ import annotations

import asyncio

from trilogue.upstream.connection import Connection
from trilogue.upstream.origin import Origin


class Idle:
    """`seconds`: how long one may wait. Servers close theirs after 5 to 75 s; we notice at once when they do."""

    def __init__(self, seconds: float = 30, per_origin: int = 64) -> None:
        self._seconds = seconds
        self._per_origin = per_origin
        self._waiting: dict[Origin, dict[Connection, asyncio.TimerHandle]] = {}

    def take(self, origin: Origin) -> Connection | None:
        """A connection that can be used again."""
        waiting = self._waiting.get(origin)
        while waiting:
            connection, clock = waiting.popitem()
            clock.cancel()
            if connection.usable:
                return connection
        return None

    def put(self, origin: Origin, connection: Connection) -> None:
        """Keep it for later, or close it if enough are waiting."""
        waiting = self._waiting.setdefault(origin, {})
        if len(waiting) >= self._per_origin:
            connection.abort()
            return
        waiting[connection] = asyncio.get_running_loop().call_later(self._seconds, connection.abort)

    def drop(self, origin: Origin, connection: Connection) -> None:
        """It is gone."""
        waiting = self._waiting.get(origin, {})
        clock = waiting.pop(connection, None)
        if clock is not None:
            clock.cancel()
        if not waiting:
            self._waiting.pop(origin, None)
