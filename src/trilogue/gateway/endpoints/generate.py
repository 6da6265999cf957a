"""The three endpoints that answer with a model's words.

Route, then let the attempts begin, and watch the client and the clocks meanwhile.

The requests that are being answered, so that a shutdown can wait for them or tell them that it will not.
"""

from __future__ import annotations

import asyncio
from functools import partial

from trilogue.errors import UpstreamError, UpstreamFailure
from trilogue.gateway.log.lines import sane
from trilogue.gateway.request.call import Call, ReadBody, read_asked
from trilogue.gateway.request.context import GONE, RequestContext, read_large, targets_of
from trilogue.gateway.request.failures import client_failure
from trilogue.gateway.request.large_bodies import LARGE_BYTES
from trilogue.gateway.response.attempts import first_that_answers
from trilogue.gateway.response.relay import Relay
from trilogue.gateway.response.timing import LATE, KeepAlive, TimeLimits
from trilogue.protocols.failure.convert import own_failure
from trilogue.serving import ClientGone

DRAINING = "draining"


class ActiveRequests:
    """All running requests of one process, each with what it uses."""

    def __init__(self) -> None:
        self.tasks: dict[asyncio.Task[None], object] = {}
        """what uses what"""
        self.leaving = False
        """told to stop: not ready for more, though what comes is still answered"""
        self.draining = False
        """out of time: what still comes on open connections is refused"""

    def using(self, resource: object) -> bool:
        """Whether any running request still needs this."""
        return any(used is resource for used in self.tasks.values())

    def stop_all(self) -> None:
        """Out of time: every request still running is told to end with an error of its own, and no more are taken."""
        self.draining = True
        for task in list(self.tasks):
            task.cancel(DRAINING)


async def handle(visit: RequestContext) -> None:
    """One completion, streamed or not; watched meanwhile, and ended in the client's own words if it fails."""
    request, responder = visit.request, visit.responder
    body = await request.body(visit.entry.services.limits.max_body_bytes)
    if len(body) > LARGE_BYTES:
        asked = await read_large(visit, body)
    else:
        asked = read_asked(body, visit.entry.services.only_model, strict=visit.strict, head=visit.entry.head)
    call = _call(visit, asked)
    targets = visit.entry.services.resolved((call.model, call.client)) or await targets_of(visit, call.model)
    clocks = TimeLimits(request.task, responder)
    relay = Relay(call, responder, visit.record, visit.entry.services)
    visit.in_band = relay.fail_in_band
    request.on_gone = partial(request.task.cancel, GONE)
    heart = None
    if call.stream:
        heart = KeepAlive(visit.entry.services.limits.keepalive_seconds, relay.last_write, relay.keepalive)
    try:
        await first_that_answers(visit, relay, clocks, targets)
    except UpstreamError as error:
        _failed(visit, relay, error)
    except asyncio.CancelledError as cancelled:
        _cancelled(visit, relay, clocks, str(cancelled))
    finally:
        clocks.stop()
        if heart is not None:
            heart.stop()


def _call(visit: RequestContext, asked: ReadBody) -> Call:
    request, entry, record = visit.request, visit.entry, visit.record
    record.model, record.stream = sane(asked.model), asked.stream
    return Call(
        client=entry.client,
        body=asked.body,
        model=asked.model,
        stream=asked.stream,
        headers=request.headers,
        forwarded=entry.forwarded,
        hop=entry.hop,
        query=entry.query,
        strict=visit.strict,
        request_id=visit.request_id,
        key_name=record.key,
        losses=asked.losses,
    )


def _failed(visit: RequestContext, relay: Relay, error: UpstreamError) -> None:
    if visit.responder.started or relay.tells_in_band(error):
        relay.fail_in_band(error)
    else:
        visit.refuse(client_failure(error, visit.entry.client))


def _cancelled(visit: RequestContext, relay: Relay, clocks: TimeLimits, why: str) -> None:
    """Cancelled by one of our own: the client left, we are shutting down, or a clock ran out."""
    reasons = {DRAINING: UpstreamFailure(own_failure(503, "the gateway is shutting down", "unavailable"))}
    if why == GONE:
        clocks.task.uncancel()
        raise ClientGone
    error = clocks.error if why == LATE else reasons.get(why)
    if error is None:
        raise asyncio.CancelledError(why)
    clocks.task.uncancel()
    if not visit.responder.ended:
        _failed(visit, relay, error)
