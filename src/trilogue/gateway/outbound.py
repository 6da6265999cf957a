"""What goes to the upstream: URL, headers and body of one attempt.

The same protocol on both sides: the client's body, bytes and all, with only the model's name changed, and the client's
headers but for its credentials and what belongs to one hop. Another protocol: the translated body and nothing of the
client's headers. A provider that speaks several protocols is asked in the one that carries the request best.
"""

from __future__ import annotations

import time

from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import ClientError, StrictLoss
from trilogue.gateway.call import Call, with_model
from trilogue.gateway.forwarding import with_query
from trilogue.gateway.lessons import adjusted
from trilogue.gateway.provider import Account, Provider
from trilogue.gateway.services import Services
from trilogue.gateway.stateless import refuse_state
from trilogue.model import SEAL_PREFIX, Json, Ledger, Loss, Protocol
from trilogue.profiles import Profile
from trilogue.protocols.codec import Target
from trilogue.protocols.jsontext import dump, parse_request
from trilogue.protocols.messages.encode_request import extra_headers
from trilogue.protocols.messages.hosted import OWN_CALL
from trilogue.translate.billing import strip_billing
from trilogue.translate.clean import OWN_REASONING, without_sealed
from trilogue.translate.exchange import Exchange
from trilogue.translate.remedies import Remedy
from trilogue.translate.requests import fit_own, translate_request
from trilogue.translate.seal import Sealer
from trilogue.translate.strip import strip_reasoning
from trilogue.upstream import HeaderPairs, UpstreamRequest

PATHS = {Protocol.CHAT: "/chat/completions", Protocol.MESSAGES: "/messages", Protocol.RESPONSES: "/responses"}

_OURS = (f'"{SEAL_PREFIX}'.encode(), OWN_CALL.encode())
"""signs of what upstreams of other protocols have left in a history"""


class Outbound(Struct, frozen=True, gc=False):
    """One attempt, ready to be sent. `exchange` None: pass-through. `adjustable`: what is refused may be left out."""

    request: UpstreamRequest
    exchange: Exchange | None
    losses: list[Loss]
    protocol: Protocol
    adjustable: bool = True


class Place(Struct, frozen=True, gc=False):
    """Where an attempt goes: provider, account, its model, and what the model is known to refuse."""

    provider: Provider
    account: Account
    model: str
    remedies: tuple[Remedy, ...] = ()


def outbound(call: Call, place: Place, services: Services) -> Outbound:
    """The request for this provider, account and model. Raises ClientError if it cannot be mapped."""
    protocols = place.provider.protocols
    if len(protocols) == 1:
        return _in_protocol(call, place, protocols[0], services)
    own = call.client in protocols
    if own and _fits_own(call, place):
        return _in_protocol(call, place, call.client, services)
    try:
        return _most_exact(call, place, [one for one in protocols if one is not call.client], services)
    except ClientError:
        if not own:
            raise
        return _in_protocol(call, place, call.client, services)


def _fits_own(call: Call, place: Place) -> bool:
    """Tell whether the model takes the request in the client's own protocol, as it is.

    Parsed only where there are models that take less in one protocol than in another: tools beside reasoning.
    """
    profile = place.provider.profile(place.model, call.client)
    if profile.tools_with_reasoning:
        return True
    ledger = Ledger()
    beside = Profile(
        reasons=profile.reasons,
        efforts=profile.efforts,
        tools_with_reasoning=False,
        max_tokens_field="",
        reasoning_field="",
    )
    try:
        fit_own(parse_request(call.body), _target(place, call.client, beside), ledger)
    except ClientError:
        return False
    return not ledger.losses


def _most_exact(call: Call, place: Place, protocols: list[Protocol], services: Services) -> Outbound:
    """The translation with the fewest losses; of equal ones the first, which the provider prefers."""
    best: Outbound | None = None
    refusal: ClientError | None = None
    for protocol in protocols:
        try:
            attempt = _in_protocol(call, place, protocol, services)
        except ClientError as error:
            refusal = refusal or error
            continue
        if best is None or len(attempt.losses) < len(best.losses):
            best = attempt
        if not best.losses:
            break
    if best is None:
        raise refusal or ClientError("the provider speaks no protocol")
    return best


def _target(place: Place, protocol: Protocol, profile: Profile) -> Target:
    return Target(
        protocol=protocol,
        model=place.model,
        profile=profile,
        provider=place.provider.name,
        account=place.account.name,
    )


def _in_protocol(call: Call, place: Place, protocol: Protocol, services: Services) -> Outbound:
    if protocol is call.client:
        return _passed_on(call, place, services.sealer)
    target = _target(place, protocol, place.provider.profile(place.model, protocol))
    body = services.items.expand(call.key_name, call.body, time.monotonic())
    up = translate_request(
        body,
        source=call.client,
        target=target,
        strict=call.strict,
        repair=services.config.repair_history,
        sealer=services.sealer,
    )
    wire, losses = up.body, up.losses
    if place.remedies:
        wire, refused = adjusted(wire, place.remedies, call.strict)
        losses = losses + refused
    extra = call.hop
    if protocol is Protocol.MESSAGES:
        extra += tuple(extra_headers(wire).items())
    return Outbound(_request(call, target, place, extra, dump(wire)), up.exchange, losses, protocol)


def _passed_on(call: Call, place: Place, sealer: Sealer) -> Outbound:
    provider, model = place.provider, place.model
    profile, body = provider.profile(model, call.client), call.body
    losses: list[Loss] = []
    if not profile.keeps_state:
        refuse_state(body, call.client)
    words = call.client is not Protocol.RESPONSES or profile.raw_reasoning
    if _holds_ours(body, words):
        body, losses = own_body(body, call.client, call.strict, sealer, words=words)
    if model != call.model:
        body = with_model(body, call.model, model)
    if call.client is Protocol.MESSAGES and not profile.billing_block:
        body, unbilled = _unbilled(call, body)
        losses = losses + unbilled
    fit = provider.own_profile(model, call.client)
    if fit is not None:
        body, changed = _fitted(call, body, place, fit)
        losses = losses + changed
    request = _request(call, _target(place, call.client, profile), place, call.forwarded, body)
    return Outbound(request, None, losses, call.client, fit is not None)


def _fitted(call: Call, body: bytes, place: Place, profile: Profile) -> tuple[bytes, list[Loss]]:
    """The body as the model takes it; the same bytes where nothing has to change."""
    ledger = Ledger()
    wire = parse_request(body)
    fitted: dict[str, Json] = fit_own(wire, _target(place, call.client, profile), ledger)
    if call.strict:
        ledger.refuse_if_any()
    adjusted_body, refused = adjusted(fitted, place.remedies, call.strict)
    return body if adjusted_body is wire else dump(adjusted_body), ledger.losses + refused


def _unbilled(call: Call, body: bytes) -> tuple[bytes, list[Loss]]:
    """The line of Claude Code's prompt that the configuration says to leave out."""
    body, losses = strip_billing(body)
    if call.strict and losses:
        raise StrictLoss(tuple(losses))
    return body, losses


def _holds_ours(body: bytes, words: bool) -> bool:
    # `in` is slower for bytes: it tries them as a number first.
    return any(body.find(sign) >= 0 for sign in _OURS) or (not words and OWN_REASONING.search(body) is not None)


def own_body(
    body: bytes, protocol: Protocol, strict: bool, sealer: Sealer, *, words: bool = True
) -> tuple[bytes, list[Loss]]:
    """The body for an upstream of the client's own protocol: the same bytes, unless upstreams of other protocols have
    left in the history what only we can read."""
    if not _holds_ours(body, words):
        return body, []
    ledger = Ledger()
    wire = parse_request(body)
    cleaned = without_sealed(wire, protocol, ledger, sealer, words=words)
    if strict:
        ledger.refuse_if_any()
    return body if cleaned is wire else dump(cleaned), ledger.losses


def stripped(call: Call, only: list[str] | None = None) -> tuple[Call, list[Loss]]:
    """The call without the reasoning of earlier turns. In strict mode that is a loss too much.

    `only`: how the values begin that are left out; by default all are.
    """
    body, losses = strip_reasoning(call.body, protocol=call.client, only=only)
    if call.strict and losses:
        raise StrictLoss(tuple(losses))
    return replace(call, body=dump(body)), losses


def _request(call: Call, target: Target, place: Place, headers: HeaderPairs, body: bytes) -> UpstreamRequest:
    provider, protocol = place.provider, target.protocol
    url = provider.url(protocol, PATHS[protocol])
    if call.query and protocol is call.client:
        url = with_query(url, call.query)
    clocks = provider.stream_timeouts if call.stream else provider.timeouts
    version = target.profile.version if protocol is Protocol.MESSAGES else ""
    complete = place.account.posting(headers, call.stream, version)
    return UpstreamRequest(method="POST", url=url, headers=complete, body=body, timeouts=clocks)
