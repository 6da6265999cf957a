"""Counting input tokens: `POST /v1/messages/count_tokens` and `POST /v1/responses/input_tokens`.

Passed on where the upstream has the same endpoint, translated where it has the other protocol's, and otherwise an
estimate that says so in `trilogue-loss`.
"""

from __future__ import annotations

from trilogue.errors import UpstreamFailure
from trilogue.gateway.call import read_head, with_model
from trilogue.gateway.outbound import forwarded_headers
from trilogue.gateway.provider import Provider, credentials
from trilogue.gateway.relay import JSON_HEADERS, MAX_ERROR_BYTES, loss_header
from trilogue.gateway.visit import Visit
from trilogue.model import Json, Loss, Protocol
from trilogue.protocols.codec import Target
from trilogue.protocols.jsontext import dump, parse_request, parse_upstream
from trilogue.protocols.registry import codec
from trilogue.translate.requests import translate_request
from trilogue.upstream import UpstreamRequest

PATHS = {Protocol.MESSAGES: "/messages/count_tokens", Protocol.RESPONSES: "/responses/input_tokens"}

BYTES_PER_TOKEN = 4
"""English prose and JSON come to about four bytes a token with every current tokeniser."""

# Fields that a generation request has and the counting endpoints refuse.
_NOT_COUNTED = {
    Protocol.MESSAGES: ("max_tokens", "stream", "temperature", "top_p", "top_k", "stop_sequences", "metadata",
                        "service_tier"),
    Protocol.RESPONSES: ("max_output_tokens", "stream", "temperature", "top_p", "store", "include", "metadata",
                         "service_tier", "safety_identifier", "prompt_cache_key", "stream_options"),
}  # fmt: skip


async def handle(visit: Visit) -> None:
    """One count."""
    body = await visit.request.body(visit.services.limits.max_body_bytes)
    model, _ = read_head(body)
    visit.record.model = model
    target = visit.services.router.resolve(model, visit.client).targets[0]
    provider = visit.services.providers[target.provider]
    visit.record.provider, visit.record.upstream = provider.name, provider.protocol.short
    if provider.protocol not in PATHS or provider.is_demo:
        await _reply(visit, estimate(body), [Loss("count.estimated", "")])
        return
    losses: list[Loss] = []
    if provider.protocol is visit.client:
        wire = with_model(body, target.model)
    else:
        wire, losses = _translated(visit, body, provider, target.model)
    await _reply(visit, await _ask(visit, provider, wire), losses)


def estimate(body: bytes) -> int:
    """About how many tokens a request has."""
    return max(1, len(body) // BYTES_PER_TOKEN)


def _translated(visit: Visit, body: bytes, provider: Provider, model: str) -> tuple[bytes, list[Loss]]:
    wire = parse_request(body)
    if visit.client is Protocol.MESSAGES:
        wire = {"max_tokens": 1024, **wire}
    where = Target(protocol=provider.protocol, model=model, profile=provider.profile(model), provider=provider.name)
    up = translate_request(wire, source=visit.client, target=where, sealer=visit.services.sealer)
    counted = {name: value for name, value in up.body.items() if name not in _NOT_COUNTED[provider.protocol]}
    return dump(counted), up.losses


async def _ask(visit: Visit, provider: Provider, body: bytes) -> int:
    headers = forwarded_headers(visit.request.headers) if provider.protocol is visit.client else {}
    if provider.protocol is Protocol.MESSAGES:
        headers.setdefault("anthropic-version", "2023-06-01")
    complete = {
        **headers,
        "content-type": "application/json",
        **provider.headers,
        **credentials(provider, provider.account()),
    }
    request = UpstreamRequest(
        method="POST",
        url=provider.url(PATHS[provider.protocol]),
        headers=list(complete.items()),
        body=body,
        timeouts=provider.timeouts,
    )
    response = await provider.transport.send(request)
    try:
        answer = await response.read(MAX_ERROR_BYTES)
    finally:
        await response.aclose()
    if response.status >= 400:
        raise UpstreamFailure(codec(provider.protocol).decode_error(response.status, dict(response.headers), answer))
    count: Json = parse_upstream(answer).get("input_tokens")
    return count if isinstance(count, int) else estimate(body)


async def _reply(visit: Visit, count: int, losses: list[Loss]) -> None:
    body: dict[str, Json] = {"input_tokens": count}
    if visit.client is Protocol.RESPONSES:
        body = {"object": "response.input_tokens", **body}
    visit.record.answered(None, losses)
    await visit.responder.reply(200, [*JSON_HEADERS, *loss_header(losses)], dump(body))
