"""The attempts at one call: whom to ask, with what, and what comes of it. The pool decides; here it is done.

One attempt: translate for its target, send with its account through its proxy, relay. Until the client has got a part
of an answer a failure gives the next account or target its chance; then nobody else can answer any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from trilogue.errors import ClientError, UpstreamError, UpstreamFailure
from trilogue.gateway.beside import LARGE_BYTES, beside
from trilogue.gateway.call import Call
from trilogue.gateway.clocks import Clocks
from trilogue.gateway.lessons import read_lesson, remember
from trilogue.gateway.outbound import Outbound, Place, outbound, stripped
from trilogue.gateway.relay import Answered, Relay
from trilogue.gateway.services import Services
from trilogue.gateway.visit import Visit
from trilogue.model import Protocol
from trilogue.pool import Attempt, Journey, sticky_key
from trilogue.pool.classify import as_failure
from trilogue.routing import Upstream
from trilogue.state import steady_time

BYTES_PER_TOKEN = 4


async def first_that_answers(visit: Visit, relay: Relay, clocks: Clocks, targets: Sequence[Upstream]) -> None:
    """Ask one after the other. Raises what the client must hear if nobody answers."""
    services, call, large = visit.entry.services, relay.call, len(relay.call.body) > LARGE_BYTES
    sticky = await beside(_conversation, call, services, targets) if large else _conversation(call, services, targets)
    now = steady_time()
    journey = _begin(visit, call, targets, sticky, now)
    refusal: ClientError | None = None
    failed: UpstreamError | None = None
    try:
        while (step := journey.next(now)) is not None:
            if journey.wait:
                await asyncio.sleep(journey.wait)
            try:
                answered = await _attempt(visit, relay, clocks, step)
            except ClientError as error:
                refusal = error
                journey.refused(steady_time())
            except (UpstreamError, asyncio.CancelledError) as caught:
                failed = _upstream_error(caught, relay, clocks)
                if failed is None:
                    raise
                if await _learned(relay, journey, services, failed):
                    now = steady_time()
                    continue
                if not journey.failed(steady_time(), failed, committed=relay.spoken):
                    raise failed from None
            else:
                _note(journey, answered, call.client)
                return
            services.sync()
            now = steady_time()
        raise _nobody(journey, refusal, now)
    except BaseException:  # also a client that has left: whatever ends the journey, its account is free again
        journey.released(steady_time())
        raise
    finally:
        # What is raised holds this frame: if the frame held it too, the request would stay until someone looks for it.
        refusal = failed = None
        if services.pools.changes:
            services.sync()
        visit.record.decision = journey.decision


def _begin(visit: Visit, call: Call, targets: Sequence[Upstream], sticky: str, now: float) -> Journey:
    services = visit.entry.services
    services.sync(now)
    return services.pools.begin(now, visit.request_id, targets, sticky=sticky, tokens=len(call.body) // BYTES_PER_TOKEN)


def _conversation(call: Call, services: Services, targets: Sequence[Upstream]) -> str:
    """The key of the conversation, where there is more than one account that it could belong to."""
    for target in targets:
        if len(services.pools.pools[target.provider].accounts) > 1:
            return sticky_key(call.body, call.client, call.headers)
    return ""


def _nobody(journey: Journey, refusal: ClientError | None, now: float) -> ClientError | UpstreamFailure:
    """Why there is no answer."""
    if refusal is not None and journey.failure is None:
        # Nobody was asked at all: the request cannot be said to any of the targets.
        journey.decision.outcome = "client"
        return refusal
    return UpstreamFailure(journey.ending(now))


def _note(journey: Journey, answered: Answered, client: Protocol) -> None:
    """The client has its answer. One that broke off is still a failure of whom it came from."""
    if answered.failure is not None:
        journey.failed(steady_time(), answered.failure, committed=True)
    else:
        # Only Responses can be continued by their id.
        response_id = answered.response_id if client is Protocol.RESPONSES else ""
        journey.finished(steady_time(), answered.usage, response_id)


def _upstream_error(
    caught: UpstreamError | asyncio.CancelledError, relay: Relay, clocks: Clocks
) -> UpstreamError | None:
    """What the attempt failed with. A clock that ran out on it is a failure like any other; None: it was none."""
    if isinstance(caught, UpstreamFailure):
        return relay.censored(caught)
    if isinstance(caught, UpstreamError):
        return caught
    return clocks.taken(caught)


async def _learned(relay: Relay, journey: Journey, services: Services, error: UpstreamError) -> bool:
    """Whether the attempt failed for a parameter that can be left out: then the next one is the same without it."""
    attempt, step = relay.attempt, journey.decision.attempts[-1]
    if relay.spoken or journey.adjusted or attempt is None or not attempt.adjustable:
        return False
    failure, body = as_failure(error), attempt.request.body
    if len(body) > LARGE_BYTES:
        remedies = await beside(read_lesson, failure, body, relay.call.strict)
    else:
        remedies = read_lesson(failure, body, relay.call.strict)
    if not remedies:
        return False
    relay.remedies = remedies
    remember(services.pools.pools[step.provider], step.model, remedies)
    journey.adjust(steady_time(), failure.status)
    return True


async def _attempt(visit: Visit, relay: Relay, clocks: Clocks, step: Attempt) -> Answered:
    services, record = visit.entry.services, visit.record
    provider = services.providers[step.provider]
    account = provider.accounts[step.account]
    record.provider, record.account = provider.name, account.name
    record.upstream_model = step.model
    known = services.pools.pools[step.provider].lessons.of(step.model)
    remedies = (*known, *relay.remedies) if relay.remedies else known
    call, place = relay.call, Place(provider, account, step.model, remedies)
    if len(call.body) > LARGE_BYTES:
        attempt = await beside(_prepared, call, place, services, step.strip)
    else:
        attempt = _prepared(call, place, services, step.strip)
    record.upstream = attempt.protocol.short
    relay.attempt = attempt
    relay.request_losses = attempt.losses
    relay.blank = account.blank
    clocks.limit(provider.clocks.total)
    response = await account.ways[step.proxy or 0].send(attempt.request)
    if call.stream and response.status < 300:
        relay.progress = clocks.streaming(provider.clocks.first_event, provider.clocks.between_events)
    try:
        return await relay.answer(response, attempt.protocol, attempt)
    finally:
        if call.stream:
            clocks.attempted()
        if not response.complete:
            await response.aclose()


def _prepared(call: Call, place: Place, services: Services, strip: bool) -> Outbound:
    """What goes to the upstream. `strip`: without the reasoning of earlier turns."""
    call, losses = stripped(call) if strip else (call, [])
    attempt = outbound(call, place, services)
    return replace(attempt, losses=[*losses, *attempt.losses]) if losses else attempt
