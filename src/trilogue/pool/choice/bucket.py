"""A token bucket for limits per minute: it starts full and fills steadily."""

from __future__ import annotations

ROUNDING = 1e-9


class Bucket:
    """What is left of a limit. `rate`: per minute. Goes below 0 when a use turns out larger than was estimated."""

    __slots__ = ("_at", "_level", "_per_second", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._per_second = rate / 60.0
        self._level = rate
        self._at = 0.0

    def level(self, now: float) -> float:
        """Return how much may be used now."""
        if now > self._at:
            self._level = min(self.rate, self._level + (now - self._at) * self._per_second)
            self._at = now
        return self._level

    def has(self, now: float, amount: float) -> bool:
        """Return whether this much may be used now. For more than the bucket can hold, a full one is enough."""
        return self.level(now) >= min(amount, self.rate) - ROUNDING

    def take(self, now: float, amount: float) -> None:
        """Use an amount, or give it back if it is negative."""
        self._level = min(self.rate, self.level(now) - amount)

    def ready_at(self, now: float, amount: float) -> float:
        """Return when this much may be used."""
        missing = min(amount, self.rate) - self.level(now)
        return now if missing <= 0 else now + missing / self._per_second
