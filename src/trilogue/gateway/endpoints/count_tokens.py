"""Token counts: `POST /v1/messages/count_tokens`, `POST /v1/responses/input_tokens`, and those of other protocols.

The request is passed through if the upstream has the same endpoint, and translated if it has that of another protocol.
Otherwise the response is an estimate, which is declared as a loss.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Set
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import dump, parse_request, parse_upstream
from trilogue.errors import UpstreamFailure, UpstreamTimeout
from trilogue.gateway.conversations.summaries import opened
from trilogue.gateway.conversations.turn import StoredTurn
from trilogue.gateway.endpoints.judging import judge_count
from trilogue.gateway.request.call import read_asked, with_model, without_head
from trilogue.gateway.request.failures import MAX_ERROR_BYTES, error_body, response_failure
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.request.limits import check_allowed
from trilogue.gateway.request.outbound import own_body, refuse_state, unbilled_body
from trilogue.gateway.request.ownership import check_body
from trilogue.gateway.request.request import RequestContext, read_large, targets_of, watching
from trilogue.gateway.request.turns import stored_turn
from trilogue.gateway.response.client_response import JSON_HEADERS, loss_header
from trilogue.model import FailureKind, Ledger, Loss, Protocol
from trilogue.net.client.interface import Transport, UpstreamRequest, UpstreamResponse
from trilogue.protocols.codec import Target
from trilogue.protocols.endpoint import estimate
from trilogue.protocols.registry import CODECS
from trilogue.routing.router import ProviderModel
from trilogue.translate.content.billing import has_billing
from trilogue.translate.requests import RequestOptions, fit_own, translate_request_with
from trilogue.upstreams.headers import with_query
from trilogue.upstreams.provider import UpstreamAccount, UpstreamProvider

_NO_SUCH_ENDPOINT = frozenset({404, 405, 501})
"""statuses of servers that speak the protocol and do not count tokens"""


class TokenCount(Struct, frozen=True):
    """A token count, its losses, and the upstream's own response if the client speaks its protocol."""

    tokens: int
    losses: list[Loss]
    native: bytes | None = None


async def handle(context: RequestContext) -> None:
    """Respond with a token count, or with an estimate if no upstream can count. Raises ClientGone and TrilogueError."""
    body = await context.request.body(context.entry.gateway.settings.max_body_bytes)
    if context.byte_observers is not None and context.byte_observers.inbound_request is not None:
        context.byte_observers.inbound_request(body)
    large = len(body) > LARGE_BYTES
    if large:
        asked = await read_large(context, body)
    else:
        asked = read_asked(
            body, context.entry.gateway.models.only_model, strict=context.strict, head=context.entry.head
        )
    context.record.model = asked.model
    targets: Sequence[ProviderModel] = await targets_of(context, asked.model)
    await check_body(context, asked.body, targets)
    turn = await stored_turn(context, asked.body, locks=False) if context.entry.continues else None
    if context.entry.judged and turn is not None and turn.foreign is None:
        # What came before is sent too.
        asked, turn = replace(asked, body=turn.expanded), None
    if context.entry.judged:
        judged = await judge_count(context, asked, targets)
        call, targets = judged.call, judged.targets
        asked = replace(asked, body=call.body, model=call.model, losses=call.losses)
    body, target = asked.body, check_allowed(context, asked.model, targets, asked.body)[0]
    provider = context.entry.gateway.upstreams.providers[target.provider]
    record = context.record
    record.provider = provider.name
    protocol = context.entry.client if context.entry.client in provider.protocols else provider.protocol
    record.upstream, record.upstream_model = protocol.short, target.model
    body = _with_history(context, body, turn, provider, target)
    counted = None
    with watching(context):
        if CODECS[protocol].endpoint.counting is not None and not provider.is_demo:
            counted = await _counted(context, body, provider, _Asked(protocol, target.model, asked.model))
        if counted is None:
            counted = await in_thread(_estimated, context, body) if large else _estimated(context, body)
    await _reply(context, replace(counted, losses=[*asked.losses, *counted.losses]))


def _with_history(
    context: RequestContext, body: bytes, turn: StoredTurn | None, provider: UpstreamProvider, target: ProviderModel
) -> bytes:
    """Return a request with what it refers to, unless its upstream knows that. Raises ClientError for unknown ids."""
    client = context.entry.client
    if not context.entry.continues:
        return body
    speaks = client in provider.protocols and not provider.is_demo
    keeps_state = speaks and provider.profile(target.model, client).keeps_state
    # Any of several accounts may be asked, and only one of them knows the earlier response.
    account = next(iter(provider.accounts)) if len(provider.accounts) == 1 else ""
    if turn is not None and turn.is_complete_with(provider.name, account, keeps_state):
        body = turn.expanded_for(provider.name, account)[0]
    if not keeps_state:
        refuse_state(body, client)
    return body


class _Asked(NamedTuple):
    """The protocol and the model that an upstream gets, and the model in the request."""

    protocol: Protocol
    model: str
    named: str


def _estimated(context: RequestContext, body: bytes) -> TokenCount:
    ledger = Ledger()
    ledger.add("count.estimated", "")
    ledger.refuse_if_any(context.strict)
    return TokenCount(estimate(parse_request(body)), ledger.losses)


async def _counted(
    context: RequestContext, body: bytes, provider: UpstreamProvider, asked: _Asked
) -> TokenCount | None:
    """Return the upstream's count; None if it cannot count. Raises `UpstreamError`."""
    protocol, model = asked.protocol, asked.model
    if len(body) > LARGE_BYTES:
        wire, losses = await in_thread(_for_upstream, context, body, provider, asked)
    else:
        wire, losses = _for_upstream(context, body, provider, asked)
    with provider.borrow(model) as (account, transport):
        context.record.account = account.name
        context.record.own_key = provider.passes_client_key
        used = account.for_client(context.entry.client_key, context.entry.client)
        request = _request(context, provider, used, wire, asked)
        response, data = await _exchange(transport, request, provider.clocks.total)
    if response.status >= 400:
        failure = response_failure(response, data, protocol, used.redactor)
        if response.status in _NO_SUCH_ENDPOINT and failure.kind is not FailureKind.MODEL_NOT_FOUND:
            return None
        raise UpstreamFailure(failure)
    counting = CODECS[protocol].endpoint.counting
    count = counting.decode(parse_upstream(data, whole=True)) if counting is not None else None
    if not isinstance(count, int):
        return None
    return TokenCount(count, losses, data if protocol is context.entry.client else None)


def _for_upstream(
    context: RequestContext, body: bytes, provider: UpstreamProvider, asked: _Asked
) -> tuple[bytes, list[Loss]]:
    """Return the body that the upstream gets, and its losses."""
    protocol, model, named = asked
    if protocol is not context.entry.client:
        return _translated(context, body, provider, asked)
    profile = provider.profile(model, protocol)
    own, losses = own_body(body, protocol, context.strict, context.entry.sealer, profile)
    if model != named:
        own = with_model(own, named, model)
    if CODECS[protocol].turns.billing_block and not profile.billing_block and has_billing(own):
        own, unbilled = unbilled_body(own, context.strict)
        losses = losses + unbilled
    strip = CODECS[protocol].strip_agents
    if strip is not None and not profile.agents:
        own, plain = strip(own)
        losses = losses + plain
    fit = provider.own_profile(model, protocol)
    if fit is None:
        return own, losses
    fitted, changed = _fitted(context, own, Target(protocol=protocol, model=model, profile=fit, provider=provider.name))
    return fitted, losses + changed


def _fitted(context: RequestContext, body: bytes, target: Target) -> tuple[bytes, list[Loss]]:
    """Return a body of the upstream's own protocol as the model accepts it; the same bytes if nothing has to change."""
    ledger, given = Ledger(), parse_request(body)
    counting = CODECS[target.protocol].endpoint.counting
    added = counting.added if counting is not None else {}
    wire = {**added, **given}
    fitted = fit_own(wire, target, ledger)
    ledger.refuse_if_any(context.strict)
    if fitted is wire:
        return body, []
    return dump({name: value for name, value in fitted.items() if name in given or name not in added}), ledger.losses


async def _exchange(transport: Transport, request: UpstreamRequest, seconds: float) -> tuple[UpstreamResponse, bytes]:
    """Return the upstream's response and its body. Raises `UpstreamTimeout` if that takes longer than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            response = await transport.send(request)
            try:
                failed = response.status >= 400
                return response, await (error_body(response) if failed else response.read(MAX_ERROR_BYTES))
            finally:
                await response.aclose()
    except TimeoutError:
        raise UpstreamTimeout(f"there was no complete response within {seconds:g} s (timeouts.total)") from None


def _translated(
    context: RequestContext, body: bytes, provider: UpstreamProvider, asked: _Asked
) -> tuple[bytes, list[Loss]]:
    protocol, model = asked.protocol, asked.model
    endpoint = CODECS[context.entry.client].endpoint
    wire = parse_request(opened(body, context.entry.sealer) if endpoint.compaction else body)
    counting = endpoint.counting
    if counting is not None:
        wire = {**counting.added, **wire}
    where = Target(protocol=protocol, model=model, profile=provider.profile(model, protocol), provider=provider.name)
    # The gateway runs tool search for generation, so that tools which wait do not count.
    options = RequestOptions(strict=context.strict, sealer=context.entry.sealer, searches=True)
    up = translate_request_with(wire, context.entry.client, where, options)
    theirs = CODECS[protocol].endpoint.counting
    omitted: Set[str] = theirs.omitted if theirs is not None else frozenset()
    return dump({name: value for name, value in up.body.items() if name not in omitted}), up.losses


def _request(
    context: RequestContext, provider: UpstreamProvider, account: UpstreamAccount, body: bytes, asked: _Asked
) -> UpstreamRequest:
    protocol, model = asked.protocol, asked.model
    endpoint = CODECS[protocol].endpoint
    url = provider.url(protocol, endpoint.count_path(model))
    if endpoint.in_url is not None:
        body = without_head(body, model, False)
    headers = context.entry.hop
    if protocol is context.entry.client:
        headers = context.entry.forwarded
        url = with_query(url, context.entry.query)
    complete = account.posting(headers, False, provider.version(model, protocol), protocol)
    return UpstreamRequest(method="POST", url=url, headers=complete, body=body, timeouts=provider.timeouts)


async def _reply(context: RequestContext, count: TokenCount) -> None:
    counting = CODECS[context.entry.client].endpoint.counting
    body = counting.encode(count.tokens) if counting is not None else {}
    context.record.declare(count.losses)
    context.responder.reply(200, [*JSON_HEADERS, *loss_header(count.losses)], count.native or dump(body))
