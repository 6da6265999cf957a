"""Counting input tokens: `POST /v1/messages/count_tokens` and `POST /v1/responses/input_tokens`.

Passed on where the upstream has the same endpoint, translated where it has the other protocol's, and otherwise an
estimate that says so in `trilogue-loss`.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import UpstreamFailure, UpstreamTimeout
from trilogue.gateway.request.call import read_asked, with_model
from trilogue.gateway.request.context import RequestContext, read_large, targets_of, watching
from trilogue.gateway.request.failures import response_failure
from trilogue.gateway.request.large_bodies import LARGE_BYTES, beside
from trilogue.gateway.request.outbound import own_body
from trilogue.gateway.response.relay import JSON_HEADERS, MAX_ERROR_BYTES, error_body, loss_header
from trilogue.gateway.setup.headers import with_query
from trilogue.gateway.setup.provider import UpstreamAccount, UpstreamProvider
from trilogue.jsontext.text import dump, parse_request, parse_upstream
from trilogue.model import FailureKind, Json, Ledger, Loss, Protocol
from trilogue.protocols.codec import Target
from trilogue.protocols.content.tokens import estimate
from trilogue.translate.requests import translate_request
from trilogue.upstream import Transport, UpstreamRequest, UpstreamResponse

PATHS = {Protocol.MESSAGES: "/messages/count_tokens", Protocol.RESPONSES: "/responses/input_tokens"}

_NO_SUCH_ENDPOINT = frozenset({404, 405, 501})
"""what servers say that speak the protocol and do not count"""

# Fields that a generation request has and the counting endpoints refuse.
_NOT_COUNTED = {
    Protocol.MESSAGES: ("max_tokens", "stream", "temperature", "top_p", "top_k", "stop_sequences", "metadata",
                        "service_tier"),
    Protocol.RESPONSES: ("max_output_tokens", "stream", "temperature", "top_p", "store", "include", "metadata",
                         "service_tier", "safety_identifier", "prompt_cache_key", "stream_options"),
}  # fmt: skip


class TokenCount(Struct, frozen=True):
    """A count, and the upstream's own answer where the client speaks its protocol."""

    tokens: int
    losses: list[Loss]
    native: bytes | None = None


async def handle(visit: RequestContext) -> None:
    """One count."""
    body = await visit.request.body(visit.entry.services.limits.max_body_bytes)
    large = len(body) > LARGE_BYTES
    if large:
        asked = await read_large(visit, body)
    else:
        asked = read_asked(body, visit.entry.services.only_model, strict=visit.strict)
    body, visit.record.model = asked.body, asked.model
    target = (await targets_of(visit, asked.model))[0]
    provider = visit.entry.services.providers[target.provider]
    record = visit.record
    record.provider = provider.name
    protocol = visit.entry.client if visit.entry.client in provider.protocols else provider.protocol
    record.upstream, record.upstream_model = protocol.short, target.model
    counted = None
    with watching(visit):
        if protocol in PATHS and not provider.is_demo:
            counted = await _counted(visit, body, provider, _Asked(protocol, target.model))
        if counted is None:
            counted = await beside(_estimated, visit, body) if large else _estimated(visit, body)
    await _reply(visit, replace(counted, losses=[*asked.losses, *counted.losses]))


class _Asked(NamedTuple):
    """In which protocol an upstream is asked for which of its models."""

    protocol: Protocol
    model: str


def _estimated(visit: RequestContext, body: bytes) -> TokenCount:
    ledger = Ledger()
    ledger.add("count.estimated", "")
    ledger.refuse_if_any(visit.strict)
    return TokenCount(estimate(parse_request(body)), ledger.losses)


async def _counted(visit: RequestContext, body: bytes, provider: UpstreamProvider, asked: _Asked) -> TokenCount | None:
    """What the upstream counts; None if it cannot."""
    protocol, model = asked
    if len(body) > LARGE_BYTES:
        wire, losses = await beside(_for_upstream, visit, body, provider, asked)
    else:
        wire, losses = _for_upstream(visit, body, provider, asked)
    with provider.borrow(model) as (account, transport):
        visit.record.account = account.name
        request = _request(visit, provider, account, wire, asked)
        response, answer = await _answered(transport, request, provider.clocks.total)
    if response.status >= 400:
        failure = response_failure(response, answer, protocol, account.blank)
        if response.status in _NO_SUCH_ENDPOINT and failure.kind is not FailureKind.MODEL_NOT_FOUND:
            return None
        raise UpstreamFailure(failure)
    count = parse_upstream(answer, whole=True).get("input_tokens")
    if not isinstance(count, int):
        return None
    return TokenCount(count, losses, answer if protocol is visit.entry.client else None)


def _for_upstream(
    visit: RequestContext, body: bytes, provider: UpstreamProvider, asked: _Asked
) -> tuple[bytes, list[Loss]]:
    """The body that the upstream gets, and what it lost."""
    protocol, model = asked
    if protocol is not visit.entry.client:
        return _translated(visit, body, provider, asked)
    words = provider.profile(model, protocol).raw_reasoning
    own, losses = own_body(body, protocol, visit.strict, visit.entry.services.sealer, words=words)
    return own if model == visit.record.model else with_model(own, visit.record.model, model), losses


async def _answered(transport: Transport, request: UpstreamRequest, seconds: float) -> tuple[UpstreamResponse, bytes]:
    """What the upstream says, all of it within the time that an answer may take."""
    try:
        async with asyncio.timeout(seconds):
            response = await transport.send(request)
            try:
                failed = response.status >= 400
                return response, await (error_body(response) if failed else response.read(MAX_ERROR_BYTES))
            finally:
                await response.aclose()
    except TimeoutError:
        raise UpstreamTimeout(f"there was no complete answer within {seconds:g} s (timeouts.total)") from None


def _translated(
    visit: RequestContext, body: bytes, provider: UpstreamProvider, asked: _Asked
) -> tuple[bytes, list[Loss]]:
    protocol, model = asked
    wire = parse_request(body)
    if visit.entry.client is Protocol.MESSAGES:
        wire = {"max_tokens": 1024, **wire}
    where = Target(protocol=protocol, model=model, profile=provider.profile(model, protocol), provider=provider.name)
    up = translate_request(
        wire, source=visit.entry.client, target=where, strict=visit.strict, sealer=visit.entry.services.sealer
    )
    counted = {name: value for name, value in up.body.items() if name not in _NOT_COUNTED[protocol]}
    return dump(counted), up.losses


def _request(
    visit: RequestContext, provider: UpstreamProvider, account: UpstreamAccount, body: bytes, asked: _Asked
) -> UpstreamRequest:
    protocol, model = asked
    url = provider.url(protocol, PATHS[protocol])
    headers = visit.entry.hop
    if protocol is visit.entry.client:
        headers = visit.entry.forwarded
        url = with_query(url, visit.entry.query)
    version = provider.profile(model, protocol).version if protocol is Protocol.MESSAGES else ""
    complete = account.posting(headers, False, version)
    return UpstreamRequest(method="POST", url=url, headers=complete, body=body, timeouts=provider.timeouts)


async def _reply(visit: RequestContext, count: TokenCount) -> None:
    body: dict[str, Json] = {"input_tokens": count.tokens}
    if visit.entry.client is Protocol.RESPONSES:
        body = {"object": "response.input_tokens", **body}
    visit.record.answered(None, count.losses)
    visit.responder.reply(200, [*JSON_HEADERS, *loss_header(visit.record.losses)], count.native or dump(body))
