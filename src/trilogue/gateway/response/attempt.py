"""One attempt: what is sent to one account of one upstream, and the response that comes back."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct
from msgspec.structs import replace

from trilogue.capture.writer import Sent
from trilogue.errors import UpstreamFailure, UpstreamProtocolError
from trilogue.gateway.conversations.store.types import OriginAccount
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.observer import ByteObservers, observed_response
from trilogue.gateway.request.call import ModelCall
from trilogue.gateway.request.failures import error_body, response_failure
from trilogue.gateway.request.outbound import Outbound, Place, allowed, outbound, stripped, translated
from trilogue.gateway.response.timing import ProgressLimit, TimeLimits
from trilogue.model import Failure, Loss, Protocol, Usage
from trilogue.net.client.interface import UpstreamRequest, UpstreamResponse
from trilogue.routing.pool.decision import Attempt
from trilogue.translate.learning.options import profile_fields


class RelayResult(Struct, frozen=True, kw_only=True, gc=False):
    """What came of a response that the client has got. `failure`: why it is not complete.

    `response_id`: the id by which a client can continue it at the same upstream.
    """

    usage: Usage | None = None
    response_id: str = ""
    failure: Failure | None = None


class UpstreamAttempt:
    """Everything that belongs to one attempt. `planned`: the pool's record of it, which says where it goes and why."""

    __slots__ = (
        "_call",
        "_place",
        "continued",
        "outbound",
        "planned",
        "progress",
        "redactor",
        "refused",
        "response",
        "unsent",
    )

    response: UpstreamResponse
    """set by `send`"""
    progress: ProgressLimit
    """the limit on events; set by `send` if the response is a stream"""

    def __init__(self, planned: Attempt, place: Place, request: Outbound, call: ModelCall | None = None) -> None:
        self.planned = planned
        self.outbound = request
        self.redactor = place.account.redactor
        """removes the secrets of the account from errors"""
        self.unsent = False
        """whether the upstream has got nothing of the request"""
        self.refused = False
        """whether the status of the response is that of an error or a redirect"""
        self.continued = False
        """whether a part of the response has come that was paid for"""
        self._place = place
        self._call = call
        """what the client asked for; None if it is passed through without being read"""

    @property
    def origin(self) -> OriginAccount | None:
        """The account that knows the response by its id; None if the id is the gateway's own."""
        return self.account if self.outbound.exchange is None else None

    @property
    def account(self) -> OriginAccount:
        """The account that the attempt goes to."""
        return OriginAccount(self.planned.provider, self.planned.account)

    async def send(self, limits: TimeLimits, stream: bool, observers: ByteObservers | None) -> None:
        """Send the request and wait for the headers of the response. Raises UpstreamError."""
        account, clocks, request = self._place.account, self._place.provider.clocks, self.outbound.request
        limits.limit(clocks.total)
        if observers is not None:
            request = self._observed(request, observers)
        try:
            response = self.response = await account.ways[self.planned.proxy or 0].send(request)
        finally:
            self.planned.connect, self.unsent = request.connect_seconds, request.unsent
        if observers is not None:
            self.response = observed_response(response, self.planned, observers)
        if stream and response.status < 300:
            self.progress = limits.streaming(clocks.first_event, clocks.between_events)

    def _observed(self, request: UpstreamRequest, observers: ByteObservers) -> UpstreamRequest:
        """Show the request to observers. Return it with the headers that they set."""
        if observers.upstream_headers is not None:
            request = observers.upstream_headers(self.planned, request)
        if observers.provider_request is not None and self._call is not None:
            observers.provider_request(self.planned, _sent(request, self.outbound, self._place, self._call))
        return request

    def prepare_again(self, call: ModelCall, gateway: Gateway) -> Outbound:
        """Return a further request of the same client for the same account, in the same protocol."""
        return prepare(call, self._place, gateway, self.planned.strip, self.outbound.protocol)

    async def check(self) -> None:
        """Raise UpstreamError if the response is an error or a redirect."""
        response = self.response
        self.refused = response.status >= 300
        if response.status >= 400:
            body = await error_body(response)
            raise UpstreamFailure(response_failure(response, body, self.outbound.protocol, self.redactor))
        if response.status >= 300:
            raise UpstreamProtocolError(f"the upstream responded with a redirect ({response.status})")


def _sent(request: UpstreamRequest, outbound: Outbound, place: Place, call: ModelCall) -> Sent:
    """Return what observers of bytes get to see of an attempt."""
    exchange = outbound.exchange
    remedies = place.remedies if outbound.adjustable else ()
    if exchange is not None:
        _, remedies = profile_fields(remedies)
    return Sent(
        protocol=outbound.protocol,
        url=request.url,
        headers=tuple(request.headers),
        body=request.body,
        input=outbound.source,
        secrets=place.account.redactor.secrets,
        provider=place.provider.name,
        account=place.account.name,
        model=place.model,
        profile=exchange.target.profile if exchange else place.provider.profile(place.model, outbound.protocol),
        fit=outbound.fit,
        repair=outbound.repair,
        losses=tuple(outbound.losses),
        outside=tuple((Counter(outbound.losses) - Counter(outbound.declared)).elements()),
        remedies=tuple(allowed(remedies, call)),
        echo=outbound.echo or {} if exchange is None or call.turn is None else call.turn.echoed({}),
        stored=call.turn is not None and call.turn.fields.stores,
        recalled=call.memory is not None and bool(call.memory.found),
        changed=call.asked is not None,
        judged=call.policies is not None,
        summary=call.summary,
        searches=exchange is not None and exchange.search is not None,
    )


def prepare(call: ModelCall, place: Place, gateway: Gateway, strip: bool, protocol: Protocol | None = None) -> Outbound:
    """Return what is sent. Raises ClientError if the target cannot express it.

    `strip`: without the reasoning of earlier turns. `protocol`: the one to translate to, if that is decided already.
    """
    losses: list[Loss] = []
    if strip:
        call, losses = stripped(call)
    elif gateway.upstreams.refused_reasoning.known and not call.strict:
        rejected = gateway.upstreams.refused_reasoning.within(place.provider.name, place.account.name, call.whole)
        call, losses = stripped(call, rejected) if rejected else (call, losses)
    request = outbound(call, place, gateway) if protocol is None else translated(call, place, protocol, gateway)
    if not losses and not call.losses:
        return request
    return replace(request, losses=[*call.losses, *losses, *request.losses])
