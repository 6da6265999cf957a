"""One response: make attempts, while the client and the time limits are watched, and send an error if all of them fail.

In: a request that was read and routed, and where its response goes. The endpoints decide both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trilogue.base.text import sane
from trilogue.errors import BadRequest, UpstreamError
from trilogue.gateway.request.call import ModelCall, ReadBody
from trilogue.gateway.request.failures import client_failure
from trilogue.gateway.request.limits import count_request
from trilogue.gateway.request.request import RequestContext, cancelled_error
from trilogue.gateway.response.attempts import respond
from trilogue.gateway.response.client_response import ClientResponse
from trilogue.gateway.response.timing import KeepAlive, TimeLimits
from trilogue.model import Severity
from trilogue.routing.router import ProviderModel


def new_call(context: RequestContext, asked: ReadBody, strict: Severity | None) -> ModelCall:
    """Return a request that was read, with what its head says, and note its model for the log. Raises BadRequest."""
    request, entry, record = context.request, context.entry, context.record
    if entry.loss_comment is None:
        raise BadRequest("trilogue-loss-comment is true or false", path="trilogue-loss-comment")
    record.model, record.stream = sane(asked.model), asked.stream
    return ModelCall(
        client=entry.client,
        body=asked.body,
        model=asked.model,
        stream=asked.stream,
        headers=request.headers,
        sealer=entry.sealer,
        forwarded=entry.forwarded,
        hop=entry.hop,
        query=entry.query,
        strict=strict,
        loss_comment=entry.loss_comment,
        request_id=context.request_id,
        key_name=record.key,
        losses=asked.losses,
        long_context=asked.long_context,
    )


async def complete(context: RequestContext, client: ClientResponse, targets: Sequence[ProviderModel]) -> None:
    """Send a response, streamed or not, or an error. Raises ClientGone, and errors of the request itself."""
    responder, gateway = context.responder, context.entry.gateway
    limits = TimeLimits(context.cancellation, responder)
    context.in_band = client.fail_in_band
    context.request.on_gone = context.cancellation.client_gone
    key = context.entry.key
    is_limited = key is not None and (key.restricted or gateway.limiter.applies_to_all)
    keepalive = None
    if client.streams:
        keepalive = KeepAlive(gateway.settings.keepalive_seconds, responder, client.keepalive)
    try:
        await (_respond_within_limits if is_limited else respond)(context, client, limits, targets)
    except UpstreamError as error:
        _fail(context, client, error)
    except asyncio.CancelledError:
        cancelled = cancelled_error(context)
        if not responder.ended:
            _fail(context, client, cancelled)
    finally:
        limits.stop()
        if keepalive is not None:
            keepalive.stop()


async def _respond_within_limits(
    context: RequestContext, client: ClientResponse, limits: TimeLimits, targets: Sequence[ProviderModel]
) -> None:
    """Count a request for its key, owner and model before its first attempt, and settle it when it has ended.

    Raises NotAllowed and LimitReached, and what `respond` raises.
    """
    allowed, reservation = await count_request(context, client.call, targets)
    try:
        await respond(context, client, limits, allowed)
    finally:
        if reservation is not None:
            context.entry.gateway.limiter.settle(reservation, context.record)


def _fail(context: RequestContext, client: ClientResponse, error: UpstreamError) -> None:
    """Send an error: inside the stream if there is one, else as an HTTP error."""
    if context.responder.started or client.must_fail_in_band(error):
        client.fail_in_band(error)
    else:
        context.refuse(client_failure(error, context.entry.client, context.record))
