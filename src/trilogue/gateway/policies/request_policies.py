"""The policies of one request: they judge the request once, and the response of each attempt.

An attempt that fails leaves nothing behind but its records: the next one is judged from the start, with what policies
have noted about the request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from trilogue.gateway.policies.driver import AnswerQuestion, HookThreads, answer
from trilogue.gateway.record import RequestRecord
from trilogue.model import Event, Request, Usage
from trilogue.policies import Context, Pending, Policy, PolicyRun, Record
from trilogue.policies.checks import PolicyProblem
from trilogue.policies.hooks import sees_responses
from trilogue.policies.records import MOST_RECORDS


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
