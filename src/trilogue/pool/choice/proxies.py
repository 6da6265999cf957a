"""Egress proxies in rotation: one that failed is skipped for a while, whoever used it."""

from __future__ import annotations

FIRST_REST = 5.0
LONGEST_REST = 300.0


class ProxyRing:
    """The proxies of an account or of a provider, known by their position."""

    __slots__ = ("_failures", "_next", "_until")

    def __init__(self, count: int) -> None:
        self._until = [0.0] * count
        self._failures = [0] * count
        self._next = 0

    def choose(self, now: float, tried: frozenset[int] | set[int] = frozenset()) -> int:
        """The next one that works; if none does, the one that has rested longest."""
        count = len(self._until)
        order = [(self._next + step) % count for step in range(count)]
        fresh = [index for index in order if index not in tried] or order
        index = next((index for index in fresh if self._until[index] <= now), None)
        if index is None:
            index = min(fresh, key=self._until.__getitem__)
        self._next = (index + 1) % count
        return index

    def untried(self, now: float, tried: set[int]) -> bool:
        """Whether there is another one worth a try."""
        return any(until <= now and index not in tried for index, until in enumerate(self._until))

    def failed(self, index: int, now: float) -> None:
        """It could not be reached, or would not let us through."""
        self._failures[index] += 1
        self._until[index] = now + min(FIRST_REST * 2.0 ** (self._failures[index] - 1), LONGEST_REST)

    def worked(self, index: int) -> None:
        """Something came through it."""
        self._failures[index] = 0
        self._until[index] = 0.0
