"""Whole responses: read the upstream's body, convert it, and send it to the client in one piece."""

from __future__ import annotations

from codecs import BOM_UTF8

from trilogue.base.json_text import dump
from trilogue.gateway.conversations.echo import echoed_body
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.response.attempt import RelayResult, UpstreamAttempt
from trilogue.gateway.response.client_response import ClientResponse
from trilogue.gateway.response.continuation import Continuation
from trilogue.gateway.response.first_bytes import is_stream
from trilogue.gateway.response.judged_whole import judged_whole
from trilogue.gateway.response.pass_through import renamed
from trilogue.protocols.codec import ResponseSummary
from trilogue.translate.responses import (
    ResponseTranslation,
    collect_stream,
    is_empty,
    summarize_response,
    translate_response,
)

Converted = tuple[ResponseSummary, bytes, ResponseTranslation | None]
"""what the record needs to know, the client's body, and the translation if there was one"""


async def relay_whole(
    client: ClientResponse, attempt: UpstreamAttempt, gateway: Gateway, continuation: Continuation | None = None
) -> RelayResult:
    """Send the client the upstream's whole response. Raises UpstreamError, before anything is sent, if it is not one.

    What the upstream says about a failure must be `redacted` before it is logged or sent.
    """
    body = await attempt.response.read(gateway.settings.max_body_bytes)
    if body.startswith(BOM_UTF8):
        # Not every client's JSON parser accepts it.
        body = body.removeprefix(BOM_UTF8)
    if continuation is not None and body[:1] == b"{":
        body = await continuation.complete(body, gateway.settings.max_body_bytes)
    losses = attempt.outbound.losses
    if client.call.policies is not None and client.call.policies.sees_responses:
        summary, body, translation, changes = await judged_whole(
            client, attempt, body, client.call.policies, client.call.sealer
        )
        losses = [*losses, *changes]
    elif len(body) > LARGE_BYTES:
        summary, body, translation = await in_thread(_converted, client, attempt, body)
    else:
        summary, body, translation = _converted(client, attempt, body)
    # Also if the response cannot be stored: it was paid for.
    record = client.record
    record.usage, record.empty = summary.usage, summary.empty
    record.response_id, record.response_model, record.stop = summary.id, summary.model, summary.stop
    if translation is not None:
        losses = [*losses, *translation.losses]
    if continuation is not None:
        losses = [*losses, *continuation.losses]
    if client.call.turn is not None:
        await client.call.turn.keep(body, attempt.origin, attempt.account)
    if translation is not None and client.call.memory is not None:
        await client.call.memory.keep(translation.kept)
    client.reply(attempt, losses, body)
    return RelayResult(usage=summary.usage, response_id=summary.id if translation is None else "")


def _converted(client: ClientResponse, attempt: UpstreamAttempt, body: bytes) -> Converted:
    """Convert a body for the client."""
    outbound, call = attempt.outbound, client.call
    upstream = outbound.protocol
    if body[:1] != b"{" and is_stream(attempt.response, body):
        body = dump(collect_stream(body, protocol=upstream))
    if outbound.exchange is None:
        summary = summarize_response(body, source=upstream)
        body = renamed(body, call.shown_model) if outbound.renamed else body
        return summary, body if outbound.echo is None else echoed_body(body, outbound.echo), None
    down = translate_response(
        body, source=upstream, target=call.client, exchange=outbound.exchange, stamp=client.stamp()
    )
    own = down.response
    summary = ResponseSummary(own.id, own.usage, is_empty(own), own.model, own.stop.reason)
    return summary, dump(down.body), down
