"""The time that pools go by: the wall clock, but steady within a process.

Workers and restarts must mean the same by "until then", so it starts as the wall clock; when someone sets that clock
while a process runs, nothing here jumps.
"""

from __future__ import annotations

import time

_OFFSET = time.time() - time.monotonic()


def steady_time() -> float:
    """Seconds since the epoch."""
    return _OFFSET + time.monotonic()
