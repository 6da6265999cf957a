"""Work on large bodies, done in a thread.

Reading and translating some megabytes takes as long as hundreds of events of other streams. A thread still shares the
interpreter with the event loop, but the interpreter switches between them every few milliseconds, so streams go on. One
thread is enough: two would need as much time for both bodies, and twice the memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

from trilogue.base.json_text import LARGE_BYTES
from trilogue.gateway.log.guard import Guard

__all__ = ["LARGE_BYTES", "beside", "in_thread"]

Given = ParamSpec("Given")
Result = TypeVar("Result")

_threads = ThreadPoolExecutor(1, thread_name_prefix="large")
_guard = Guard()


async def in_thread(work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
    """Return what `work` returns, or raise what it raises. If the caller is cancelled, work that has begun goes on.

    Not with `run_in_executor`: its futures refer to each other, which keeps a large body until the garbage collector
    runs.
    """
    waiter: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    job = _threads.submit(work, *args, **kwargs)
    job.add_done_callback(partial(_done, asyncio.get_running_loop(), waiter))
    try:
        return await waiter
    finally:
        job.cancel()
        # Break the reference cycle: they hold what is raised, and that holds this frame.
        del job, waiter


def beside(part: str, work: Callable[[], None], size: int) -> None:
    """Do work that nobody waits for, in the thread if the body is large. What it raises is logged as a bug."""
    if size > LARGE_BYTES:
        _threads.submit(_guard.run, part, work)
    else:
        _guard.run(part, work)


def _done(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[Result], job: Future[Result]) -> None:
    """Pass the result on to the event loop. Called in the thread."""
    with suppress(RuntimeError):  # the event loop is closed
        loop.call_soon_threadsafe(_settle, waiter, job)


def _settle(waiter: asyncio.Future[Result], job: Future[Result]) -> None:
    if waiter.done():
        return  # the caller was cancelled
    error = job.exception()
    if error is None:
        waiter.set_result(job.result())
    else:
        waiter.set_exception(error)
