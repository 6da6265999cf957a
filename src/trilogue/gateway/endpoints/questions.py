"""Requests that the gateway makes for a policy: like those of a client, with a record of their own, and no client.

They go through routes, pools, retries and translation as any request does, and count as requests of the client key that
caused them. What the policy gets is the text of the response. Its limits are in docs/policies.md, section judge.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count

from msgspec.structs import replace

from trilogue.base.json_text import dump, parse_upstream
from trilogue.errors import UpstreamError
from trilogue.gateway.access.client_keys import ClientKey
from trilogue.gateway.access.settings import KeyOptions
from trilogue.gateway.policies.run import AnswerQuestion
from trilogue.gateway.record import INTERNAL, RequestRecord
from trilogue.gateway.request.boundary import CLIENT_CLOSED, begin, report
from trilogue.gateway.request.call import ModelCall, ReadBody
from trilogue.gateway.request.request import Cancellation, RequestContext
from trilogue.gateway.response.attempts import new_call
from trilogue.model import Ledger, Request, Role, Sampling, Text, Turn
from trilogue.net.server.request import Head, HttpRequest
from trilogue.net.server.responder import Headers, Responder
from trilogue.policies import Answer, Pending
from trilogue.policies.checks import PolicyProblem
from trilogue.policies.shipped.judge import JudgeQuestion
from trilogue.protocols.codec import Target
from trilogue.protocols.registry import CODECS, DEFAULT
from trilogue.vendors.profile import UNCHANGED

Respond = Callable[[RequestContext, ModelCall], Awaitable[None]]
"""responds to a request that was read, as an endpoint does"""


class _NoClient:
    """The connection of a request that has no client. What is written to it is gone."""

    keep_alive = True
    paused = False
    peer = ""

    def __init__(self) -> None:
        self.on_flow: Callable[[bool], None] = _ignore

    def put(self, data: bytes) -> None:
        """Ignore bytes."""

    def response_ended(self) -> None:
        """Do nothing: there is no next request."""

    async def drained(self) -> None:
        """Return at once."""


def _ignore(paused: bool) -> None:
    """Do nothing: nobody reads slowly."""


class InternalResponder(Responder):
    """Keeps the body of a whole response. Observers see it as they see others."""

    __slots__ = ("body",)

    def __init__(self) -> None:
        super().__init__(_NoClient(), chunked=False, bodiless=False)
        self.body = b""

    def reply(self, status: int, headers: Headers, body: bytes) -> None:
        """Keep the body."""
        self.body = body
        super().reply(status, headers, body)


async def ask_model(origin: RequestContext, question: JudgeQuestion, request_id: str, respond: Respond) -> object:
    """Ask a model for a policy of another request. Return an `Answer` with its text, or a `PolicyProblem` without any.

    If the policy stops waiting, or the client disconnects, the caller's task is cancelled, and the upstream with it.
    """
    responder = InternalResponder()
    context = _context(origin, responder, request_id)
    record, observers, body = context.record, context.entry.gateway.observers, _body(question)
    begin(context, observers)
    if context.byte_observers is not None and context.byte_observers.inbound_request is not None:
        context.byte_observers.inbound_request(body)
    context.running[context] = None
    try:
        await respond(context, new_call(context, ReadBody(body, question.model, False), None))
    except BaseException as error:  # the request boundary: whatever it is, the policy gets to know
        if not report(context, error):
            record.error = "cancelled"
            raise
    finally:
        del context.running[context]
        record.status, record.ended_at = responder.status or CLIENT_CLOSED, time.monotonic()
        if record.losses and not record.loss_codes:
            record.declare(record.losses)
        if observers.request_settled is not None and not record.settled:
            observers.request_settled(record)
        if observers.request_ended is not None:
            observers.request_ended(record)
    return _answer(record, responder)


def _answer(record: RequestRecord, responder: InternalResponder) -> object:
    failure = record.failure
    if failure is not None or responder.status != 200:
        kind = "no response" if failure is None else failure.kind.value
        return PolicyProblem(f"{record.request_id} failed with status {responder.status}, {kind}")
    try:
        response = CODECS[DEFAULT].decode_response(parse_upstream(responder.body, whole=True))
    except UpstreamError:
        return PolicyProblem(f"{record.request_id} got no response that can be read")
    text = "".join([block.text for block in response.blocks if isinstance(block, Text)])
    return Answer(text, record.usage)


def _body(question: JudgeQuestion) -> bytes:
    turn = Turn(role=Role.USER, blocks=(Text(text=question.prompt),), plain=True)
    request = Request(
        protocol=DEFAULT,
        model=question.model,
        turns=(turn,),
        sampling=Sampling(max_tokens=question.max_tokens),
    )
    target = Target(protocol=DEFAULT, model=question.model, profile=UNCHANGED)
    return dump(CODECS[DEFAULT].encode_request(request, target, Ledger()))


def _unrestricted(key: ClientKey) -> ClientKey:
    """Return a key that may use every model, and counts as this one."""
    given = key.options
    options = KeyOptions(policies=given.policies, owner=given.owner, limits=given.limits, budget=given.budget)
    return replace(key, mode=None, options=options, restricted=options.restricts)


def _context(origin: RequestContext, responder: Responder, request_id: str) -> RequestContext:
    """Return a request without a client, for the current task."""
    entry, path, task = origin.entry, CODECS[DEFAULT].endpoint.path, asyncio.current_task()
    request = HttpRequest(Head("POST", path, b"", {}), b"")
    request.task = origin.request.task if task is None else task
    record = RequestRecord(
        request_id=request_id,
        began_at=responder.since,
        client=DEFAULT.short,
        path=f"{path}{INTERNAL}",
        key=origin.record.key,
        owner=origin.record.owner,
        parent=origin.request_id,
    )
    own = replace(
        entry,
        client=DEFAULT,
        path=path,
        shown=record.path,
        head=None,
        continues=False,
        # What the key may use and how often is about what its clients ask for, and they have not asked for this.
        key=None if entry.key is None else _unrestricted(entry.key),
        mode="declare",
        loss_comment=False,
        common=b"",
        forwarded=entry.hop,
        query=b"",
        connection=None,
    )
    return RequestContext(
        request=request,
        responder=responder,
        entry=own,
        record=record,
        cancellation=Cancellation(request.task),
        request_id=request_id,
        running=origin.running,
    )


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
