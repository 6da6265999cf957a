"""Translation of requests from any protocol to any other.

decode → offer built-in tools as functions → put kept reasoning back → open sealed values
→ remove what only the source has → make tool names legal → check or repair the history
→ separate calls with the same id → encode

A request whose source and target have the same protocol is not translated: the body stays unchanged, except for the
model's name and for sealed values, which mean nothing there.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import LARGE_BYTES, SUSPECT, blame, parse_request
from trilogue.errors import BadRequest
from trilogue.model import HostedKind, Json, Ledger, Loss, Protocol, Request, Role, Strictness, protocol_of
from trilogue.protocols.codec import EncodingContext, Target
from trilogue.protocols.endpoint import estimate
from trilogue.protocols.fit.caching import takes_session, with_session
from trilogue.protocols.fit.request import emulated_stops, fit_request
from trilogue.protocols.registry import CODECS
from trilogue.translate.content.billing import without_billing
from trilogue.translate.content.history import (
    PROMPTS,
    History,
    Repair,
    checked_history,
    ended_by_user,
    is_plain,
    lone_prompts_as_user,
    refuse_unanswered,
    repair_history,
)
from trilogue.translate.foreign import Foreign
from trilogue.translate.pipeline import NO_CALLS, Exchange, default_sealer
from trilogue.translate.reasoning.kept import Recall, put_back
from trilogue.translate.reasoning.provenance import RequestOpener
from trilogue.translate.reasoning.removal import without_sealed
from trilogue.translate.reasoning.seal import Sealer
from trilogue.translate.tools.calls import separate_call_ids
from trilogue.translate.tools.client_tools import NO_BUILTINS, Builtins, offer_builtins
from trilogue.translate.tools.deferred import ToolSearch, offer_found, offer_search, without_search, without_waiting
from trilogue.translate.tools.names import NO_NAMES, Namer, ToolNames


class RequestTranslation(Struct, frozen=True):
    """A translated request: the body for the upstream, its losses, and what translating the response needs."""

    body: dict[str, Json]
    losses: list[Loss]
    exchange: Exchange


class RequestOptions(Struct, frozen=True, kw_only=True):
    """How a request is translated; see `translate_request`.

    `recall`: what earlier translations have `kept`, which is put back where the client has left it out. If it is given,
    the translation of the response says what must be kept of it. A request that stays in its protocol needs none.
    `searches`: the caller runs the client's tool search where the target has none; see `StreamTranslator`.
    `session`: names the conversation. OpenAI's own protocols get a hash of it as `prompt_cache_key`, unless the client
    has set one.
    """

    strict: Strictness = False
    repair: Repair = False
    sealer: Sealer | None = None
    recall: Recall | None = None
    session: str = ""
    searches: bool = False


def translate_request(
    body: dict[str, Json] | bytes | str,
    *,
    source: Protocol | str,
    target: Protocol | Target | str,
    strict: Strictness = False,
    repair: bool = False,
    sealer: Sealer | None = None,
) -> RequestTranslation:
    """Translate a request body.

    `target`: the upstream's protocol, or a `Target` with its model, provider, account and profile. `strict`: raise
    `StrictLoss` for losses from this severity on, or from `degraded` on if it is True. `repair`: repair a
    history with tool calls that have no results.

    Raises `BadRequest` for a request that is not valid in its own protocol, and `Unsupported` for a feature without a
    sensible equivalent in the target's protocol.
    """
    options = RequestOptions(strict=strict, repair=repair, sealer=sealer)
    return translate_request_with(body, source, target, options)


def translate_request_with(
    body: dict[str, Json] | bytes | str,
    source: Protocol | str,
    target: Protocol | Target | str,
    options: RequestOptions,
) -> RequestTranslation:
    """Translate a request body with more options than `translate_request` has, which says what is raised."""
    sealer, repair = options.sealer, options.repair
    # The gateway passes a `Protocol` with every request; only callers of the library pass names.
    if type(source) is not Protocol:
        source = protocol_of(source)
    wire = body if isinstance(body, dict) else parse_request(body)
    ledger, used_sealer = Ledger(), sealer or default_sealer()
    names, calls, builtins = NO_NAMES, NO_CALLS, NO_BUILTINS
    stop: tuple[str, ...] = ()
    search: ToolSearch | None = None
    try:
        request = CODECS[source].decode_request(wire)
        where = target if isinstance(target, Target) else Target.of(target, request.model)
        if where.protocol is source:
            wire, translated = _same_protocol(wire, request, where, ledger, sealer, repair)
        else:
            request = _for_others(wire, request, ledger)
            if options.searches and not has_tool_search(where):
                request, search = _with_search(wire, request, where, ledger)
            if not where.profile.tool_search and search is None:
                request = without_search(request, ledger)
            request, builtins = _prepared(request, where, ledger, options.session, search)
            if options.recall:
                request = put_back(request, options.recall)
            request, names, calls = _adapt(request, where, used_sealer, ledger, repair, search)
            if request.turns and request.turns[-1].role is Role.ASSISTANT:
                request = ended_by_user(request, where, ledger)
            translated = CODECS[where.protocol].encode_request(request, where, ledger)
            if request.sampling.stop:
                stop = emulated_stops(request.sampling.stop, where.profile, CODECS[where.protocol].turns.stop_sequences)
    # A parsed body may have values that no JSON text has; then it is the caller's fault, not ours.
    except SUSPECT:
        blame(wire, BadRequest)
        raise
    if options.strict:
        ledger.refuse_if_any(options.strict)
    exchange = Exchange(
        client=source,
        target=where,
        body=wire,
        model=request.model,
        names=names,
        calls=calls,
        stop=stop,
        builtins=builtins,
        search=search,
        sealer=used_sealer,
        parsed=wire is not body,
        keeps=options.recall is not None,
        # Estimating a large body takes milliseconds, so do it here, off the event loop.
        tokens=estimate(wire) if isinstance(body, bytes) and len(body) > LARGE_BYTES else None,
    )
    return RequestTranslation(translated, ledger.losses, exchange)


def fit_own(wire: dict[str, Json], target: Target, ledger: Ledger, *, repair: Repair = False) -> dict[str, Json]:
    """Fit a request that stays in its protocol to the target's profile. `repair`: repair its history as well.

    Returns the same object if it fits; it is only encoded again if something has to change.
    """
    codec = CODECS[target.protocol]
    request = codec.decode_request(wire)
    fitted = _repaired(request, ledger, repair) if repair else request
    out = EncodingContext(target.protocol, target.profile, ledger, native=True)
    fitted = fit_request(fitted, out, target.protocol)
    return wire if fitted is request else codec.encode_request(fitted, target, ledger)


def _repaired(request: Request, ledger: Ledger, repair: Repair) -> Request:
    """Return the request with its history repaired; the same object if nothing was broken."""
    before = len(ledger.losses)
    repaired = repair_history(request, ledger, repair)
    return repaired if len(ledger.losses) > before else request


def _same_protocol(
    wire: dict[str, Json], request: Request, target: Target, ledger: Ledger, sealer: Sealer | None, repair: Repair
) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return a request that stays in its protocol twice: without sealed values, and as the upstream gets it."""
    codec = CODECS[target.protocol]
    cleaned = without_sealed(wire, target.protocol, ledger, sealer, target.profile)
    if cleaned is not wire:
        request = codec.decode_request(cleaned)
    repaired = _repaired(request, ledger, repair) if repair else request
    if repaired is not request:
        return cleaned, codec.encode_request(repaired, target, ledger)
    return cleaned, {**cleaned, "model": target.model}


def _for_others(wire: dict[str, Json], request: Request, ledger: Ledger) -> Request:
    """Return the request without what only one vendor and its client have."""
    codec = CODECS[request.protocol]
    if codec.for_others is None or (plain := codec.for_others(wire, ledger)) is wire:
        return request
    return codec.decode_request(plain)


def has_tool_search(target: Target) -> bool:
    """Return whether the target's provider can search for tools itself."""
    return HostedKind.TOOL_SEARCH in CODECS[target.protocol].tools.hosted and target.profile.tool_search


def _with_search(
    wire: dict[str, Json], request: Request, target: Target, ledger: Ledger
) -> tuple[Request, ToolSearch | None]:
    """Return the request with the client's tool search as a function that the caller answers, and what it finds."""
    form, limit = CODECS[request.protocol].tools.search, CODECS[target.protocol].tools.name_limit
    return (request, None) if form is None else offer_search(request, wire, form, limit, ledger)


def _prepared(
    request: Request, target: Target, ledger: Ledger, session: str, search: ToolSearch | None
) -> tuple[Request, Builtins]:
    """Return the request with tools that every protocol has, and with a cache key."""
    if search is None:
        request = offer_found(request, ledger)
    request, builtins = offer_builtins(request, ledger)
    if session and takes_session(target):
        request = with_session(request, session, target)
    # Only Claude Code sends it, and only over Messages.
    if not target.profile.billing_block and CODECS[request.protocol].turns.billing_block:
        request = without_billing(request, ledger)
    return request, builtins


def _refuse_empty(request: Request) -> None:
    """Raise `BadRequest` if the request has no content."""
    for turn in request.turns:
        if turn.blocks or turn.plain:  # an empty string counts as content
            return
    path = request.where("turns")
    raise BadRequest(f"{path} is missing or empty: there is nothing to respond to", path=path)


def _adapt(
    request: Request, target: Target, sealer: Sealer, ledger: Ledger, repair: Repair, search: ToolSearch | None
) -> tuple[Request, ToolNames, frozenset[str]]:
    """Return the request as the target's encoder expects it: see docs/codecs.md, "Encoding declares or refuses".

    Also returns the tool names for the response, and the ids of the calls in the history.
    """
    ours, theirs = CODECS[request.protocol], CODECS[target.protocol]
    # Messages requires a user turn; the other protocols do not.
    if theirs.turns.needs_user and request.turns and request.turns[-1].role in PROMPTS:
        request = lone_prompts_as_user(request, ledger)
    plain = is_plain(request.turns)
    opener = RequestOpener(sealer, target, ledger)
    foreign = Foreign(ours, theirs, ledger, frozenset() if plain else opener.replayable(request))
    adapted, names, calls = foreign.request(request), NO_NAMES, NO_CALLS
    _refuse_empty(adapted)
    if plain and not (adapted.tools or adapted.tool_choice or adapted.namespaces):
        return adapted, names, calls
    custom = theirs.tools.custom and target.profile.custom_tools
    namer = Namer(limit=theirs.tools.name_limit, custom_tools=custom, ledger=ledger)
    adapted, names = namer.request(adapted)
    if search is not None:
        # Waiting tools have got their names as well, so that these do not depend on what was found.
        adapted = without_waiting(adapted)
    if not plain:
        refuse_unanswered(request.turns, ours.fields.policies)
        adapted = replace(adapted, turns=History(opener, foreign, namer).turns(request.turns))
        adapted, calls, shared = checked_history(adapted, ledger, repair=repair)
        if shared:
            adapted = separate_call_ids(adapted)
    return adapted, names, calls
