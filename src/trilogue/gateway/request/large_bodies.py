"""Work on large bodies, done beside the event loop.

To read and translate some megabytes takes as long as hundreds of events of other streams. In a thread it still shares
the interpreter with them, which goes from one to the other every few milliseconds: nobody waits for all of it. One
thread is enough: two would take as long for both, and twice the memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

from trilogue.jsontext.text import LARGE_BYTES

__all__ = ["LARGE_BYTES", "beside"]

Given = ParamSpec("Given")
Result = TypeVar("Result")

_threads = ThreadPoolExecutor(1, thread_name_prefix="large")


async def beside(work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
    """What `work` returns or raises. Who stops waiting leaves it to its end; if it has not begun, it never does.

    Not by `run_in_executor`, whose futures hold each other, and with them a large body until someone looks for it.
    """
    waiter: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    job = _threads.submit(work, *args, **kwargs)
    job.add_done_callback(partial(_done, asyncio.get_running_loop(), waiter))
    try:
        return await waiter
    finally:
        job.cancel()
        del job, waiter  # they hold what is raised, which holds this frame


def _done(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[Result], job: Future[Result]) -> None:
    """In the thread: it has come to its end."""
    with suppress(RuntimeError):  # the event loop is closed: nobody waits
        loop.call_soon_threadsafe(_settle, waiter, job)


def _settle(waiter: asyncio.Future[Result], job: Future[Result]) -> None:
    if waiter.done():
        return  # nobody waits any more
    error = job.exception()
    if error is None:
        waiter.set_result(job.result())
    else:
        waiter.set_exception(error)
