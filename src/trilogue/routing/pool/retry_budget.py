"""The global retry budget: how much of the recent traffic may be retries.

Retries in the window ≤ max(floor, ratio * requests in the window). Floor and ratio are not added up: if all upstreams
fail, they get at most 1 + ratio times the requests, once there is any traffic.
"""

from __future__ import annotations

from trilogue.routing.pool.settings import RetryBudget

SLOTS = 60


class Budget:
    """A count of requests and retries in a sliding window of slots."""

    def __init__(self, settings: RetryBudget) -> None:
        self._settings = settings
        self._slot_seconds = settings.window_seconds / SLOTS
        self._requests = [0] * SLOTS
        self._retries = [0] * SLOTS
        self._slot = 0
        self._slot_ends = 0.0
        self.requests = 0
        """within the window"""
        self.retries = 0
        """within the window"""

    def request(self, now: float) -> None:
        """Count a client's request, which allows a part of a retry."""
        if now >= self._slot_ends:
            self._advance(now)
        self._requests[self._slot % SLOTS] += 1
        self.requests += 1

    def has_room(self, now: float) -> bool:
        """Return whether a retry is allowed now."""
        if now >= self._slot_ends:
            self._advance(now)
        return self.retries + 1 <= max(self._settings.floor, self._settings.ratio * self.requests)

    def take(self, now: float, *, forced: bool = False) -> bool:
        """Count a retry if it is allowed, and return whether it is. `forced`: allow it in any case."""
        if now >= self._slot_ends:
            self._advance(now)
        if not forced and not self.has_room(now):
            return False
        self._retries[self._slot % SLOTS] += 1
        self.retries += 1
        return True

    def _advance(self, now: float) -> None:
        slot = int(now / self._slot_seconds)
        if slot <= self._slot:
            return
        for passed in range(max(self._slot + 1, slot - SLOTS + 1), slot + 1):
            index = passed % SLOTS
            self.requests -= self._requests[index]
            self.retries -= self._retries[index]
            self._requests[index] = self._retries[index] = 0
        self._slot = slot
        self._slot_ends = (slot + 1) * self._slot_seconds
