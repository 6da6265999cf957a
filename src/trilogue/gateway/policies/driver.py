"""Drives a run of policies on the event loop: awaits hooks, calls blocking ones in threads, and has questions answered.

Whatever a policy does, only its own response waits for it, and not longer than its time limit. What it raises becomes a
record. A hook that goes on although it was cancelled, or that blocks a thread for good, is left to itself.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any

from trilogue.model import Event
from trilogue.policies import Pending, PolicyRun
from trilogue.policies.checks import PolicyProblem, imported

AnswerQuestion = Callable[[Pending], Awaitable[object]]
"""answers the question of a policy"""
Answerer = Callable[[Any, Pending, str], Awaitable[object]]
"""answers questions of one class: the question, what waits for it, and the id of the request"""

GRACE_SECONDS = 1.0
"""how long a hook that was cancelled may take to end"""
MOST_THREADS = 16
"""hooks of one policy that may block at the same time; others wait, and their time limit runs"""


class HookThreads:
    """Threads for hooks that block. Each policy has its own, so that one that hangs cannot keep others waiting."""

    def __init__(self) -> None:
        self._free: dict[str, asyncio.Semaphore] = defaultdict(partial(asyncio.Semaphore, MOST_THREADS))

    async def call(self, policy: str, work: Callable[[], object]) -> object:
        """Return what a hook returns, or a `PolicyProblem` if it raises. If this is cancelled, the hook goes on."""
        free = self._free[policy]
        await free.acquire()
        loop = asyncio.get_running_loop()
        result: asyncio.Future[object] = loop.create_future()

        def done(found: object) -> None:
            free.release()
            if not result.done():
                result.set_result(found)

        def run() -> None:
            found = imported(work)
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(done, found)

        # Daemons: a hook that never returns must not keep the process alive.
        Thread(target=run, name=f"policy {policy}", daemon=True).start()
        return await result


async def answer(run: PolicyRun, ask: AnswerQuestion, threads: HookThreads) -> list[Event]:
    """Get what a run waits for, within its time limit, and return the events that may go on after that."""
    pending = run.pending
    if pending is None:
        return []
    task = asyncio.get_running_loop().create_task(_answer(pending, ask, threads))
    try:
        await asyncio.wait({task}, timeout=pending.timeout)
    finally:
        if not task.done():
            _abandon(task)
    if not task.done():
        return run.expired()
    found = PolicyProblem("cancelled") if task.cancelled() else task.exception() or task.result()
    if isinstance(found, BaseException):
        return run.failed(type(found).__name__)
    return run.failed(found.what.partition(":")[0]) if isinstance(found, PolicyProblem) else run.resolve(found)


async def _answer(pending: Pending, ask: AnswerQuestion, threads: HookThreads) -> object:
    try:
        if pending.awaitable is not None:
            return await pending.awaitable
        if pending.work is not None:
            return await threads.call(pending.policy, pending.work)
        return await ask(pending)
    except SystemExit:
        # Otherwise the event loop would end with it.
        return PolicyProblem("SystemExit")


def _abandon(task: asyncio.Task[object]) -> None:
    """End a hook that takes too long. It is not awaited: it may ignore that it is cancelled."""
    task.cancel()
    task.add_done_callback(_forget)
    asyncio.get_running_loop().call_later(GRACE_SECONDS, _close, task)


def _close(task: asyncio.Task[object]) -> None:
    """End a hook that has ignored it. Otherwise the process would wait for it when it stops."""
    coroutine = task.get_coro()
    if not task.done() and isinstance(coroutine, Coroutine):
        with suppress(RuntimeError):  # it ignores this too
            coroutine.close()
        task.cancel()


def _forget(task: asyncio.Task[object]) -> None:
    """Take note of an exception that nobody waits for, which asyncio would log."""
    if not task.cancelled():
        task.exception()
