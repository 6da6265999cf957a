"""The time that pools and stores use: the wall clock, but steady within a process.

Workers and restarts must mean the same by "until then", so it starts as the wall clock. When somebody sets that clock
while a process runs, nothing here jumps.
"""

from __future__ import annotations

import time

_OFFSET = time.time() - time.monotonic()


def steady_time() -> float:
    """Return seconds since the epoch."""
    return _OFFSET + time.monotonic()
