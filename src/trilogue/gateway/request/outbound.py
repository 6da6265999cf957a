"""What goes to the upstream: URL, headers and body of one attempt.

If both sides have the same protocol, the upstream gets the client's bytes with only the model's name changed, and the
client's headers except for credentials and those of one connection. Otherwise it gets the translated body and none of
the client's headers. A provider that speaks several protocols gets the one in which least is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import structlog
from msgspec import Raw, Struct
from msgspec.structs import replace

from trilogue.base.json_text import dump, parse_request
from trilogue.errors import ClientError, Unsupported
from trilogue.gateway.conversations.reasoning import ReasoningMemory
from trilogue.gateway.conversations.request_fields import input_items, may_refer, names_items, reference_of
from trilogue.gateway.conversations.summaries import ITEM_MARK, opened
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.request.call import ModelCall, with_model, without_head
from trilogue.model import Failure, Json, Ledger, Loss, Protocol, Severity, refuse_losses, refuses
from trilogue.net.client.interface import HeaderPairs, UpstreamRequest
from trilogue.protocols.codec import PauseForm, Target
from trilogue.protocols.endpoint import Endpoint
from trilogue.protocols.fit.caching import takes_session
from trilogue.protocols.registry import CODECS
from trilogue.routing.pool.conversation import cache_session
from trilogue.routing.pool.pool import Pool
from trilogue.translate.content.billing import has_billing, strip_billing
from trilogue.translate.content.history import Repair
from trilogue.translate.learning.betas import read_betas, with_beta, without_betas
from trilogue.translate.learning.options import profile_fields
from trilogue.translate.learning.refusals import read_refusal
from trilogue.translate.learning.remedies import Remedy, remedied
from trilogue.translate.pipeline import Exchange
from trilogue.translate.reasoning.kept import Recall
from trilogue.translate.reasoning.removal import accepts_text, strip_reasoning, without_sealed
from trilogue.translate.reasoning.seal import Sealer
from trilogue.translate.requests import RequestOptions, fit_own, translate_request_with
from trilogue.upstreams.headers import with_query
from trilogue.upstreams.provider import UpstreamAccount, UpstreamProvider
from trilogue.vendors.profile import UNCHANGED, Profile
from trilogue.vendors.table import maker_of

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_DEFERRED = b'"defer_loading"'
"""what a request has whose tools can be searched; others need not be looked at"""
_KEEPS_NOTHING = "this upstream keeps nothing of earlier requests: send the whole history"


def refuse_state(body: bytes, protocol: Protocol) -> None:
    """Raise `Unsupported` if a request refers to earlier ones, for an upstream that stores nothing.

    A server that does not know these fields would ignore them and respond without the history, because the client sends
    only what is new. After this error, clients send everything.
    """
    endpoint = CODECS[protocol].endpoint
    name = _state_field(body, endpoint)
    if name is not None:
        raise Unsupported(name, _KEEPS_NOTHING)
    refers = endpoint.continues and (may_refer(body) or body.find(b'"id"') >= 0)
    if not refers:
        return
    given = _decode_fields(body).get("input", Raw())
    for position, item in enumerate(input_items(given) if names_items(given) else ()):
        if reference_of(item) is not None:
            raise Unsupported(f"input[{position}]", _KEEPS_NOTHING)


def _state_field(body: bytes, endpoint: Endpoint) -> str | None:
    """Return the name of a field by which a request refers to what the upstream has stored; None if it does not."""
    named = [name for name in endpoint.state_fields if body.find(b'"%b"' % name.encode()) >= 0]
    fields = _decode_fields(body) if named else {}
    return next((name for name in named if bytes(fields.get(name, b"null")) != b"null"), None)


class Outbound(Struct, frozen=True, gc=False):
    """One attempt, ready to be sent. `exchange`: None in pass-through.

    `adjustable`: parameters that the upstream refuses may be left out. `renamed`: the client knows the model by another
    name. `pauses`: how the upstream may pause the response, if the client cannot continue it itself.

    What it was made from, for captures: `source`: the client's request with stored history. `declared`: those of the
    losses that come from the translation. `fit`: what a request that is passed through was adjusted to. `repair`:
    whether its history was to be repaired.
    """

    request: UpstreamRequest
    exchange: Exchange | None
    losses: list[Loss]
    protocol: Protocol
    adjustable: bool = True
    renamed: bool = False
    echo: dict[str, Json] | None = None
    """what the response must say about storage, if the upstream does not know"""
    pauses: PauseForm | None = None
    source: bytes = b""
    declared: list[Loss] | tuple[()] = ()
    fit: Profile | None = None
    repair: bool = False


class Place(Struct, frozen=True, gc=False):
    """Where an attempt goes: provider, account, its model, and remedies for what the model is known to refuse."""

    provider: UpstreamProvider
    account: UpstreamAccount
    model: str
    remedies: tuple[Remedy, ...] = ()


def outbound(call: ModelCall, place: Place, gateway: Gateway) -> Outbound:
    """Return the request for this provider, account and model. Raises `ClientError` if it cannot be translated."""
    protocols = place.provider.protocols
    if len(protocols) == 1:
        own = protocols[0] is call.client
        return _passed_on(call, place, gateway) if own else translated(call, place, protocols[0], gateway)
    if call.client not in protocols:
        return _most_exact(call, place, protocols, gateway)
    with_tools = _tools_with_reasoning(place, call.client)
    if with_tools is None or _fits(call, place, with_tools):
        return _passed_on(call, place, gateway)
    try:
        return _most_exact(call, place, [one for one in protocols if one is not call.client], gateway)
    except ClientError:
        # Only the client's own protocol can express it, but without reasoning, which the model refuses there.
        return _passed_on(call, place, gateway, fit=with_tools)


def _tools_with_reasoning(place: Place, protocol: Protocol) -> Profile | None:
    """Return a profile to check a request with, for a model that refuses tools with reasoning in this protocol.

    None for other models, and so for most requests: those need not be parsed.
    """
    profile = place.provider.profile(place.model, protocol)
    if profile.tools_with_reasoning:
        return None
    return replace(UNCHANGED, reasons=profile.reasons, efforts=profile.efforts, tools_with_reasoning=False)


def _fits(call: ModelCall, place: Place, profile: Profile) -> bool:
    ledger = Ledger()
    try:
        fit_own(parse_request(call.body), _target(place, call.client, profile), ledger)
    except ClientError:
        return False
    return not ledger.losses


def _most_exact(call: ModelCall, place: Place, protocols: Sequence[Protocol], gateway: Gateway) -> Outbound:
    """Return the translation with the fewest losses; if several have, the one that the provider prefers."""
    best: Outbound | None = None
    refusal: ClientError | None = None
    for protocol in protocols:
        try:
            attempt = translated(call, place, protocol, gateway)
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


def translated(call: ModelCall, place: Place, protocol: Protocol, gateway: Gateway) -> Outbound:
    """Return the request in one of the provider's protocols. Raises `ClientError` if it cannot be translated."""
    fields, remedies = profile_fields(place.remedies) if place.remedies else ({}, ())
    profile = place.provider.profile(place.model, protocol)
    target = _target(place, protocol, replace(profile, **fields) if fields else profile)
    body = call.body if call.turn is None else call.turn.expanded
    client = CODECS[call.client]
    options = RequestOptions(
        strict=call.strict,
        repair=gateway.settings.repair_history,
        sealer=call.sealer,
        recall=None if call.memory is None else _recalled(call.memory, place, gateway),
        session=_session(call, body) if takes_session(target) else "",
        searches=client.tools.search is not None and body.find(_DEFERRED) >= 0,
    )
    if client.endpoint.compaction and body.find(ITEM_MARK) >= 0:
        body = opened(body, call.sealer)
    up = translate_request_with(body, call.client, target, options)
    wire, losses = up.body, up.losses
    if call.memory is not None and call.memory.unread:
        losses = losses + call.memory.losses
    if remedies:
        wire, refused = adjusted(wire, remedies, call)
        losses = losses + refused
    extra, extra_headers = call.hop, CODECS[protocol].endpoint.extra_headers
    if extra_headers is not None:
        extra += tuple(extra_headers(wire).items())
    if call.long_context:
        extra = _with_long_context(extra, protocol, place.model)
    if remedies:
        extra, refused = without_refused_betas(extra, protocol, remedies, call)
        losses = losses + refused
    sent = _request(call, place, protocol, target.profile, extra, dump(wire))
    exchange = up.exchange
    if call.asked is not None:
        # What policies have changed is not for the client to see.
        exchange = replace(exchange, body=parse_request(call.sent), model=call.asked.model)
    if call.turn is not None:
        exchange = replace(exchange, body=call.turn.echoed(exchange.body))
    pauses = CODECS[protocol].turns.pauses
    if pauses is not None and (client.turns.pauses is not None or not pauses.may_pause(wire)):
        pauses = None
    return Outbound(
        sent, exchange, losses, protocol, pauses=pauses, source=body, declared=up.losses, repair=bool(options.repair)
    )


def _session(call: ModelCall, body: bytes) -> str:
    """Return what names the conversation for OpenAI's prompt caches, apart from those of other client keys."""
    session = cache_session(body, call.headers)
    return f"{call.key_name}\0{session}" if session else ""


def _recalled(memory: ReasoningMemory, place: Place, gateway: Gateway) -> Recall:
    """Return the kept reasoning of the request, except for what this account has refused before."""
    return gateway.upstreams.refused_reasoning.accepted(place.provider.name, place.account.name, memory.found)


def _passed_on(call: ModelCall, place: Place, gateway: Gateway, fit: Profile | None = None) -> Outbound:
    provider, model = place.provider, place.model
    profile, body = provider.profile(model, call.client), call.body
    losses: list[Loss] = []
    turn, keeps_state, echo = call.turn, profile.keeps_state and not provider.is_demo, None
    if turn is not None and turn.is_complete_with(provider.name, place.account.name, keeps_state):
        body, losses = turn.expanded_for(provider.name, place.account.name)
        if not keeps_state:
            refuse_state(body, call.client)
        echo = turn.echoed({} if keeps_state else {"store": turn.fields.stores})
    elif turn is not None and not keeps_state and turn.fields.stores:
        echo = {"store": True}
    elif not keeps_state:
        refuse_state(body, call.client)
    codec, source = CODECS[call.client], body
    if gateway.store is None and codec.endpoint.continues:
        # Whatever the upstream stores: the client cannot fetch it here.
        echo = {**(echo or {}), "store": False}
    if codec.reasoning.may_hold_sealed(body, accepts_text(call.client, profile)):
        body, foreign = own_body(body, call.client, call.strict, call.sealer, profile)
        losses, source = losses + foreign, body
    if model != call.model:
        body = with_model(body, call.model, model)
    body, own = _without_foreign(call, body, profile)
    fit = provider.own_profile(model, call.client) or fit
    repair = gateway.settings.repair_history
    if (profile.orphaned_calls and repair is not True) or not _may_be_broken(body, call.client, repair):
        repair = False
    if fit is not None or repair:
        body, changed = _fitted(call, body, _target(place, call.client, fit or UNCHANGED), repair)
        own = own + changed
    losses = losses + own
    adjustable, headers = fit is not None or call.client not in provider.own_apis, call.forwarded
    if call.long_context:
        headers = _with_long_context(headers, call.client, model)
    if place.remedies and adjustable:
        body, changed = _adjusted(call, body, place.remedies)
        headers, refused = without_refused_betas(headers, call.client, place.remedies, call)
        losses = losses + changed + refused
    request = _request(call, place, call.client, profile, headers, body)
    # An alias or a route gives the model another name; `provider/model` contains the name itself.
    shown = call.model if call.asked is None else call.asked.model
    renamed = model != shown and shown != f"{provider.name}/{model}"
    return Outbound(
        request,
        None,
        losses,
        call.client,
        adjustable=adjustable,
        renamed=renamed,
        echo=echo,
        source=source,
        declared=own,
        fit=fit,
        repair=bool(repair),
    )


def _with_long_context(headers: HeaderPairs, protocol: Protocol, model: str) -> HeaderPairs:
    """Return headers with the beta for the longest context window, if the model is of the vendor that has it."""
    endpoint = CODECS[protocol].endpoint
    if not endpoint.long_context_beta or maker_of(model) != endpoint.vendor:
        return headers
    return with_beta(headers, endpoint.betas_header, endpoint.long_context_beta)


def _without_foreign(call: ModelCall, body: bytes, profile: Profile) -> tuple[bytes, list[Loss]]:
    """Return the body without what only the vendor of the client's protocol understands, and the losses."""
    codec = CODECS[call.client]
    losses: list[Loss] = []
    if codec.turns.billing_block and not profile.billing_block and has_billing(body):
        body, losses = unbilled_body(body, call.strict)
    if codec.strip_agents is not None and not profile.agents:
        body, plain = codec.strip_agents(body)
        refuse_losses(plain, call.strict)
        losses = losses + plain
    return body, losses


def _may_be_broken(body: bytes, protocol: Protocol, wanted: Repair) -> bool:
    """Return whether a history may need a repair; other bodies need not be parsed.

    If the upstream knows the start of the history, only it can tell whether a result belongs to a call.
    """
    codec = CODECS[protocol]
    if not wanted or not (codec.tools.may_lack_results(body) if wanted == "auto" else _has_tools(body)):
        return False
    if codec.endpoint.continues and may_refer(body):
        return False
    return _state_field(body, codec.endpoint) is None


def _has_tools(body: bytes) -> bool:
    """Return whether a history may have tool calls or results."""
    return b'"tool' in body or b'_call"' in body or b'_call_output"' in body


def _fitted(call: ModelCall, body: bytes, target: Target, repair: Repair) -> tuple[bytes, list[Loss]]:
    """Return the body as the model accepts it, with its history repaired; the same bytes if nothing has to change."""
    ledger = Ledger()
    wire = parse_request(body)
    fitted: dict[str, Json] = fit_own(wire, target, ledger, repair=repair)
    ledger.refuse_if_any(call.strict)
    return body if fitted is wire else dump(fitted), ledger.losses


def _adjusted(call: ModelCall, body: bytes, remedies: tuple[Remedy, ...]) -> tuple[bytes, list[Loss]]:
    """Return the body without what the model is known to refuse."""
    wire = parse_request(body)
    changed, losses = adjusted(wire, remedies, call)
    return body if changed is wire else dump(changed), losses


def unbilled_body(body: bytes, strict: Severity | None) -> tuple[bytes, list[Loss]]:
    """Return the body without Claude Code's billing block, and the losses. Raises `StrictLoss` in strict mode."""
    body, losses = strip_billing(body)
    refuse_losses(losses, strict)
    return body, losses


def own_body(
    body: bytes, protocol: Protocol, strict: Severity | None, sealer: Sealer, profile: Profile
) -> tuple[bytes, list[Loss]]:
    """Return the body for an upstream of the client's own protocol, without values that only this gateway can read.

    The bytes are the same if there are none.
    """
    if not CODECS[protocol].reasoning.may_hold_sealed(body, accepts_text(protocol, profile)):
        return body, []
    if CODECS[protocol].endpoint.compaction:
        body = opened(body, sealer)
    ledger = Ledger()
    wire = parse_request(body)
    cleaned = without_sealed(wire, protocol, ledger, sealer, profile)
    ledger.refuse_if_any(strict)
    return body if cleaned is wire else dump(cleaned), ledger.losses


def stripped(call: ModelCall, only: list[str] | None = None) -> tuple[ModelCall, list[Loss]]:
    """Return the call without the reasoning of earlier turns, and the losses. Raises `StrictLoss` in strict mode.

    `only`: the beginnings of the values to remove; by default all are removed.
    """
    wire, losses = strip_reasoning(call.whole, protocol=call.client, only=only)
    if only is not None and not losses:
        return call, losses
    refuse_losses(losses, call.strict)
    body = dump(wire)
    turn = call.turn if call.turn is None or call.turn.foreign is not None else call.turn.with_expanded(body)
    memory = None if call.memory is None else call.memory.without_earlier() if only is None else call.memory
    return replace(call, body=body, turn=turn, memory=memory), losses


def _request(
    call: ModelCall, place: Place, protocol: Protocol, profile: Profile, headers: HeaderPairs, body: bytes
) -> UpstreamRequest:
    provider, endpoint = place.provider, CODECS[protocol].endpoint
    url = provider.url(protocol, call.path or endpoint.path or endpoint.url_path(place.model, call.stream))
    if endpoint.in_url is not None:
        body = without_head(body, place.model, call.stream)
    if call.query and protocol is call.client:
        url = with_query(url, call.query)
    clocks = provider.stream_timeouts if call.stream else provider.timeouts
    version = (endpoint.version_header, profile.version) if endpoint.version_header else None
    complete = place.account.posting(headers, call.stream, version, protocol)
    return UpstreamRequest(method="POST", url=url, headers=complete, body=body, timeouts=clocks)


log = structlog.get_logger("trilogue.gateway")
LOSS = "param.refused"
_OURS = frozenset({"include", "store", "stream_options", "prompt_cache_key"})
"""Fields that a translation may add although the client has not set them."""


def adjusted(body: dict[str, Json], remedies: Sequence[Remedy], call: ModelCall) -> tuple[dict[str, Json], list[Loss]]:
    """Return a body without what the model is known to refuse, and the losses of that."""
    usable = allowed(remedies, call)
    if not usable:
        return body, []
    body, changes = remedied(body, usable)
    return body, [] if refuses(call.strict, LOSS) else [Loss(LOSS, path, detail) for path, detail in changes]


def without_refused_betas(
    headers: HeaderPairs, protocol: Protocol, remedies: Sequence[Remedy], call: ModelCall
) -> tuple[HeaderPairs, list[Loss]]:
    """Return headers without the betas that the model is known to refuse, and the losses of that."""
    headers, changes = without_betas(headers, CODECS[protocol].endpoint.betas_header, allowed(remedies, call))
    return headers, [Loss(LOSS, path, detail) for path, detail in changes]


def read_lesson(failure: Failure, sent: UpstreamRequest, protocol: Protocol, call: ModelCall) -> tuple[Remedy, ...]:
    """Return what to change in a request; nothing if the failure is not about a parameter or a beta."""
    betas = read_betas(failure, CODECS[protocol].endpoint.betas_header, sent.headers)
    return tuple(allowed(betas or read_refusal(failure, parse_request(sent.body)), call))


def allowed(remedies: Sequence[Remedy], call: ModelCall) -> Sequence[Remedy]:
    """Return the remedies that may be used: in strict mode, none for what the client has set itself."""
    if not remedies or not refuses(call.strict, LOSS):
        return remedies
    asked = parse_request(call.body)
    return [remedy for remedy in remedies if (name := _top(remedy)) in _OURS and name not in asked]


def remember(pool: Pool, model: str, remedies: Sequence[Remedy]) -> None:
    """Keep what applies to all requests for the model, and log it once, so that the model table can be corrected."""
    for remedy in pool.lessons.learn(model, remedies):
        log.warning(
            "model refused a parameter",
            provider=pool.name,
            model=model,
            parameter=remedy.path,
            instead=instead(remedy),
            hint="docs/models.md says how to set this in `profile`",
        )


def instead(remedy: Remedy) -> str:
    """Return what is sent instead of a refused parameter, in words."""
    if remedy.action == "rename":
        return f"sent as {remedy.name}"
    if remedy.action == "drop":
        return "left out"
    if remedy.limit is None:
        return f"one of {', '.join(remedy.allowed)}"
    return f"at {'least' if remedy.least else 'most'} {remedy.limit:g}"


def _top(remedy: Remedy) -> str:
    return remedy.path.partition(".")[0].partition("[")[0]
