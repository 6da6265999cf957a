"""How long something rests: growing delays with jitter, times that upstreams name, and their reset headers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from random import Random

from trilogue.pool.settings import PoolSettings

JITTER = 0.2
"""a fifth more or less, so that what failed together does not come back together"""
MOST_DOUBLINGS = 30

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_REMAINING = re.compile(r"(?:x|anthropic)-ratelimit-(?:remaining-(\w+)|([\w-]+)-remaining)")


def growing_delay(failures: int, settings: PoolSettings, rng: Random) -> float:
    """The rest after this many failures in a row (1 or more)."""
    doubled = settings.first_delay_seconds * 2.0 ** min(failures - 1, MOST_DOUBLINGS)
    return min(doubled, settings.max_delay_seconds) * rng.uniform(1 - JITTER, 1 + JITTER)


def named_delay(seconds: float, settings: PoolSettings) -> float:
    """A time that an upstream named, made sane: never negative, never for ever."""
    if not math.isfinite(seconds):
        return settings.max_cooling_seconds
    return min(max(seconds, 0.0), settings.max_cooling_seconds)


def reset_delay(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the limits that are used up are full again, from the rate-limit headers; None if they don't say.

    OpenAI's form: `x-ratelimit-remaining-tokens: 0`, `x-ratelimit-reset-tokens: 6m0.5s`. Anthropic's:
    `anthropic-ratelimit-tokens-remaining: 0`, `anthropic-ratelimit-tokens-reset:` a date. `now`: wall clock.
    """
    waits = []
    for name, value in headers.items():
        found = _REMAINING.fullmatch(name.lower())
        if found is None or value.strip() != "0":
            continue
        wait = _until(_reset_of(headers, found), now)
        if wait is not None:
            waits.append(wait)
    return max(waits, default=None)


def _reset_of(headers: Mapping[str, str], found: re.Match[str]) -> str:
    name = f"x-ratelimit-reset-{found[1]}" if found[1] else f"anthropic-ratelimit-{found[2]}-reset"
    return headers.get(name, "")


def _until(text: str, now: float) -> float | None:
    parts = _PART.findall(text)
    if parts and _PART.sub("", text).strip() == "":
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    try:
        seconds = float(text)
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if date.tzinfo is None else max(date.timestamp() - now, 0.0)
