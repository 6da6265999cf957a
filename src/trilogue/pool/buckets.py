"""A token bucket: so much per minute, filling steadily, full at the start."""

from __future__ import annotations


class Bucket:
    """`rate` per minute. Holds what is left; may go below nothing when a use turns out larger than estimated."""

    __slots__ = ("_at", "_level", "_per_second", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._per_second = rate / 60.0
        self._level = rate
        self._at = 0.0

    def level(self, now: float) -> float:
        """What may be used now."""
        if now > self._at:
            self._level = min(self.rate, self._level + (now - self._at) * self._per_second)
            self._at = now
        return self._level

    def has(self, now: float, amount: float) -> bool:
        """Whether so much may be used. More than the bucket can ever hold needs a full one."""
        return self.level(now) >= min(amount, self.rate) - 1e-9

    def take(self, now: float, amount: float) -> None:
        """Use it, or give it back (negative)."""
        self._level = min(self.rate, self.level(now) - amount)

    def ready_at(self, now: float, amount: float) -> float:
        """When so much may be used."""
        missing = min(amount, self.rate) - self.level(now)
        return now if missing <= 0 else now + missing / self._per_second
