"""Time in tests. A test waits for a fact (`eventually`), and lets time pass only where that is what it is about.

Limits of waiting are for failures: they are so long that no busy machine reaches them. A test that measures how long
something takes uses `check_within`: a busy machine may miss such a limit, but not three times in a row.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

TRIES = 3
PATIENCE = 30.0
"""seconds after which a fact that did not come about is a failure"""
_LOOK_SECONDS = 0.005


def eventually(fact: Callable[[], T], seconds: float = PATIENCE) -> T:
    """Wait until something is so, and return what was found."""
    deadline = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(_LOOK_SECONDS)
    return found


async def eventually_async(fact: Callable[[], T], seconds: float = PATIENCE) -> T:
    """Wait until something is so while the event loop goes on, and return what was found."""
    deadline = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(_LOOK_SECONDS)
    return found


async def settled(figure: Callable[[], T], seconds: float = 0.1) -> T:
    """Wait until a figure has stayed the same for some time, and return it."""
    last, since, deadline = figure(), time.monotonic(), time.monotonic() + PATIENCE
    while time.monotonic() - since < seconds:
        assert time.monotonic() < deadline, f"it does not settle: {last}"
        await asyncio.sleep(_LOOK_SECONDS)
        if (now := figure()) != last:
            last, since = now, time.monotonic()
    return last


async def turns(count: int = 1) -> None:
    """Let the other tasks of the event loop run, so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


def pass_time(seconds: float) -> None:
    """Let time pass, for a test that is about time: that something ends after it, or that nothing happens in it."""
    time.sleep(seconds)


async def pause_for(seconds: float) -> None:
    """Let time pass while the event loop goes on: the pace of an upstream or a client, or as for `pass_time`."""
    await asyncio.sleep(seconds)


class TooSlowError(AssertionError):
    """A time limit was missed, and everything else was right."""


def check_within(seconds: float, limit: float) -> None:
    """Fail if something took too long. The test is then tried again, at most three times in all."""
    if seconds >= limit:
        raise TooSlowError(f"{seconds:.3f} s, and the limit is {limit} s")


def check_is_early(fact: bool) -> None:
    """Fail if something ended before the test came to look at it. The test is then tried again, as above."""
    if not fact:
        raise TooSlowError("it was over before the test looked")


def with_tries(test: Callable[..., Any]) -> Callable[..., Any]:
    """Return the test so that it runs again if it only missed a time limit."""

    @functools.wraps(test)
    def tried(*args: Any, **kwargs: Any) -> Any:
        for _ in range(TRIES - 1):
            try:
                return test(*args, **kwargs)
            except TooSlowError:
                continue
        return test(*args, **kwargs)

    return tried
