"""The three endpoints that answer with a model's words.

Route, then let the attempts begin, and watch the client and the clocks meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

from trilogue.errors import UpstreamError, UpstreamFailure
from trilogue.gateway.attempts import first_that_answers
from trilogue.gateway.call import Call, read_head
from trilogue.gateway.clocks import LATE, Clocks
from trilogue.gateway.failures import failure_from, plain_failure
from trilogue.gateway.heart import Heart
from trilogue.gateway.relay import Relay
from trilogue.gateway.running import DRAINING, current_task
from trilogue.gateway.visit import Visit
from trilogue.gateway.watch import GONE, targets_of
from trilogue.serving import ClientGone
from trilogue.translate.responses import Stamp


async def handle(visit: Visit) -> None:
    """One completion, streamed or not."""
    call = await _read(visit)
    targets = await targets_of(visit, call.model)
    stamp = Stamp(now=int(time.time()), seed=visit.request_id, request_id=visit.request_id)
    clocks = Clocks(visit.task or current_task(), visit.responder)
    relay = Relay(call, visit.responder, visit.record, stamp, visit.services.limits, clocks.progress)
    relay.items = visit.services.items
    visit.in_band = relay.fail_in_band
    await _guarded(visit, relay, clocks, first_that_answers(visit, relay, clocks, targets))


async def _read(visit: Visit) -> Call:
    body = await visit.request.body(visit.services.limits.max_body_bytes)
    model, stream = read_head(body)
    visit.record.model, visit.record.stream = model, stream
    return Call(
        client=visit.client,
        path=visit.path,
        body=body,
        model=model,
        stream=stream,
        headers=visit.request.headers,
        query=visit.request.query,
        strict=visit.strict,
        request_id=visit.request_id,
        key_name=visit.key.name if visit.key else "",
    )


async def _guarded(visit: Visit, relay: Relay, clocks: Clocks, work: Awaitable[None]) -> None:
    """Run the work while watching the client and the clocks; end it in the client's own words if it fails."""
    visit.request.on_gone = lambda: clocks.task.cancel(GONE)
    heart = None
    if relay.call.stream:
        heart = Heart(visit.services.limits.keepalive_seconds, relay.last_write, relay.keepalive)
    try:
        await work
    except UpstreamError as error:
        _failed(visit, relay, error)
    except asyncio.CancelledError as cancelled:
        _cancelled(visit, relay, clocks, str(cancelled))
    finally:
        clocks.stop()
        if heart is not None:
            heart.stop()


def _failed(visit: Visit, relay: Relay, error: UpstreamError) -> None:
    if visit.responder.started:
        relay.fail_in_band(error)
    else:
        visit.refuse(failure_from(error, visit.client))


def _cancelled(visit: Visit, relay: Relay, clocks: Clocks, why: str) -> None:
    """Cancelled by one of our own: the client left, we are shutting down, or a clock ran out."""
    reasons = {DRAINING: UpstreamFailure(plain_failure(503, "the gateway is shutting down", "unavailable"))}
    if why == GONE:
        clocks.task.uncancel()
        raise ClientGone
    error = clocks.error if why == LATE else reasons.get(why)
    if error is None:
        raise asyncio.CancelledError(why)
    clocks.task.uncancel()
    if not visit.responder.ended:
        _failed(visit, relay, error)
