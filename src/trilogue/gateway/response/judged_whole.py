"""Whole responses that policies judge. One that they do not change keeps its bytes if it is not translated."""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.base.json_text import dump, parse_upstream
from trilogue.gateway.conversations.echo import echoed_body
from trilogue.gateway.policies.run import RequestPolicies
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.response.attempt import UpstreamAttempt
from trilogue.gateway.response.client_response import ClientResponse
from trilogue.gateway.response.first_bytes import is_stream
from trilogue.gateway.response.judged_stream import reply_for, unsigned_for
from trilogue.gateway.response.pass_through import renamed
from trilogue.model import Audio, Ledger, Loss, Reasoning, Refusal, Response, Text, ToolCall
from trilogue.policies import PolicyRun
from trilogue.protocols.codec import ResponseSummary
from trilogue.protocols.registry import CODECS
from trilogue.translate.reasoning.seal import Sealer
from trilogue.translate.responses import ResponseTranslation, ResponseTranslator, collect_stream, is_empty

JudgedResponse = tuple[ResponseSummary, bytes, ResponseTranslation | None, list[Loss]]
"""what the record needs to know, the client's body, the translation if there was one, and losses besides its own"""

_CHOICES = "choices"
_OF_CHOICES = (Text, Refusal, Reasoning, ToolCall, Audio)


async def judged_whole(
    client: ClientResponse, attempt: UpstreamAttempt, body: bytes, policies: RequestPolicies, sealer: Sealer
) -> JudgedResponse:
    """Return a whole response for the client after the policies have judged it."""
    if attempt.outbound.exchange is not None:
        return await _translated(client, attempt, body, policies)
    return await _passed(client, attempt, body, policies, sealer)


async def _translated(
    client: ClientResponse, attempt: UpstreamAttempt, body: bytes, policies: RequestPolicies
) -> JudgedResponse:
    run, large = policies.response_run(), len(body) > LARGE_BYTES
    begin = (client, attempt, body, run)
    translator = await in_thread(_translator, *begin) if large else _translator(*begin)
    await policies.settle(run)
    down = await in_thread(translator.result) if large else translator.result()
    return _summary(down.response), dump(down.body), down, []


def _translator(client: ClientResponse, attempt: UpstreamAttempt, body: bytes, run: PolicyRun) -> ResponseTranslator:
    outbound = attempt.outbound
    wire = collect_stream(body, protocol=outbound.protocol) if _streams(attempt, body) else body
    return ResponseTranslator(
        wire,
        source=outbound.protocol,
        target=client.call.client,
        exchange=outbound.exchange,
        stamp=client.stamp(),
        policies=run,
    )


async def _passed(
    client: ClientResponse, attempt: UpstreamAttempt, body: bytes, policies: RequestPolicies, sealer: Sealer
) -> JudgedResponse:
    run, ledger, outbound = policies.response_run(), Ledger(), attempt.outbound
    run.attach(ledger, unsigned_for(attempt, sealer), outbound.protocol)
    if _streams(attempt, body):
        body = dump(collect_stream(body, protocol=outbound.protocol))
    large = len(body) > LARGE_BYTES
    own = await in_thread(_decoded, attempt, body) if large else _decoded(attempt, body)
    judgeable = _without_choices(own) if run.wants(_OF_CHOICES) else own
    run.feed_response(judgeable)
    await policies.settle(run)
    judged = run.response
    if judged is not None and (judged is not judgeable or judgeable is not own):
        if judgeable is not own:
            ledger.add("choices.dropped", _CHOICES)
        reply = reply_for(client, attempt)
        reply.ledger = ledger
        body = dump(CODECS[outbound.protocol].encode_response(judged, reply))
    elif outbound.renamed:
        body = renamed(body, client.call.shown_model)
    if outbound.echo is not None:
        body = echoed_body(body, outbound.echo)
    return _summary(own), body, None, ledger.losses


def _decoded(attempt: UpstreamAttempt, body: bytes) -> Response:
    return CODECS[attempt.outbound.protocol].decode_response(parse_upstream(body, whole=True))


def _streams(attempt: UpstreamAttempt, body: bytes) -> bool:
    return body[:1] != b"{" and is_stream(attempt.response, body)


def _without_choices(response: Response) -> Response:
    """Return a response without the choices that policies cannot judge; the same object if there is only one."""
    extras = response.extras or {}
    if _CHOICES not in extras:
        return response
    return replace(response, extras={name: value for name, value in extras.items() if name != _CHOICES})


def _summary(own: Response) -> ResponseSummary:
    return ResponseSummary(own.id, own.usage, is_empty(own), own.model, own.stop.reason)
