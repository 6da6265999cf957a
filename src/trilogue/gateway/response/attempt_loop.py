"""The loop over the attempts of one request: make the ones that the pool plans until the client has a response.

As long as the client has no part of a response, another account or target may be tried after a failure. Which one, and
whether at all, is decided in `pool`. What an attempt is, subclasses of `AttemptLoop` say.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from trilogue.base.clock import steady_time
from trilogue.errors import ClientError, UpstreamError, UpstreamFailure
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.request.cancellation import CancelReason
from trilogue.gateway.request.failures import redacted
from trilogue.gateway.request.request import RequestContext
from trilogue.gateway.response.attempt import RelayResult, UpstreamAttempt
from trilogue.gateway.response.timing import TimeLimits
from trilogue.model import Failure
from trilogue.protocols.failure import failure_of
from trilogue.routing.pool.decision import Attempt
from trilogue.routing.pool.plan import AttemptPlan
from trilogue.upstreams.provider import UpstreamAccount, UpstreamProvider


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
