"""The attempts of one request: make the ones that the pool plans, one after the other, until the client has a response.

One attempt: translate the request for its target, send it with its account through its proxy, relay the response. As
long as the client has no part of a response, another account or target may be tried after a failure. Which one, and
whether at all, is decided in `pool`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from trilogue.errors import ClientError, UpstreamError, UpstreamFailure
from trilogue.gateway.request.call import Call
from trilogue.gateway.request.cancellation import CancelReason
from trilogue.gateway.request.context import RequestContext
from trilogue.gateway.request.failures import redacted
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.request.learning import read_lesson, remember
from trilogue.gateway.request.outbound import Place
from trilogue.gateway.response.attempt import RelayResult, UpstreamAttempt, prepare
from trilogue.gateway.response.client_response import ClientResponse
from trilogue.gateway.response.continuation import Continuation
from trilogue.gateway.response.streamed import StreamRelay
from trilogue.gateway.response.timing import TimeLimits
from trilogue.gateway.response.whole import relay_whole
from trilogue.gateway.setup.services import Services
from trilogue.model import Failure
from trilogue.pool import Attempt, AttemptPlan, sticky_key
from trilogue.pool.health.classify import REJECTED
from trilogue.protocols.content.tokens import BYTES_PER_TOKEN
from trilogue.protocols.failure.convert import failure_of
from trilogue.protocols.registry import CODECS
from trilogue.routing import Upstream
from trilogue.state import steady_time
from trilogue.state.responses import OriginAccount
from trilogue.translate.learning.remedies import Remedy


class RefusedParameters(Struct, frozen=True, gc=False):
    """Parameters that a provider has refused for a model, and what to send instead."""

    provider: str
    model: str
    remedies: tuple[Remedy, ...]

    def concerns(self, planned: Attempt) -> bool:
        """Return whether an attempt goes to the same provider and model."""
        return self.provider == planned.provider and self.model == planned.model


async def respond(
    context: RequestContext, client: ClientResponse, limits: TimeLimits, targets: Sequence[Upstream]
) -> None:
    """Make attempts until the client has a response. Raises the error for the client if there is none."""
    services, call, record = context.entry.services, client.call, context.record
    size = len(call.body)
    if size > LARGE_BYTES:
        sticky = await in_thread(_conversation, call, services, targets)
    else:
        sticky = _conversation(call, services, targets)
    now = steady_time()
    services.sync(now)
    if call.turn is not None and call.turn.origin is not None:
        targets = _preferring(call.turn.origin, services, targets, sticky, now)
    plan = services.pools.begin(now, context.request_id, targets, sticky=sticky, tokens=size // BYTES_PER_TOKEN)
    record.decision = plan.decision
    if services.observers.request_planned is not None:
        services.observers.request_planned(record)
    await RequestAttempts(context, services, client, call, limits, plan, size > LARGE_BYTES).run(now)


class RequestAttempts(Struct, eq=False):
    """The attempts of one request."""

    _context: RequestContext
    _services: Services
    _client: ClientResponse
    _call: Call
    _limits: TimeLimits
    _plan: AttemptPlan
    _large: bool
    """whether the request is so large that work on it is done in a thread"""
    _attempt: UpstreamAttempt | None = None
    """the latest attempt for which a request could be prepared"""
    _running: Attempt | None = None
    """the attempt that has not ended"""
    _refused: RefusedParameters | None = None
    """what an upstream has refused in this request"""

    async def run(self, now: float) -> None:
        """Make attempts until the client has a response. Raises the error for the client if there is none."""
        services, plan = self._services, self._plan
        refusal: ClientError | None = None
        failed: UpstreamError | None = None
        try:
            while (planned := plan.next(now) or await self._next_later(now)) is not None:
                if plan.wait:
                    await asyncio.sleep(plan.wait)
                try:
                    result = await self._make(planned)
                except ClientError as error:
                    refusal = error
                    plan.refused(steady_time())
                    self._notify_ended(None)
                except (UpstreamError, asyncio.CancelledError) as caught:
                    failed = self._upstream_error(caught)
                    if failed is None:
                        raise
                    if not await self._may_retry(failed):
                        raise failed from None
                else:
                    self._finish(planned, result)
                    return
                services.sync()
                now = steady_time()
            raise self._no_response(refusal)
        except BaseException:
            # Also if the client has disconnected: whatever ends the request must free its account.
            plan.released(steady_time())
            self._notify_ended(None)
            raise
        finally:
            # Break the reference cycle: a raised error holds this frame, and the frame would hold the error.
            refusal = failed = None
            if services.pools.changes:
                services.sync()

    async def _next_later(self, now: float) -> Attempt | None:
        """Return the next attempt after waiting for an account; None if waiting doesn't help."""
        planned: Attempt | None = None
        while planned is None and (pause := self._plan.pause(now)):
            await asyncio.sleep(pause)
            self._services.sync()
            now = steady_time()
            planned = self._plan.next(now)
        return planned

    async def _make(self, planned: Attempt) -> RelayResult:
        """Make one attempt. Raises ClientError if its target cannot express the request, UpstreamError if it fails."""
        services, call, record = self._services, self._call, self._context.record
        provider = services.providers[planned.provider]
        account = provider.accounts[planned.account]
        record.provider, record.account, record.upstream_model = provider.name, account.name, planned.model
        self._running = planned
        if services.observers.attempt_began is not None:
            services.observers.attempt_began(record, planned)
        remedies = services.pools.pools[planned.provider].lessons.of(planned.model)
        if self._refused is not None and self._refused.concerns(planned):
            remedies = (*remedies, *self._refused.remedies)
        place = Place(provider, account, planned.model, remedies)
        if self._large:
            outbound = await in_thread(prepare, call, place, services, planned.strip)
        else:
            outbound = prepare(call, place, services, planned.strip)
        record.upstream = outbound.protocol.short
        attempt = self._attempt = UpstreamAttempt(planned, place, outbound)
        self._client.begin_attempt(attempt)
        await attempt.send(self._limits, call.stream, self._context.byte_observers)
        try:
            return await self._relay(attempt)
        finally:
            if call.stream:
                self._limits.attempt_ended()
            if not attempt.response.complete:
                await attempt.response.aclose()

    async def _relay(self, attempt: UpstreamAttempt) -> RelayResult:
        """Relay the response of an attempt. Raises UpstreamError if it is none, or an error."""
        if attempt.response.status >= 300:
            await attempt.check()
        services, pauses, continuation = self._services, attempt.outbound.pauses, None
        if pauses is not None:
            most = services.config.server.max_continuations
            continuation = Continuation(attempt, pauses, self._limits, most, self._context.byte_observers)
        if self._call.stream:
            return await StreamRelay(self._client, attempt, services, continuation).run()
        return await relay_whole(self._client, attempt, services, continuation)

    def _finish(self, planned: Attempt, result: RelayResult) -> None:
        """Report an attempt whose response the client has got. One that was cut off is still a failed attempt."""
        if result.failure is not None:
            self._plan.failed(steady_time(), result.failure, committed=True)
        else:
            response_id = result.response_id if CODECS[self._call.client].endpoint.continues else ""
            self._plan.finished(steady_time(), result.usage, response_id)
            if self._refused is not None and self._refused.concerns(planned):
                # The upstream has responded without these parameters, so it was right to leave them out.
                remember(self._services.pools.pools[planned.provider], planned.model, self._refused.remedies)
        if self._services.observers.attempt_ended is not None:
            self._notify_ended(result.failure)

    def _notify_ended(self, failure: Failure | None) -> None:
        """Notify observers of the end of the attempt, if one is running."""
        planned, self._running = self._running, None
        notify = self._services.observers.attempt_ended
        if notify is not None and planned is not None:
            notify(self._context.record, planned, failure)

    def _upstream_error(self, caught: UpstreamError | asyncio.CancelledError) -> UpstreamError | None:
        """Return the error of the attempt, without secrets. None if the whole request was cancelled."""
        if isinstance(caught, asyncio.CancelledError):
            cancellation = self._context.cancellation
            return cancellation.clear() if cancellation.reason is CancelReason.ATTEMPT_TIMED_OUT else None
        if isinstance(caught, UpstreamFailure) and self._attempt is not None:
            return redacted(caught, self._attempt.redactor)
        return caught

    async def _may_retry(self, error: UpstreamError) -> bool:
        """Report a failed attempt. Return whether another one may follow."""
        plan, failure = self._plan, failure_of(error)
        if await self._adjusts(failure):
            plan.adjust(steady_time(), failure.status)
            may_retry = True
        else:
            may_retry = plan.failed(steady_time(), error, committed=self._client.is_final)
            if may_retry and plan.strips:
                self._remember_reasoning(failure)
        self._notify_ended(failure)
        return may_retry

    async def _adjusts(self, failure: Failure) -> bool:
        """Return whether a parameter was refused that the next attempt, with the same account, can leave out."""
        attempt = self._attempt
        if self._client.is_final or self._plan.adjusted or attempt is None or not attempt.outbound.adjustable:
            return False
        body = attempt.outbound.request.body
        if len(body) > LARGE_BYTES:
            remedies = await in_thread(read_lesson, failure, body, self._call)
        else:
            remedies = read_lesson(failure, body, self._call)
        if not remedies:
            return False
        self._refused = RefusedParameters(attempt.planned.provider, attempt.planned.model, remedies)
        return True

    def _remember_reasoning(self, failure: Failure) -> None:
        """Remember reasoning that an account cannot verify. Reasoning that it lacks is nothing to remember."""
        planned = self._plan.decision.attempts[-1]
        if planned.why == REJECTED:
            call, refused = self._call, self._services.refused_reasoning
            refused.learn(planned.provider, planned.account, call.whole, call.client, failure)
            if call.memory is not None:
                refused.learn_kept(planned.provider, planned.account, call.memory.found)

    def _no_response(self, refusal: ClientError | None) -> ClientError | UpstreamFailure:
        """Return the error for the client when there is no next attempt."""
        plan = self._plan
        if refusal is not None and plan.failure is None:
            # Nothing was sent: no target can express the request.
            plan.decision.outcome = "client"
            return refusal
        return UpstreamFailure(plan.ending(steady_time()))


def _conversation(call: Call, services: Services, targets: Sequence[Upstream]) -> str:
    """Return the key of the conversation; "" if every provider has only one account, so that it does not matter."""
    for target in targets:
        if len(services.pools.pools[target.provider].accounts) > 1:
            return sticky_key(call.body, call.client, call.headers)
    return ""


def _preferring(
    origin: OriginAccount, services: Services, targets: Sequence[Upstream], sticky: str, now: float
) -> Sequence[Upstream]:
    """Prefer the account that knows the response which a request continues. Return the targets in that order.

    The pool knows it by the conversation, but not after a restart on another machine, and not among providers.
    """
    pool = services.pools.pools.get(origin.provider)
    account = pool.account(origin.account) if pool is not None else None
    if pool is None or account is None:
        return targets
    if sticky and pool.settings.sticky:
        pool.bind(sticky, account, now)
    return sorted(targets, key=lambda target: target.provider != origin.provider)
