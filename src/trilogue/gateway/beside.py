"""Work on large bodies, done beside the event loop.

To read and translate some megabytes takes as long as hundreds of events of other streams. In a thread it still shares
the interpreter with them, which goes from one to the other every few milliseconds: nobody waits for all of it. One
thread is enough: two would take as long for both, and twice the memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from trilogue.protocols.crowd import LARGE_BYTES

__all__ = ["LARGE_BYTES", "beside"]

Given = ParamSpec("Given")
Result = TypeVar("Result")

_threads = ThreadPoolExecutor(1, thread_name_prefix="large")


async def beside(work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
    """What `work` returns or raises. Who stops waiting leaves it to its end; if it has not begun, it never does."""
    return await asyncio.get_running_loop().run_in_executor(_threads, partial(work, *args, **kwargs))
