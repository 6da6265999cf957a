"""Boundaries for what runs beside requests: a part that raises must not end the others, or the process.

A part that fails again and again is logged once, with a traceback, and once more when it works again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

log = structlog.get_logger("trilogue.server")


class Guard:
    """Runs parts of something that happens again and again. It knows which of them fail."""

    def __init__(self) -> None:
        self._failing: set[str] = set()

    def run(self, part: str, work: Callable[[], object]) -> None:
        """Run one part. An exception is logged and goes no further."""
        try:
            work()
        except Exception as error:  # the boundary: the other parts go on, and this one may work next time
            if self.begins_to_fail(part):
                log.error("bug", part=part, error=type(error).__name__, exc_info=True)
        else:
            self.worked(part)

    def begins_to_fail(self, part: str) -> bool:
        """Note that a part has failed. Return whether that has to be logged: it had worked before."""
        begins = part not in self._failing
        self._failing.add(part)
        return begins

    def worked(self, part: str) -> None:
        """Note that a part works, and say so if it had failed."""
        if part in self._failing:
            self._failing.discard(part)
            log.info("it works again", part=part)


async def close_all(*steps: tuple[str, Callable[[], Awaitable[object] | None]]) -> None:
    """Close everything in this order. What cannot be closed is logged, and the rest is closed all the same."""
    for part, close in steps:
        try:
            waiting = close()
            if waiting is not None:
                await waiting
        except Exception as error:  # the boundary: what comes next must be closed too
            log.error("bug", part=part, error=type(error).__name__, exc_info=True)
