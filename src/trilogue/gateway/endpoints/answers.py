"""Answers to the questions of policies."""

from __future__ import annotations

from trilogue.gateway.policies.driver import Ask
from trilogue.gateway.request.context import RequestContext
from trilogue.policies import Pending


def answerer(context: RequestContext) -> Ask:
    """Return what answers the questions of a request's policies."""

    async def ask(pending: Pending) -> object:
        raise LookupError("nothing answers questions")

    return ask
