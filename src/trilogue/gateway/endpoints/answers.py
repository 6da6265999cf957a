"""Answers to the questions of policies: a model is asked through the gateway itself, a person through the interface.

A request that was made for a policy gets no answers, so that no question leads to another one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from trilogue.gateway.endpoints.questions import Respond, ask_model
from trilogue.gateway.policies.driver import Ask
from trilogue.gateway.request.request import RequestContext
from trilogue.policies import Pending
from trilogue.policies.checks import Trouble
from trilogue.policies.shipped.approve import ApprovalQuestion
from trilogue.policies.shipped.judge import JudgeQuestion


def answerer(context: RequestContext, respond: Respond) -> Ask:
    """Return what answers the questions of a request's policies. `respond`: handles the requests that this takes."""
    numbers = count(1)

    async def ask_judge(pending: Pending, question: JudgeQuestion) -> object:
        return await ask_model(context, question, f"{context.request_id}-{next(numbers)}", respond)

    async def ask_person(pending: Pending, question: ApprovalQuestion) -> object:
        approvals = context.entry.services.approvals
        return await approvals.ask(question, pending, context.request_id)

    handlers: dict[type, Callable[[Pending, Any], Awaitable[object]]] = {
        JudgeQuestion: ask_judge,
        ApprovalQuestion: ask_person,
    }

    async def ask(pending: Pending) -> object:
        handler = handlers.get(type(pending.question))
        if handler is None:
            return Trouble("nothing answers such a question")
        if context.record.parent:
            return Trouble("a request of a policy may not ask further questions")
        return await handler(pending, pending.question)

    return ask
