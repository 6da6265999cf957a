"""What goes to the upstream: URL, headers and body of one attempt.

The same protocol on both sides: the client's body, bytes and all, with only the model's name changed, and the client's
headers but for its credentials and what belongs to one hop. Another protocol: the translated body and nothing of the
client's headers. A provider that speaks several protocols is asked in the one that carries the request best.

What an upstream that keeps nothing between requests cannot be asked.

Where bytes pass through, a server that does not know these fields would ignore them and answer without the history:
the client sends only what is new. Told that it cannot be, clients send everything.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from trilogue.errors import ClientError, Unsupported
from trilogue.gateway.request.call import Call, with_model
from trilogue.gateway.request.learning import adjusted
from trilogue.gateway.setup.headers import with_query
from trilogue.gateway.setup.provider import UpstreamAccount, UpstreamProvider
from trilogue.gateway.setup.services import Services
from trilogue.jsontext.text import dump, parse_request
from trilogue.model import SEAL_STEM, Json, Ledger, Loss, Protocol, Severity, refuse_losses
from trilogue.profiles import UNCHANGED, Profile
from trilogue.protocols.codec import Target
from trilogue.protocols.messages.encode_request import extra_headers
from trilogue.protocols.messages.hosted import OWN_CALL
from trilogue.translate.content.billing import strip_billing
from trilogue.translate.exchange import Exchange
from trilogue.translate.learning.options import profile_fields
from trilogue.translate.learning.remedies import Remedy
from trilogue.translate.reasoning.removal import strip_reasoning
from trilogue.translate.reasoning.seal import Sealer
from trilogue.translate.reasoning.unseal import OWN_REASONING, without_sealed
from trilogue.translate.requests import fit_own, translate_request
from trilogue.upstream import HeaderPairs, UpstreamRequest

_FIELDS = {
    Protocol.MESSAGES: ("thread",),
    Protocol.RESPONSES: ("previous_response_id", "conversation"),
}
"""fields by which a request relies on what the upstream keeps of earlier ones"""


class _State(Struct):
    thread: Raw = Raw()
    previous_response_id: Raw = Raw()
    conversation: Raw = Raw()


_decode = msgspec.json.Decoder(_State).decode


def refuse_state(body: bytes, protocol: Protocol) -> None:
    """Raises Unsupported if this request relies on earlier ones."""
    named = [name for name in _FIELDS.get(protocol, ()) if b'"%b"' % name.encode() in body]
    if not named:
        return
    state = _decode(body)
    for name in named:
        if bytes(getattr(state, name)) not in (b"", b"null"):
            raise Unsupported(name, "this upstream keeps nothing of earlier requests: send the whole history")


PATHS = {Protocol.CHAT: "/chat/completions", Protocol.MESSAGES: "/messages", Protocol.RESPONSES: "/responses"}

_OURS = (f'"{SEAL_STEM}'.encode(), OWN_CALL.encode())
"""signs of what upstreams of other protocols have left in a history"""


class Outbound(Struct, frozen=True, gc=False):
    """One attempt, ready to be sent. `exchange` None: pass-through.

    `adjustable`: what is refused may be left out. `renamed`: the client knows the model by another name.
    """

    request: UpstreamRequest
    exchange: Exchange | None
    losses: list[Loss]
    protocol: Protocol
    adjustable: bool = True
    renamed: bool = False


class Place(Struct, frozen=True, gc=False):
    """Where an attempt goes: provider, account, its model, and what the model is known to refuse."""

    provider: UpstreamProvider
    account: UpstreamAccount
    model: str
    remedies: tuple[Remedy, ...] = ()


def outbound(call: Call, place: Place, services: Services) -> Outbound:
    """The request for this provider, account and model. Raises ClientError if it cannot be mapped."""
    protocols = place.provider.protocols
    if len(protocols) == 1:
        own = protocols[0] is call.client
        return _passed_on(call, place, services) if own else _translated(call, place, protocols[0], services)
    if call.client not in protocols:
        return _most_exact(call, place, protocols, services)
    beside = _tools_beside_reasoning(place, call.client)
    if beside is None or _fits(call, place, beside):
        return _passed_on(call, place, services)
    try:
        return _most_exact(call, place, [one for one in protocols if one is not call.client], services)
    except ClientError:
        # Only the client's own protocol can say it: without reasoning, which the model does not take there.
        return _passed_on(call, place, services, fit=beside)


def _tools_beside_reasoning(place: Place, protocol: Protocol) -> Profile | None:
    """Return what a model takes that has tools and reasoning together in one protocol and not in another.

    None for models that take the same everywhere, and so for most requests: those are not parsed to choose.
    """
    profile = place.provider.profile(place.model, protocol)
    if profile.tools_with_reasoning:
        return None
    return replace(UNCHANGED, reasons=profile.reasons, efforts=profile.efforts, tools_with_reasoning=False)


def _fits(call: Call, place: Place, profile: Profile) -> bool:
    ledger = Ledger()
    try:
        fit_own(parse_request(call.body), _target(place, call.client, profile), ledger)
    except ClientError:
        return False
    return not ledger.losses


def _most_exact(call: Call, place: Place, protocols: Sequence[Protocol], services: Services) -> Outbound:
    """The translation with the fewest losses; of equal ones the first, which the provider prefers."""
    best: Outbound | None = None
    refusal: ClientError | None = None
    for protocol in protocols:
        try:
            attempt = _translated(call, place, protocol, services)
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


def _translated(call: Call, place: Place, protocol: Protocol, services: Services) -> Outbound:
    fields, remedies = profile_fields(place.remedies) if place.remedies else ({}, ())
    profile = place.provider.profile(place.model, protocol)
    target = _target(place, protocol, replace(profile, **fields) if fields else profile)
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
    if remedies:
        wire, refused = adjusted(wire, remedies, call)
        losses = losses + refused
    extra = call.hop
    if protocol is Protocol.MESSAGES:
        extra += tuple(extra_headers(wire).items())
    sent = _request(call, place, protocol, target.profile, extra, dump(wire))
    return Outbound(sent, up.exchange, losses, protocol)


def _passed_on(call: Call, place: Place, services: Services, fit: Profile | None = None) -> Outbound:
    provider, model = place.provider, place.model
    profile, body = provider.profile(model, call.client), call.body
    losses: list[Loss] = []
    if not profile.keeps_state:
        refuse_state(body, call.client)
    words = call.client is not Protocol.RESPONSES or profile.raw_reasoning
    if _holds_ours(body, words):
        body, losses = own_body(body, call.client, call.strict, services.sealer, words=words)
    if model != call.model:
        body = with_model(body, call.model, model)
    if call.client is Protocol.MESSAGES and not profile.billing_block:
        body, unbilled = _unbilled(call, body)
        losses = losses + unbilled
    fit = provider.own_profile(model, call.client) or fit
    repair = services.config.repair_history and _has_tools(body)
    if fit is not None or repair:
        body, changed = _fitted(call, body, _target(place, call.client, fit or UNCHANGED), repair)
        losses = losses + changed
    if place.remedies and fit is not None:
        body, changed = _adjusted(call, body, place.remedies)
        losses = losses + changed
    request = _request(call, place, call.client, profile, call.forwarded, body)
    # An alias or a route gives the model another name; `provider/model` says the name itself.
    renamed = model != call.model and call.model != f"{provider.name}/{model}"
    return Outbound(request, None, losses, call.client, adjustable=fit is not None, renamed=renamed)


def _has_tools(body: bytes) -> bool:
    """Tell whether a history may hold tool calls or results: other bodies are not parsed to be mended."""
    return b'"tool' in body or b'_call"' in body or b'_call_output"' in body


def _fitted(call: Call, body: bytes, target: Target, repair: bool) -> tuple[bytes, list[Loss]]:
    """The body as the model takes it, with its history mended; the same bytes where nothing has to change."""
    ledger = Ledger()
    wire = parse_request(body)
    fitted: dict[str, Json] = fit_own(wire, target, ledger, repair=repair)
    ledger.refuse_if_any(call.strict)
    return body if fitted is wire else dump(fitted), ledger.losses


def _adjusted(call: Call, body: bytes, remedies: tuple[Remedy, ...]) -> tuple[bytes, list[Loss]]:
    """The body without what the model is known to refuse."""
    wire = parse_request(body)
    changed, losses = adjusted(wire, remedies, call)
    return body if changed is wire else dump(changed), losses


def _unbilled(call: Call, body: bytes) -> tuple[bytes, list[Loss]]:
    """The line of Claude Code's prompt that the configuration says to leave out."""
    body, losses = strip_billing(body)
    refuse_losses(losses, call.strict)
    return body, losses


def _holds_ours(body: bytes, words: bool) -> bool:
    for sign in _OURS:
        if body.find(sign) >= 0:  # `in` is slower for bytes: it tries them as a number first
            return True
    return not words and OWN_REASONING.search(body) is not None


def own_body(
    body: bytes, protocol: Protocol, strict: Severity | None, sealer: Sealer, *, words: bool = True
) -> tuple[bytes, list[Loss]]:
    """The body for an upstream of the client's own protocol: the same bytes, unless upstreams of other protocols have
    left in the history what only we can read."""
    if not _holds_ours(body, words):
        return body, []
    ledger = Ledger()
    wire = parse_request(body)
    cleaned = without_sealed(wire, protocol, ledger, sealer, plain_text=words)
    ledger.refuse_if_any(strict)
    return body if cleaned is wire else dump(cleaned), ledger.losses


def stripped(call: Call, only: list[str] | None = None) -> tuple[Call, list[Loss]]:
    """The call without the reasoning of earlier turns. In strict mode that is a loss too much.

    `only`: how the values begin that are left out; by default all are.
    """
    body, losses = strip_reasoning(call.body, protocol=call.client, only=only)
    refuse_losses(losses, call.strict)
    return replace(call, body=dump(body)), losses


def _request(
    call: Call, place: Place, protocol: Protocol, profile: Profile, headers: HeaderPairs, body: bytes
) -> UpstreamRequest:
    provider = place.provider
    url = provider.url(protocol, PATHS[protocol])
    if call.query and protocol is call.client:
        url = with_query(url, call.query)
    clocks = provider.stream_timeouts if call.stream else provider.timeouts
    version = profile.version if protocol is Protocol.MESSAGES else ""
    complete = place.account.posting(headers, call.stream, version)
    return UpstreamRequest(method="POST", url=url, headers=complete, body=body, timeouts=clocks)
