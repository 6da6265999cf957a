"""The time that all processes of a machine share, and times that people write."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

STEADY_OFFSET = time.time() - time.monotonic()
"""From the monotonic clock to the wall clock, when this process started."""


def steady_time() -> float:
    """Return seconds since the epoch, without jumps if the system's clock is set while the process runs.

    It starts as the wall clock, because workers and restarts must mean the same by "until then".
    """
    return STEADY_OFFSET + time.monotonic()


_ENDS = re.compile(r"(\d{1,5})([dh])")
_UNITS = {"d": 86_400, "h": 3_600}


def is_time(text: str) -> bool:
    """Return whether a text is a date or a time that does not depend on now."""
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def parse_time(text: str, now: float) -> float:
    """Return a time in seconds since the epoch: an ISO date or time (UTC unless it says otherwise), or `30d`, `12h`.

    Raises ValueError.
    """
    found = _ENDS.fullmatch(text.strip())
    if found is not None:
        return now + int(found[1]) * _UNITS[found[2]]
    moment = datetime.fromisoformat(text.strip())
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
