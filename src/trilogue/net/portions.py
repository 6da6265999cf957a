"""Bytes of a fast peer in portions, so that one connection does not keep the event loop busy.

An event loop hands over up to 256 KiB at a time, and uvloop does that up to 32 times in a row for one connection. Each
read can have tens of thousands of chunks, events or frames, which take seconds, and all other clients wait meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

PORTION = 16 * 1024
"""Bytes. Smaller reads are taken at once: that is all there is in almost every response."""
FIRST_PORTION = 2 * 1024
"""Bytes of the first portion of a long read. It doubles as long as portions take little time."""
SECONDS = 0.002
"""How long a connection may go on before the others have their turn."""
LITTLE_TIME = SECONDS / 10


def take_portions(
    data: bytes, take: Callable[[bytes], None], goes_on: Callable[[], bool], size: int = PORTION
) -> bytes:
    """Call `take` with portions of some bytes until the time is over or `goes_on` returns False. Return the rest."""
    start, portion, began = 0, min(FIRST_PORTION, size), monotonic()
    until = began + SECONDS
    while start < len(data):
        take(data[start : start + portion])
        start += portion
        now = monotonic()
        if now > until or not goes_on():
            return data[start:]
        if now - began < LITTLE_TIME:
            portion = min(2 * portion, size)
        began = now
    return b""
