"""The attempts at one call: whom to ask, with what, and what comes of it. The pool decides; here it is done.

One attempt: translate for its target, send with its account through its proxy, relay. Until the client has got a part
of an answer a failure gives the next account or target its chance; then nobody else can answer any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from trilogue.errors import ClientError, UpstreamError, UpstreamFailure
from trilogue.gateway.request.call import Call
from trilogue.gateway.request.context import RequestContext
from trilogue.gateway.request.failures import redacted
from trilogue.gateway.request.large_bodies import LARGE_BYTES, beside
from trilogue.gateway.request.learning import read_lesson, remember
from trilogue.gateway.request.outbound import Outbound, Place, outbound, stripped
from trilogue.gateway.response.relay import Answered, Refused, Relay
from trilogue.gateway.response.timing import TimeLimits
from trilogue.gateway.setup.services import Services
from trilogue.model import Failure, Loss, Protocol
from trilogue.pool import Attempt, AttemptPlan, sticky_key
from trilogue.pool.health.classify import REJECTED
from trilogue.protocols.content.tokens import BYTES_PER_TOKEN
from trilogue.protocols.failure.convert import failure_of
from trilogue.protocols.registry import CODECS
from trilogue.routing import Upstream
from trilogue.state import steady_time
from trilogue.translate.learning.remedies import Remedy


async def first_that_answers(
    visit: RequestContext, relay: Relay, clocks: TimeLimits, targets: Sequence[Upstream]
) -> None:
    """Ask one after the other. Raises what the client must hear if nobody answers."""
    services, call, large = visit.entry.services, relay.call, len(relay.call.body) > LARGE_BYTES
    sticky = await beside(_conversation, call, services, targets) if large else _conversation(call, services, targets)
    now = steady_time()
    journey = _begin(visit, call, targets, sticky, now)
    refusal: ClientError | None = None
    failed: UpstreamError | None = None
    try:
        while (step := journey.next(now) or await _waited(journey, services, now)) is not None:
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
                if not await _goes_on(relay, journey, services, failed):
                    raise failed from None
            else:
                _note(journey, answered, call.client)
                if relay.refused is not None and answered.failure is None:
                    _learned(relay, services, step)
                return
            services.sync()
            now = steady_time()
        raise _nobody(journey, refusal, steady_time())
    except BaseException:  # also a client that has left: whatever ends the journey, its account is free again
        journey.released(steady_time())
        raise
    finally:
        # What is raised holds this frame: if the frame held it too, the request would stay until someone looks for it.
        refusal = failed = None
        if services.pools.changes:
            services.sync()
        visit.record.decision = journey.decision


async def _goes_on(relay: Relay, journey: AttemptPlan, services: Services, error: UpstreamError) -> bool:
    """Tell the journey of a failed attempt, and return whether there may be another one."""
    if await _refused(relay, journey, error):
        return True
    if not journey.failed(steady_time(), error, committed=relay.spoken):
        return False
    if journey.strips:
        _reject(relay.call, journey.decision.attempts[-1], services, failure_of(error))
    return True


async def _waited(journey: AttemptPlan, services: Services, now: float) -> Attempt | None:
    """The next attempt, once an account is back; None if there is nobody to wait for either."""
    step: Attempt | None = None
    while step is None and (pause := journey.pause(now)):
        await asyncio.sleep(pause)
        services.sync()
        now = steady_time()
        step = journey.next(now)
    return step


def _begin(visit: RequestContext, call: Call, targets: Sequence[Upstream], sticky: str, now: float) -> AttemptPlan:
    services = visit.entry.services
    services.sync(now)
    return services.pools.begin(now, visit.request_id, targets, sticky=sticky, tokens=len(call.body) // BYTES_PER_TOKEN)


def _conversation(call: Call, services: Services, targets: Sequence[Upstream]) -> str:
    """The key of the conversation, where there is more than one account that it could belong to."""
    for target in targets:
        if len(services.pools.pools[target.provider].accounts) > 1:
            return sticky_key(call.body, call.client, call.headers)
    return ""


def _nobody(journey: AttemptPlan, refusal: ClientError | None, now: float) -> ClientError | UpstreamFailure:
    """Why there is no answer."""
    if refusal is not None and journey.failure is None:
        # Nobody was asked at all: the request cannot be said to any of the targets.
        journey.decision.outcome = "client"
        return refusal
    return UpstreamFailure(journey.ending(now))


def _note(journey: AttemptPlan, answered: Answered, client: Protocol) -> None:
    """The client has its answer. One that broke off is still a failure of whom it came from."""
    if answered.failure is not None:
        journey.failed(steady_time(), answered.failure, committed=True)
    else:
        response_id = answered.response_id if CODECS[client].endpoint.continues else ""
        journey.finished(steady_time(), answered.usage, response_id)


def _upstream_error(
    caught: UpstreamError | asyncio.CancelledError, relay: Relay, clocks: TimeLimits
) -> UpstreamError | None:
    """What the attempt failed with. A clock that ran out on it is a failure like any other; None: it was none."""
    if isinstance(caught, UpstreamFailure):
        return redacted(caught, relay.blank)
    if isinstance(caught, UpstreamError):
        return caught
    return clocks.taken(caught)


async def _refused(relay: Relay, journey: AttemptPlan, error: UpstreamError) -> bool:
    """Whether the attempt failed for a parameter that can be left out: then the next one is the same without it."""
    attempt, step = relay.attempt, journey.decision.attempts[-1]
    if relay.spoken or journey.adjusted or attempt is None or not attempt.adjustable:
        return False
    failure, body = failure_of(error), attempt.request.body
    if len(body) > LARGE_BYTES:
        remedies = await beside(read_lesson, failure, body, relay.call)
    else:
        remedies = read_lesson(failure, body, relay.call)
    if not remedies:
        return False
    relay.refused = Refused(step.provider, step.model, remedies)
    journey.adjust(steady_time(), failure.status)
    return True


def _learned(relay: Relay, services: Services, step: Attempt) -> None:
    """Remember what was left out, now that the upstream has answered without it."""
    refused = relay.refused
    if refused is not None and (refused.provider, refused.model) == (step.provider, step.model):
        remember(services.pools.pools[step.provider], step.model, refused.remedies)


def _reject(call: Call, step: Attempt, services: Services, failure: Failure) -> None:
    """Remember reasoning that an account cannot verify. Reasoning that it misses is nothing to remember."""
    if step.why == REJECTED:
        services.rejected.learn(step.provider, step.account, call.body, call.client, failure)


def _remedies(relay: Relay, services: Services, step: Attempt) -> tuple[Remedy, ...]:
    """What the target is known to refuse: from earlier requests, and from this one."""
    known, refused = services.pools.pools[step.provider].lessons.of(step.model), relay.refused
    if refused is not None and (refused.provider, refused.model) == (step.provider, step.model):
        return (*known, *refused.remedies)
    return known


async def _attempt(visit: RequestContext, relay: Relay, clocks: TimeLimits, step: Attempt) -> Answered:
    services, record = visit.entry.services, visit.record
    provider = services.providers[step.provider]
    account = provider.accounts[step.account]
    record.provider, record.account = provider.name, account.name
    record.upstream_model = step.model
    call, place = relay.call, Place(provider, account, step.model, _remedies(relay, services, step))
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
    losses: list[Loss] = []
    if strip:
        call, losses = stripped(call)
    elif services.rejected.known and not call.strict:
        rejected = services.rejected.within(place.provider.name, place.account.name, call.body)
        call, losses = stripped(call, rejected) if rejected else (call, losses)
    attempt = outbound(call, place, services)
    if not losses and not call.losses:
        return attempt
    return replace(attempt, losses=[*call.losses, *losses, *attempt.losses])
