"""How long a cooldown lasts: growing delays with jitter, and times that upstreams name.

What an upstream names is read in `protocols.failure.retry`.
"""

from __future__ import annotations

import math
from random import Random

from trilogue.pool.settings import PoolSettings

JITTER = 0.2
"""A fifth more or less, so that accounts that failed together don't come back together."""
MOST_DOUBLINGS = 30


def growing_delay(failures: int, settings: PoolSettings, rng: Random) -> float:
    """Return the cooldown after this many failures in a row (1 or more)."""
    doubled = settings.first_delay_seconds * 2.0 ** min(failures - 1, MOST_DOUBLINGS)
    return min(doubled, settings.max_delay_seconds) * rng.uniform(1 - JITTER, 1 + JITTER)


def named_delay(seconds: float, settings: PoolSettings) -> float:
    """Return the cooldown for a time that an upstream named: never negative, never longer than the configured limit."""
    if not math.isfinite(seconds):
        return settings.max_cooling_seconds
    return min(max(seconds, 0.0), settings.max_cooling_seconds)
