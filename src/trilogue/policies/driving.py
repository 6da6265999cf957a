"""Drives a run from plain code, where every answer is at hand when it is asked for.

Programs with an event loop write the same loop with `await`; docs/policies.md has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from trilogue.errors import InternalError
from trilogue.model import Event, Request, Response
from trilogue.policies.checks import PolicyProblem, guarded
from trilogue.policies.run import PolicyRun
from trilogue.policies.verdicts import Pending

Answerer = Callable[[Pending], object]


def no_answers(pending: Pending) -> object:
    """Refuse every question. Blocking hooks are called."""
    if pending.work is not None:
        return pending.work()
    raise LookupError("nothing here answers questions")


def settle(run: PolicyRun, answer: Answerer = no_answers) -> list[Event]:
    """Answer everything that a run waits for, and return the events that may go on after that."""
    events: list[Event] = []
    while run.pending is not None:
        result = guarded(partial(answer, run.pending))
        events += run.failed(result.what) if isinstance(result, PolicyProblem) else run.resolve(result)
    return events


def judge_request(run: PolicyRun, request: Request, answer: Answerer = no_answers) -> Request | None:
    """Return the request as it may go out, or None if a policy stopped it; `run.stopped` has the words then."""
    run.begin(request)
    settle(run, answer)
    return run.request


def judge_events(run: PolicyRun, events: Iterable[Event], answer: Answerer = no_answers) -> list[Event]:
    """Return the events that may go on."""
    return [*run.feed(list(events)), *settle(run, answer)]


def judge_response(run: PolicyRun, response: Response, answer: Answerer = no_answers) -> Response:
    """Return a whole response as it may go on."""
    run.feed_response(response)
    settle(run, answer)
    if run.response is None:
        raise InternalError("the response did not come to an end")
    return run.response
