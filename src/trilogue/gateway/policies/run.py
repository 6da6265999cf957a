"""Drives a run of policies on the event loop: awaits hooks, calls blocking ones in threads, and has questions answered.

Whatever a policy does, only its own response waits for it, and not longer than its time limit. What it raises becomes a
record. A hook that goes on although it was cancelled, or that blocks a thread for good, is left to itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any

from msgspec.structs import replace

from trilogue.gateway.record import RequestRecord
from trilogue.model import Event, Request, Usage
from trilogue.policies import Context, Pending, Policy, PolicyRun, Record
from trilogue.policies.checks import PolicyProblem, imported
from trilogue.policies.hooks import sees_responses
from trilogue.policies.records import MOST_RECORDS

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
        """Return what a hook returns, or a `PolicyProblem` if it raises. One that runs goes on if this is cancelled."""
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


class RequestPolicies:
    """The policies that apply to one request, and their runs. `ask`: answers their questions."""

    def __init__(
        self,
        policies: Sequence[Policy],
        context: Context,
        record: RequestRecord,
        ask: AnswerQuestion,
        threads: HookThreads,
    ) -> None:
        self.policies = tuple(policies)
        self.context = context
        self._record = record
        self._ask = ask
        self._threads = threads
        self._of_request: list[PolicyRun] = []
        self._of_responses: list[PolicyRun] = []
        self.stopped: PolicyRun | None = None
        """the run in which a policy has stopped the request"""

    async def judge(self, request: Request, policies: Sequence[Policy]) -> Request | None:
        """Apply some of the policies to the request. Return it as it may go out, or None if one has stopped it."""
        run = PolicyRun(policies, self.context, clock=time.monotonic)
        self._of_request.append(run)
        run.begin(request)
        await self.settle(run)
        if run.request is None:
            self.stopped = run
        self._record.policies = self.records()
        return run.request

    @property
    def sees_responses(self) -> bool:
        """Whether any of the policies looks at responses, or wants to know how they end."""
        return any([sees_responses(policy) for policy in self.policies])

    def response_run(self) -> PolicyRun:
        """Return a new run for the response of an attempt. It takes the place of the one before."""
        if self._of_responses:
            self._of_responses[-1].abandon()
        context = replace(self.context, blocks=[], notes=dict(self.context.notes))
        run = PolicyRun(self.policies, context, clock=time.monotonic)
        self._of_responses.append(run)
        return run

    async def settle(self, run: PolicyRun) -> None:
        """Answer everything that a run waits for, where no events are needed."""
        while run.pending is not None:
            await self.answer(run)

    async def answer(self, run: PolicyRun) -> list[Event]:
        """Get what a run waits for, and return the events that may go on after that."""
        events = await answer(run, self._ask, self._threads)
        self._record.policies = self.records()
        return events

    def close(self) -> None:
        """End the runs, and put their records into the record of the request."""
        run = self.stopped or (self._of_responses[-1] if self._of_responses else self.response_run())
        if not run.done:
            run.close()
        self._record.policies = self.records()
        if run.pending is not None:
            # A policy takes note of the end. The client does not wait for it.
            _later(self._settle_end(run))
        else:
            self._ask = nobody

    async def _settle_end(self, run: PolicyRun) -> None:
        await self.settle(run)
        self._ask = nobody

    def records(self) -> list[Record]:
        """Return the decisions so far, in the order in which they were made."""
        return [record for run in self._runs() for record in run.records][:MOST_RECORDS]

    def spent(self) -> list[Usage]:
        """Return the usage of the questions that policies have asked."""
        return [usage for run in self._runs() for usage in run.spent]

    def _runs(self) -> list[PolicyRun]:
        return [*self._of_request, *self._of_responses]


async def nobody(pending: Pending) -> object:
    """Answer nothing, after the end.

    It takes the place of what answers, which knows the request. The request knows its policies through a struct that
    the garbage collector does not look into, so the two would keep each other in memory for good.
    """
    return PolicyProblem("the request has ended")


_LATER: set[asyncio.Task[None]] = set()
"""tasks that nobody waits for; the event loop itself keeps none of them alive"""


def _later(work: Coroutine[Any, Any, None]) -> None:
    """Let something end by itself. It has time limits of its own."""
    task = asyncio.get_running_loop().create_task(work)
    _LATER.add(task)
    task.add_done_callback(_LATER.discard)


def words_of(run: PolicyRun) -> str:
    """Return the words with which a policy has stopped a request."""
    return "" if run.stopped is None else run.stopped.words
