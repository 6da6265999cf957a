"""Egress proxies in rotation. One that failed is skipped for a while, for all accounts that share it."""

from __future__ import annotations

FIRST_COOLDOWN = 5.0
LONGEST_COOLDOWN = 300.0


class ProxyRing:
    """The proxies of an account or of a provider, known by their position."""

    __slots__ = ("_failures", "_next", "_until")

    def __init__(self, count: int) -> None:
        self._until = [0.0] * count
        self._failures = [0] * count
        self._next = 0

    def choose(self, now: float, tried: frozenset[int] | set[int] = frozenset()) -> int:
        """Return the next proxy that works; if none does, the one whose cooldown ends first."""
        count = len(self._until)
        order = [(self._next + step) % count for step in range(count)]
        fresh = [index for index in order if index not in tried] or order
        index = next((index for index in fresh if self._until[index] <= now), None)
        if index is None:
            index = min(fresh, key=self._until.__getitem__)
        self._next = (index + 1) % count
        return index

    def untried(self, now: float, tried: set[int]) -> bool:
        """Return whether there is another proxy that is not cooling down."""
        return any(until <= now and index not in tried for index, until in enumerate(self._until))

    def failed(self, index: int, now: float) -> None:
        """Start a cooldown, which doubles with every failure: it could not be reached, or did not let us through."""
        self._failures[index] += 1
        self._until[index] = now + min(FIRST_COOLDOWN * 2.0 ** (self._failures[index] - 1), LONGEST_COOLDOWN)

    def worked(self, index: int) -> None:
        """End the cooldown of a proxy that was used with success."""
        self._failures[index] = 0
        self._until[index] = 0.0
