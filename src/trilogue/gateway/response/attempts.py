"""The attempts of a request for a model's output, until the client has a response or an error.

`complete` watches the client and the time limits, `respond` plans, the loop makes one attempt after the other. One
attempt: translate the request for its target, send it with its account through its proxy, relay the response.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from trilogue.base.clock import STEADY_OFFSET, steady_time
from trilogue.base.text import sane
from trilogue.errors import BadRequest, ClientError, UpstreamError, UpstreamFailure
from trilogue.gateway.conversations.cache_sessions import LEAST_BYTES
from trilogue.gateway.conversations.store.types import StoredResponse
from trilogue.gateway.conversations.turn import StoredTurn
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.request.call import ModelCall, ReadBody
from trilogue.gateway.request.failures import client_failure, redacted
from trilogue.gateway.request.large_bodies import LARGE_BYTES, beside, in_thread
from trilogue.gateway.request.limits import count_request
from trilogue.gateway.request.outbound import Place, read_lesson, remember
from trilogue.gateway.request.request import CancelReason, RequestContext, cancelled_error
from trilogue.gateway.response.attempt import RelayResult, UpstreamAttempt, prepare
from trilogue.gateway.response.cache_use import note_cache_use
from trilogue.gateway.response.client_response import ClientResponse
from trilogue.gateway.response.continuation import Continuation
from trilogue.gateway.response.judged_stream import JudgedRelay
from trilogue.gateway.response.stream import StreamRelay
from trilogue.gateway.response.timing import KeepAlive, TimeLimits
from trilogue.gateway.response.tool_search import SearchContinuation, relay_searching
from trilogue.gateway.response.whole import relay_whole
from trilogue.model import Failure, Severity
from trilogue.protocols.endpoint import BYTES_PER_TOKEN
from trilogue.protocols.failure import failure_of
from trilogue.protocols.registry import CODECS
from trilogue.routing.pool.classify import REJECTED
from trilogue.routing.pool.conversation import session_key, sticky_key
from trilogue.routing.pool.decision import Attempt
from trilogue.routing.pool.plan import AttemptPlan
from trilogue.routing.router import ProviderModel
from trilogue.translate.learning.remedies import Remedy
from trilogue.upstreams.provider import UpstreamAccount, UpstreamProvider
from trilogue.upstreams.refused_reasoning import TranslatedReasoning

_STORED_OBJECTS = (b'"file_id"', b'"vector_store_ids"')
"""what a request has that refers to files which were uploaded before"""


class RefusedParameters(Struct, frozen=True, gc=False):
    """Parameters that a provider has refused for a model, and what to send instead."""

    provider: str
    model: str
    remedies: tuple[Remedy, ...]

    def concerns(self, planned: Attempt) -> bool:
        """Return whether an attempt goes to the same provider and model."""
        return self.provider == planned.provider and self.model == planned.model


async def respond(
    context: RequestContext, client: ClientResponse, limits: TimeLimits, targets: Sequence[ProviderModel]
) -> None:
    """Make attempts until the client has a response. Raises the error for the client if there is none."""
    gateway, call, record = context.entry.gateway, client.call, context.record
    size = len(call.body)
    if size > LARGE_BYTES:
        sticky = await in_thread(_conversation, call, gateway, targets)
    else:
        sticky = _conversation(call, gateway, targets)
    now = steady_time()
    gateway.upstreams.sync(now)
    if sticky and any(call.body.find(mark) >= 0 for mark in _STORED_OBJECTS):
        _prefer_home(gateway, targets, sticky, now)
    if sticky and call.turn is not None and call.turn.fields.previous_response_id:
        sticky = _known_conversation(call, call.turn, gateway, targets, sticky)
    if call.turn is not None and call.turn.previous is not None:
        targets = _preferring(call.turn.previous, gateway, targets, sticky, now)
    plan = gateway.upstreams.pools.begin(
        now, context.request_id, targets, sticky=sticky, tokens=size // BYTES_PER_TOKEN
    )
    record.decision, record.targets = plan.decision, targets
    if gateway.observers.request_planned is not None:
        gateway.observers.request_planned(record)
    attempts = RequestAttempts(context, gateway, limits, plan, client=client, large=size > LARGE_BYTES)
    await attempts.run(now)
    if size >= LEAST_BYTES or call.turn is not None:
        _note_cache_use(attempts, sticky)


class AttemptLoop(Struct, eq=False):
    """The attempts of one request. Subclasses make one in `make`."""

    context: RequestContext
    gateway: Gateway
    limits: TimeLimits
    plan: AttemptPlan
    attempt: UpstreamAttempt | None = None
    """the latest attempt for which a request could be prepared"""
    _running: Attempt | None = None
    """the attempt that has not ended"""
    _sent: bool = False
    """whether the latest attempt is among the uncertain ones of the record"""

    async def run(self, now: float) -> None:
        """Make attempts until the client has a response. Raises the error for the client if there is none."""
        gateway, plan = self.gateway, self.plan
        refusal: ClientError | None = None
        failed: UpstreamError | None = None
        try:
            while (planned := plan.next(now) or await self._next_later(now)) is not None:
                if plan.wait:
                    await asyncio.sleep(plan.wait)
                    # Not the time plus the wait: uvloop counts in whole milliseconds, and may wake up before its time.
                    planned.started = steady_time() - plan.decision.at
                try:
                    result = await self.make(planned)
                except ClientError as error:
                    refusal = error
                    plan.refused(steady_time())
                    self.notify_ended(None)
                except (UpstreamError, asyncio.CancelledError) as caught:
                    failed = self._upstream_error(caught)
                    if failed is None:
                        raise
                    self._note_cost(failed)
                    if not await self.may_retry(failed) or not await self._can_be_paid():
                        raise failed from None
                else:
                    self.finish(planned, result)
                    return
                gateway.upstreams.sync()
                now = steady_time()
            raise self._no_response(refusal)
        except BaseException:
            # Also if the client has disconnected: whatever ends the request must free its account.
            plan.released(steady_time())
            self.notify_ended(None)
            raise
        finally:
            # Break the reference cycle: a raised error holds this frame, and the frame would hold the error.
            refusal = failed = None
            if gateway.upstreams.pools.changes:
                gateway.upstreams.sync()

    async def make(self, planned: Attempt) -> RelayResult:
        """Make one attempt. Raises ClientError if its target cannot express the request, UpstreamError if it fails."""
        raise NotImplementedError

    async def send(self, attempt: UpstreamAttempt, stream: bool) -> None:
        """Send the request of an attempt, and wait for the headers of the response. Raises UpstreamError."""
        self.attempt, self._sent = attempt, True
        self.context.record.uncertain += 1
        try:
            await attempt.send(self.limits, stream, self.context.byte_observers)
        except BaseException:
            if attempt.unsent:
                self._costs_nothing()
            raise

    async def may_retry(self, error: UpstreamError) -> bool:
        """Report a failed attempt. Return whether another one may follow."""
        may_retry = self.plan.failed(steady_time(), error, committed=self.context.responder.started)
        self.notify_ended(failure_of(error))
        return may_retry

    def finish(self, planned: Attempt, result: RelayResult) -> None:
        """Report an attempt whose response the client has got. One that was cut off is still a failed attempt."""
        if result.failure is not None:
            self.plan.failed(steady_time(), result.failure, committed=True)
        else:
            self.plan.finished(steady_time(), result.usage, result.response_id)
        self.notify_ended(result.failure)

    def begin(self, planned: Attempt) -> tuple[UpstreamProvider, UpstreamAccount]:
        """Note for record and observers where the next attempt goes, and return that.

        Raises NoClientKey if the client would have to send a key for it.
        """
        gateway, record = self.gateway, self.context.record
        provider = gateway.upstreams.providers[planned.provider]
        account = provider.accounts[planned.account]
        record.provider, record.account, record.upstream_model = provider.name, account.name, planned.model
        self._running, self._sent = planned, False
        if gateway.observers.attempt_began is not None:
            gateway.observers.attempt_began(record, planned)
        record.own_key = provider.passes_client_key
        if record.own_key:
            entry = self.context.entry
            account = account.for_client(entry.client_key, entry.client)
        return provider, account

    def _note_cost(self, error: UpstreamError) -> None:
        """Note whether a failed attempt has cost nothing, because the upstream has refused the request."""
        attempt = self.attempt
        if not self._sent or attempt is None or attempt.continued or self.context.responder.started:
            return
        # An error of the upstream's own, also as the first event of a stream.
        if attempt.refused or (isinstance(error, UpstreamFailure) and failure_of(error).native is not None):
            self._costs_nothing()

    def _costs_nothing(self) -> None:
        self._sent = False
        self.context.record.uncertain -= 1

    async def _can_be_paid(self) -> bool:
        """Return whether the budgets have room for one more attempt, if earlier ones may have cost something."""
        reservation = self.context.reservation
        if reservation is None or not self.context.record.uncertain:
            return True
        return await self.gateway.limiter.extend(reservation, self.context.record.uncertain + 1)

    def notify_ended(self, failure: Failure | None) -> None:
        """Notify observers of the end of the attempt, if one is running."""
        planned, self._running = self._running, None
        notify = self.gateway.observers.attempt_ended
        if notify is not None and planned is not None:
            notify(self.context.record, planned, failure)

    async def _next_later(self, now: float) -> Attempt | None:
        """Return the next attempt after waiting for an account; None if waiting doesn't help."""
        planned: Attempt | None = None
        while planned is None and (pause := self.plan.pause(now)):
            await asyncio.sleep(pause)
            self.gateway.upstreams.sync()
            now = steady_time()
            planned = self.plan.next(now)
        return planned

    def _upstream_error(self, caught: UpstreamError | asyncio.CancelledError) -> UpstreamError | None:
        """Return the error of the attempt, without secrets. None if the whole request was cancelled."""
        if isinstance(caught, asyncio.CancelledError):
            cancellation = self.context.cancellation
            return cancellation.clear() if cancellation.reason is CancelReason.ATTEMPT_TIMED_OUT else None
        if isinstance(caught, UpstreamFailure) and self.attempt is not None:
            return redacted(caught, self.attempt.redactor)
        return caught

    def _no_response(self, refusal: ClientError | None) -> ClientError | UpstreamFailure:
        """Return the error for the client when there is no next attempt."""
        plan = self.plan
        if refusal is not None and plan.failure is None:
            # Nothing was sent: no target can express the request.
            plan.decision.outcome = "client"
            return refusal
        return UpstreamFailure(plan.ending(steady_time()))


class RequestAttempts(AttemptLoop, kw_only=True, eq=False):
    """The attempts of one request."""

    client: ClientResponse
    large: bool
    """whether the request is so large that work on it is done in a thread"""
    refused: RefusedParameters | None = None
    """what an upstream has refused in this request"""

    async def make(self, planned: Attempt) -> RelayResult:
        """Make one attempt. Raises ClientError if its target cannot express the request, UpstreamError if it fails."""
        gateway, call = self.gateway, self.client.call
        provider, account = self.begin(planned)
        remedies = gateway.upstreams.pools.pools[planned.provider].lessons.by_model.get(planned.model, ())
        if self.refused is not None and self.refused.concerns(planned):
            remedies = (*remedies, *self.refused.remedies)
        place = Place(provider, account, planned.model, remedies)
        if self.large:
            outbound = await in_thread(prepare, call, place, gateway, planned.strip)
        else:
            outbound = prepare(call, place, gateway, planned.strip)
        record = self.context.record
        record.upstream = planned.protocol = outbound.protocol.short
        record.losses = outbound.losses
        attempt = self.attempt = UpstreamAttempt(planned, place, outbound, call)
        self.client.begin_attempt(attempt)
        await self.send(attempt, call.stream)
        planned.first_byte = time.monotonic() + STEADY_OFFSET - self.plan.decision.at
        try:
            return await self._relay(attempt)
        finally:
            if call.stream:
                self.limits.attempt_ended()
            if not attempt.response.complete:
                await attempt.response.aclose()

    async def _relay(self, attempt: UpstreamAttempt) -> RelayResult:
        """Relay the response of an attempt. Raises UpstreamError if it is none, or an error."""
        if attempt.response.status >= 300:
            await attempt.check()
        gateway, pauses, exchange = self.gateway, attempt.outbound.pauses, attempt.outbound.exchange
        continuation: Continuation | None = None
        if exchange is not None and exchange.search is not None:
            return await self._relay_searching(attempt)
        if pauses is not None:
            most = gateway.settings.max_continuations
            continuation = Continuation(attempt, pauses, self.limits, most, self.context.byte_observers)
        call = self.client.call
        if call.stream and call.policies is not None and call.policies.sees_responses:
            return await JudgedRelay(self.client, attempt, gateway, call.policies, continuation).run()
        if call.stream:
            return await StreamRelay(self.client, attempt, gateway, continuation).run()
        return await relay_whole(self.client, attempt, gateway, continuation)

    async def _relay_searching(self, attempt: UpstreamAttempt) -> RelayResult:
        """Do the same for a response in which the gateway may search for tools."""
        gateway, call = self.gateway, self.client.call
        again = partial(attempt.prepare_again, gateway=gateway)
        continuation = SearchContinuation(attempt, call, again, self.limits, self.context.byte_observers)
        if not call.stream:
            return await relay_searching(self.client, attempt, gateway, continuation)
        if call.policies is not None and call.policies.sees_responses:
            return await JudgedRelay(self.client, attempt, gateway, call.policies, continuation).run()
        return await StreamRelay(self.client, attempt, gateway, continuation).run()

    def finish(self, planned: Attempt, result: RelayResult) -> None:
        """Report an attempt whose response the client has got. One that was cut off is still a failed attempt."""
        if result.failure is not None:
            self.plan.failed(steady_time(), result.failure, committed=True)
        else:
            response_id = ""
            if CODECS[self.client.call.client].endpoint.continues:
                # That of a translated response is the gateway's own.
                response_id = result.response_id or self.client.stamp().response_id
            self.plan.finished(steady_time(), result.usage, response_id)
            if self.refused is not None and self.refused.concerns(planned):
                # The upstream has responded without these parameters, so it was right to leave them out.
                remember(self.gateway.upstreams.pools.pools[planned.provider], planned.model, self.refused.remedies)
        if self.gateway.observers.attempt_ended is not None:
            self.notify_ended(result.failure)

    async def may_retry(self, error: UpstreamError) -> bool:
        """Report a failed attempt. Return whether another one may follow."""
        plan, failure = self.plan, failure_of(error)
        if await self._adjusts(failure):
            plan.adjust(steady_time(), failure.status)
            may_retry = True
        else:
            may_retry = plan.failed(steady_time(), error, committed=self.client.is_final)
            if may_retry and plan.strips:
                self._remember_reasoning(failure)
        self.notify_ended(failure)
        return may_retry

    async def _adjusts(self, failure: Failure) -> bool:
        """Return whether the next attempt, with the same account, can avoid the failure: without a parameter, say."""
        attempt = self.attempt
        if self.client.is_final or self.plan.adjusted or attempt is None:
            return False
        remedies = self.client.changed_for(failure)
        if remedies is None:
            remedies = await self._lesson(failure, attempt)
            if not remedies:
                return False
        self.refused = RefusedParameters(attempt.planned.provider, attempt.planned.model, remedies)
        return True

    async def _lesson(self, failure: Failure, attempt: UpstreamAttempt) -> tuple[Remedy, ...]:
        """Return what to leave out of the request of an attempt, or to change; nothing if that would not help."""
        if not attempt.outbound.adjustable:
            return ()
        sent, protocol = attempt.outbound.request, attempt.outbound.protocol
        if len(sent.body) > LARGE_BYTES:
            remedies = await in_thread(read_lesson, failure, sent, protocol, self.client.call)
        else:
            remedies = read_lesson(failure, sent, protocol, self.client.call)
        if remedies and self.refused is not None and self.refused.concerns(attempt.planned):
            # Servers that check one field after the other name only the first.
            return (*self.refused.remedies, *remedies)
        return remedies

    def _remember_reasoning(self, failure: Failure) -> None:
        """Remember reasoning that an account cannot verify. Reasoning that it lacks is nothing to remember."""
        planned, attempt = self.plan.decision.attempts[-1], self.attempt
        if planned.why != REJECTED or attempt is None:
            return
        call, refused, outbound = self.client.call, self.gateway.upstreams.refused_reasoning, attempt.outbound
        if outbound.exchange is None:
            refused.learn(planned.provider, planned.account, call.whole, call.client, failure)
            return
        recall = {} if call.memory is None else call.memory.found
        sent = (outbound.request.body, outbound.protocol, recall, call.sealer)
        translated = TranslatedReasoning(call.whole, call.client, *sent)
        refused.learn_translated((planned.provider, planned.account), translated, failure)


def _note_cache_use(attempts: RequestAttempts, sticky: str) -> None:
    """Note what the prompt cache has saved for a request that has got its response, if requests are kept."""
    sessions, attempt, client = attempts.gateway.sessions, attempts.attempt, attempts.client
    if attempt is None or sessions is None or len(attempt.outbound.request.body) < LEAST_BYTES:
        return
    body, record = attempt.outbound.request.body, attempts.context.record
    response_id = client.stamp().response_id or record.response_id
    noted = partial(note_cache_use, sessions, client.call, record, body, sticky, response_id)
    # The client has its response: nothing that goes wrong here may end its request with an error.
    beside("cache use", noted, len(body))


def _conversation(call: ModelCall, gateway: Gateway, targets: Sequence[ProviderModel]) -> str:
    """Return the key of the conversation; "" if every provider has only one account, so that it does not matter."""
    for target in targets:
        if len(gateway.upstreams.pools.pools[target.provider].accounts) > 1:
            return sticky_key(call.body, call.client, call.headers)
    return ""


def _known_conversation(
    call: ModelCall, turn: StoredTurn, gateway: Gateway, targets: Sequence[ProviderModel], sticky: str
) -> str:
    """Return the key of a conversation by its session, if nobody knows which account made the response before.

    Codex continues a response that no upstream has made: it lets the gateway prepare each connection with one.
    """
    previous = turn.previous
    if previous is not None and (previous.origin or previous.made_by):
        return sticky
    if any(gateway.upstreams.pools.pools[target.provider].sticky.find(sticky) is not None for target in targets):
        return sticky
    return session_key(call.body, call.client, call.headers) or sticky


def _prefer_home(gateway: Gateway, targets: Sequence[ProviderModel], sticky: str, now: float) -> None:
    """Prefer the account of each provider that keeps uploaded files, for a conversation that names one."""
    for target in targets:
        pool = gateway.upstreams.pools.pools[target.provider]
        if pool.settings.sticky:
            pool.bind(sticky, pool.home, now)


def _preferring(
    previous: StoredResponse, gateway: Gateway, targets: Sequence[ProviderModel], sticky: str, now: float
) -> Sequence[ProviderModel]:
    """Prefer the account that made the response which a request continues. Return the targets in that order.

    The pool knows it by the conversation, but not after a restart on another machine, and not among providers. Where
    no upstream knows the response, any target will do, and an account that the pool knows has newer caches.
    """
    origin = previous.origin or previous.made_by
    pool = gateway.upstreams.pools.pools.get(origin.provider) if origin is not None else None
    account = pool.account(origin.account) if pool is not None and origin is not None else None
    if origin is None or pool is None or account is None:
        return targets
    is_known = previous.origin is None and pool.sticky.find(sticky) is not None
    if sticky and pool.settings.sticky and not is_known:
        pool.bind(sticky, account, now)
    if previous.origin is None:
        return targets
    return sorted(targets, key=lambda target: target.provider != origin.provider)


def new_call(context: RequestContext, asked: ReadBody, strict: Severity | None) -> ModelCall:
    """Return a request that was read, with what its head says, and note its model for the log. Raises BadRequest."""
    request, entry, record = context.request, context.entry, context.record
    if entry.loss_comment is None:
        raise BadRequest("trilogue-loss-comment is true or false", path="trilogue-loss-comment")
    record.model, record.stream = sane(asked.model), asked.stream
    return ModelCall(
        client=entry.client,
        body=asked.body,
        model=asked.model,
        stream=asked.stream,
        headers=request.headers,
        sealer=entry.sealer,
        forwarded=entry.forwarded,
        hop=entry.hop,
        query=entry.query,
        strict=strict,
        loss_comment=entry.loss_comment,
        request_id=context.request_id,
        key_name=record.key,
        losses=asked.losses,
        long_context=asked.long_context,
    )


async def complete(context: RequestContext, client: ClientResponse, targets: Sequence[ProviderModel]) -> None:
    """Send a response, streamed or not, or an error. Raises ClientGone, and errors of the request itself."""
    responder, gateway = context.responder, context.entry.gateway
    limits = TimeLimits(context.cancellation, responder)
    context.in_band = client.fail_in_band
    context.request.on_gone = context.cancellation.client_gone
    key = context.entry.key
    is_limited = key is not None and (key.restricted or gateway.limiter.applies_to_all)
    keepalive = None
    if client.streams:
        keepalive = KeepAlive(gateway.settings.keepalive_seconds, responder, client.keepalive)
    try:
        await (_respond_within_limits if is_limited else respond)(context, client, limits, targets)
    except UpstreamError as error:
        _fail(context, client, error)
    except asyncio.CancelledError:
        cancelled = cancelled_error(context)
        if not responder.ended:
            _fail(context, client, cancelled)
    finally:
        limits.stop()
        if keepalive is not None:
            keepalive.stop()


async def _respond_within_limits(
    context: RequestContext, client: ClientResponse, limits: TimeLimits, targets: Sequence[ProviderModel]
) -> None:
    """Count a request for its key, owner and model before its first attempt, and settle it when it has ended.

    Raises NotAllowed and LimitReached, and what `respond` raises.
    """
    allowed, reservation = await count_request(context, client.call, targets)
    try:
        await respond(context, client, limits, allowed)
    finally:
        if reservation is not None:
            context.entry.gateway.limiter.settle(reservation, context.record)


def _fail(context: RequestContext, client: ClientResponse, error: UpstreamError) -> None:
    """Send an error: inside the stream if there is one, else as an HTTP error."""
    if context.responder.started or client.must_fail_in_band(error):
        client.fail_in_band(error)
    else:
        context.refuse(client_failure(error, context.entry.client, context.record))
