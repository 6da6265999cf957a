"""Answers to the questions of policies: a model is asked through the gateway itself, a person through the interface.

A request that was made for a policy gets no answers, so that no question leads to another one.
"""

from __future__ import annotations

from itertools import count

from trilogue.gateway.endpoints.questions import Respond, ask_model
from trilogue.gateway.policies.driver import AnswerQuestion
from trilogue.gateway.request.request import RequestContext
from trilogue.policies import Pending
from trilogue.policies.checks import PolicyProblem
from trilogue.policies.shipped.judge import JudgeQuestion


def answerer(context: RequestContext, respond: Respond) -> AnswerQuestion:
    """Return what answers the questions of a request's policies. `respond`: handles the requests that this takes."""
    numbers = count(1)

    async def ask_judge(pending: Pending, question: JudgeQuestion) -> object:
        return await ask_model(context, question, f"{context.request_id}-{next(numbers)}", respond)

    policies = context.entry.gateway.policies
    answerers = {} if policies is None else policies.answerers

    async def ask(pending: Pending) -> object:
        question = pending.question
        handler = answerers.get(type(question))
        if handler is None and not isinstance(question, JudgeQuestion):
            return PolicyProblem("nothing answers such a question")
        if context.record.parent:
            return PolicyProblem("a request of a policy may not ask further questions")
        if isinstance(question, JudgeQuestion):
            return await ask_judge(pending, question)
        return None if handler is None else await handler(question, pending, context.request_id)

    return ask
