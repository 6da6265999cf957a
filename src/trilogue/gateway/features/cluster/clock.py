"""The common time of a cluster: that of its Redis server. Each machine measures how far its own clock is off.

    redis time = local time + offset

A measurement is off by at most half of its round trip, so that of the quickest one in the last minute counts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

KEEP_SECONDS = 60.0
JUMP_SECONDS = 1.0
"""A difference that no round trip explains: the server was replaced by one with another clock, or a clock was set."""


class Measurement(Struct, frozen=True):
    """One look at the server's clock. `at`: local time. `offset`, `round_trip`: in seconds."""

    at: float
    offset: float
    round_trip: float


class ClusterClock:
    """The common time, as this process knows it. `local`: the clock that offsets refer to."""

    def __init__(self, local: Callable[[], float] = time.time) -> None:
        self.local = local
        self.offset = 0.0
        """how far the server's clock is ahead of the local one"""
        self.round_trip = 0.0
        """seconds that the latest measurement took"""
        self._recent: deque[Measurement] = deque()

    def now(self) -> float:
        """Return the common time in seconds since the epoch."""
        return self.local() + self.offset

    def measured(self, asked: float, server_time: float, answered: float) -> None:
        """Note what the server's clock showed between two local times."""
        found = Measurement(answered, server_time - (asked + answered) / 2, answered - asked)
        self.round_trip = found.round_trip
        if self._recent and abs(found.offset - self.offset) > JUMP_SECONDS + found.round_trip:
            self._recent.clear()
        while self._recent and answered - self._recent[0].at > KEEP_SECONDS:
            self._recent.popleft()
        self._recent.append(found)
        self.offset = min(self._recent, key=lambda one: one.round_trip).offset


def seconds_of(reply: tuple[int, int]) -> float:
    """Return the reply of Redis' TIME as seconds since the epoch."""
    return reply[0] + reply[1] / 1_000_000
