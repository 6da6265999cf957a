"""What goes to the upstream: URL, headers and body of one attempt.

The same protocol on both sides: the client's body, bytes and all, with only the model's name changed, and the client's
headers but for its credentials and what belongs to one hop. Another protocol: the translated body and nothing of the
client's headers.
"""

from __future__ import annotations

import time

from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import StrictLoss
from trilogue.gateway.call import Call, with_model
from trilogue.gateway.forwarding import with_query
from trilogue.gateway.provider import Account, Provider
from trilogue.gateway.services import Services
from trilogue.gateway.stateless import refuse_state
from trilogue.model import SEAL_PREFIX, Ledger, Loss, Protocol
from trilogue.protocols.codec import Target
from trilogue.protocols.jsontext import dump, parse_request
from trilogue.protocols.messages.encode_request import extra_headers
from trilogue.protocols.profile import Profile
from trilogue.translate.billing import strip_billing
from trilogue.translate.clean import without_sealed
from trilogue.translate.exchange import Exchange
from trilogue.translate.requests import translate_request
from trilogue.translate.seal import Sealer
from trilogue.translate.strip import strip_reasoning
from trilogue.upstream import HeaderPairs, UpstreamRequest

PATHS = {Protocol.CHAT: "/chat/completions", Protocol.MESSAGES: "/messages", Protocol.RESPONSES: "/responses"}

_SEALED = f'"{SEAL_PREFIX}'.encode()


class Outbound(Struct, frozen=True, gc=False):
    """One attempt, ready to be sent. `exchange` None: pass-through."""

    request: UpstreamRequest
    exchange: Exchange | None
    losses: list[Loss]


def outbound(call: Call, provider: Provider, account: Account, model: str, services: Services) -> Outbound:
    """The request for this provider, account and model. Raises ClientError if it cannot be mapped."""
    if provider.protocol is call.client:
        return _passed_on(call, provider, account, model, services.sealer)
    target = Target(
        protocol=provider.protocol,
        model=model,
        profile=provider.profile(model),
        provider=provider.name,
        account=account.name,
    )
    body = services.items.expand(call.key_name, call.body, time.monotonic())
    up = translate_request(
        body,
        source=call.client,
        target=target,
        strict=call.strict,
        repair=services.config.repair_history,
        sealer=services.sealer,
    )
    extra = call.hop
    if provider.protocol is Protocol.MESSAGES:
        extra += tuple(extra_headers(up.body).items())
    request = _request(call, provider, account, extra, dump(up.body), target.profile)
    return Outbound(request, up.exchange, up.losses)


def _passed_on(call: Call, provider: Provider, account: Account, model: str, sealer: Sealer) -> Outbound:
    profile, body = provider.profile(model), call.body
    losses: list[Loss] = []
    if not profile.keeps_state:
        refuse_state(body, call.client)
    if body.find(_SEALED) >= 0:  # `in` is slower for bytes: it tries them as a number first
        body, losses = own_body(body, call.client, call.strict, sealer)
    if model != call.model:
        body = with_model(body, call.model, model)
    if call.client is Protocol.MESSAGES and not profile.billing_block:
        body, unbilled = _unbilled(call, body)
        losses = losses + unbilled
    return Outbound(_request(call, provider, account, call.forwarded, body, profile), None, losses)


def _unbilled(call: Call, body: bytes) -> tuple[bytes, list[Loss]]:
    """The one thing that can be left out where bytes pass through, if the configuration says so."""
    body, losses = strip_billing(body)
    if call.strict and losses:
        raise StrictLoss(tuple(losses))
    return body, losses


def own_body(body: bytes, protocol: Protocol, strict: bool, sealer: Sealer) -> tuple[bytes, list[Loss]]:
    """The body for an upstream of the client's own protocol: the same bytes, unless upstreams of other protocols have
    left in the history what only we can read."""
    if body.find(_SEALED) < 0:
        return body, []
    ledger = Ledger()
    wire = parse_request(body)
    cleaned = without_sealed(wire, protocol, ledger, sealer)
    if strict:
        ledger.refuse_if_any()
    return body if cleaned is wire else dump(cleaned), ledger.losses


def stripped(call: Call) -> tuple[Call, list[Loss]]:
    """The call without the reasoning of earlier turns. In strict mode that is a loss too much."""
    body, losses = strip_reasoning(call.body, protocol=call.client)
    if call.strict and losses:
        raise StrictLoss(tuple(losses))
    return replace(call, body=dump(body)), losses


def _request(
    call: Call, provider: Provider, account: Account, headers: HeaderPairs, body: bytes, profile: Profile
) -> UpstreamRequest:
    url = provider.url(PATHS[provider.protocol])
    if call.query and provider.protocol is call.client:
        url = with_query(url, call.query)
    clocks = provider.stream_timeouts if call.stream else provider.timeouts
    version = profile.version if provider.protocol is Protocol.MESSAGES else ""
    complete = account.posting(headers, call.stream, version)
    return UpstreamRequest(method="POST", url=url, headers=complete, body=body, timeouts=clocks)
