"""One response: make attempts, while the client and the time limits are watched, and send an error if all of them fail.

In: a request that was read and routed, and where its response goes. The endpoints decide both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trilogue.errors import UpstreamError
from trilogue.gateway.log.lines import sane
from trilogue.gateway.request.call import Call, ReadBody
from trilogue.gateway.request.cancellation import CancelReason
from trilogue.gateway.request.context import RequestContext
from trilogue.gateway.request.failures import client_failure
from trilogue.gateway.response.attempts import respond
from trilogue.gateway.response.client_response import ClientResponse
from trilogue.gateway.response.timing import KeepAlive, TimeLimits
from trilogue.model import Severity
from trilogue.routing import Upstream
from trilogue.serving import ClientGone


def new_call(context: RequestContext, asked: ReadBody, strict: Severity | None) -> Call:
    """Return a request that was read, with what its head says, and note its model for the log."""
    request, entry, record = context.request, context.entry, context.record
    record.model, record.stream = sane(asked.model), asked.stream
    return Call(
        client=entry.client,
        body=asked.body,
        model=asked.model,
        stream=asked.stream,
        headers=request.headers,
        forwarded=entry.forwarded,
        hop=entry.hop,
        query=entry.query,
        strict=strict,
        request_id=context.request_id,
        key_name=record.key,
        losses=asked.losses,
    )


async def complete(context: RequestContext, client: ClientResponse, targets: Sequence[Upstream]) -> None:
    """Send a response, streamed or not, or an error. Raises ClientGone, and errors of the request itself."""
    responder, services = context.responder, context.entry.services
    limits = TimeLimits(context.cancellation, responder)
    context.in_band = client.fail_in_band
    context.request.on_gone = context.cancellation.client_gone
    keepalive = None
    if client.streams:
        keepalive = KeepAlive(services.limits.keepalive_seconds, responder, client.keepalive)
    try:
        await respond(context, client, limits, targets)
    except UpstreamError as error:
        _fail(context, client, error)
    except asyncio.CancelledError:
        if context.cancellation.reason is None:
            raise
        _end_cancelled(context, client)
    finally:
        limits.stop()
        if keepalive is not None:
            keepalive.stop()


def _fail(context: RequestContext, client: ClientResponse, error: UpstreamError) -> None:
    """Send an error: inside the stream if there is one, else as an HTTP error."""
    if context.responder.started or client.must_fail_in_band(error):
        client.fail_in_band(error)
    else:
        context.refuse(client_failure(error, context.entry.client))


def _end_cancelled(context: RequestContext, client: ClientResponse) -> None:
    """End a request that the gateway has cancelled with the error that belongs to the reason. Raises ClientGone."""
    reason, error = context.cancellation.reason, context.cancellation.clear()
    if reason is CancelReason.CLIENT_GONE or error is None:
        raise ClientGone
    if not context.responder.ended:
        _fail(context, client, error)
