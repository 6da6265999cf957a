"""Clocks of one streamed call: signs of life for the client, and limits for an upstream that makes no progress.

One task per call, none per event: it wakes at the interval and looks at what happened since.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class Heart:
    """Calls `beat` whenever nothing was written to the client for `interval` seconds."""

    def __init__(self, interval: float, last_write: Callable[[], float], beat: Callable[[], Awaitable[None]]) -> None:
        self._interval = interval
        self._last_write = last_write
        self._beat = beat

    async def run(self) -> None:
        """Until it is cancelled."""
        due = time.monotonic() + self._interval
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due = self._last_write() + self._interval
            if time.monotonic() >= due:
                await self._beat()
                due = time.monotonic() + self._interval
