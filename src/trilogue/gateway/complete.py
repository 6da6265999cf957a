"""The three endpoints that answer with a model's words.

Route, then for each target in order: translate, send, relay. A target that fails before anything is committed gives
the next one its chance; the last failure is the client's answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

from trilogue.errors import InternalError, UpstreamError, UpstreamFailure
from trilogue.gateway.call import Call, read_head
from trilogue.gateway.failures import failure_from, is_clients_fault, plain_failure
from trilogue.gateway.heart import Heart, Progress, Total
from trilogue.gateway.http import ClientGone
from trilogue.gateway.outbound import outbound
from trilogue.gateway.relay import Relay
from trilogue.gateway.running import DRAINING
from trilogue.gateway.visit import Visit
from trilogue.routing import Upstream
from trilogue.translate.responses import Stamp

GONE = "client gone"
LATE = "out of time"


async def handle(visit: Visit) -> None:
    """One completion, streamed or not."""
    call = await _read(visit)
    targets = await visit.services.resolve(call.model, call.client)
    stamp = Stamp(now=int(time.time()), seed=visit.request_id, request_id=visit.request_id)
    relay = Relay(call, visit.responder, visit.record, stamp, visit.services.limits)
    visit.in_band = relay.fail_in_band
    clocks = Clocks(visit)
    relay.progress = clocks.progress
    await _guarded(visit, relay, clocks, _first_that_answers(visit, relay, clocks, targets))


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
    )


class Clocks:
    """What a call may take. When a clock runs out the call is cancelled, and `error` says which one it was."""

    def __init__(self, visit: Visit) -> None:
        task = asyncio.current_task()
        if task is None:
            raise InternalError("not in a task")
        self.task = task
        self.error: UpstreamError | None = None
        self.total = Total(self._expired)
        self.progress = Progress(self._expired, lambda: visit.responder.busy)

    def stop(self) -> None:
        """The call is over."""
        self.total.stop()
        self.progress.stop()

    def _expired(self, error: UpstreamError) -> None:
        self.error = error
        self.task.cancel(LATE)


async def _first_that_answers(visit: Visit, relay: Relay, clocks: Clocks, targets: tuple[Upstream, ...]) -> None:
    for position, target in enumerate(targets, 1):
        try:
            await _attempt(visit, relay, clocks, target)
            return
        except UpstreamError as error:
            if visit.responder.started or position == len(targets) or is_clients_fault(error):
                raise


async def _attempt(visit: Visit, relay: Relay, clocks: Clocks, target: Upstream) -> None:
    provider = visit.services.providers[target.provider]
    account = provider.account()
    record = visit.record
    record.provider, record.account = provider.name, account.name
    record.upstream, record.upstream_model = provider.protocol.short, target.model
    attempt = outbound(relay.call, provider, account, target.model, visit.services)
    relay.request_losses = attempt.losses
    clocks.total.limit(provider.clocks.total)
    response = await provider.transport.send(attempt.request)
    if relay.call.stream:
        clocks.progress.answering(provider.clocks.first_event, provider.clocks.between_events)
    try:
        await relay.answer(response, provider.protocol, attempt)
    finally:
        clocks.progress.stop()
        await response.aclose()


async def _guarded(visit: Visit, relay: Relay, clocks: Clocks, work: Awaitable[None]) -> None:
    """Run the work while watching the client and the clocks; end it in the client's own words if it fails."""
    watchers = [asyncio.create_task(_watch_client(visit, clocks.task))]
    if relay.call.stream:
        heart = Heart(visit.services.limits.keepalive_seconds, relay.last_write, relay.keepalive)
        watchers.append(asyncio.create_task(heart.run()))
    try:
        await work
    except UpstreamError as error:
        await _failed(visit, relay, error)
    except asyncio.CancelledError as cancelled:
        await _cancelled(visit, relay, clocks, str(cancelled))
    finally:
        clocks.stop()
        for watcher in watchers:
            watcher.cancel()


async def _watch_client(visit: Visit, task: asyncio.Task[object]) -> None:
    await visit.request.gone()
    if not visit.responder.ended:
        task.cancel(GONE)


async def _failed(visit: Visit, relay: Relay, error: UpstreamError) -> None:
    if visit.responder.started:
        await relay.fail_in_band(error)
    else:
        await visit.refuse(failure_from(error, visit.client))


async def _cancelled(visit: Visit, relay: Relay, clocks: Clocks, why: str) -> None:
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
        await _failed(visit, relay, error)
