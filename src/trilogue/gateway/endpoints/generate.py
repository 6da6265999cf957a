"""The three endpoints that respond with a model's output, and the list of running requests.

Read the request, route it, and make attempts, while the client and the time limits are watched. A shutdown waits for
the running requests, and ends them with an error if they take too long.
"""

from __future__ import annotations

import asyncio

from trilogue.errors import UpstreamError, UpstreamFailure
from trilogue.gateway.log.lines import sane
from trilogue.gateway.request.call import Call, ReadBody, read_asked
from trilogue.gateway.request.cancellation import CancelReason
from trilogue.gateway.request.context import RequestContext, read_large, targets_of
from trilogue.gateway.request.failures import SHUTTING_DOWN, client_failure
from trilogue.gateway.request.large_bodies import LARGE_BYTES
from trilogue.gateway.response.attempts import respond
from trilogue.gateway.response.client_response import ClientResponse
from trilogue.gateway.response.timing import KeepAlive, TimeLimits
from trilogue.model import Severity
from trilogue.serving import ClientGone


class ActiveRequests:
    """All running requests of one process."""

    def __init__(self) -> None:
        self.requests: dict[RequestContext, None] = {}
        """a dictionary because adding to one is cheaper than to a set"""
        self.leaving = False
        """a stop signal has come: the gateway is not ready for more, but still responds"""
        self.draining = False
        """the time for draining is over: new requests on open connections are refused"""

    def using(self, services: object) -> bool:
        """Return whether any running request needs these services."""
        return any(context.entry.services is services for context in self.requests)

    def stop_all(self) -> None:
        """End all running requests with an error, and refuse new ones."""
        self.draining = True
        for context in list(self.requests):
            context.cancellation.cancel(CancelReason.DRAINING, UpstreamFailure(SHUTTING_DOWN))


async def handle(context: RequestContext) -> None:
    """Respond to one request, streamed or not. Raises ClientGone; other errors are sent to the client."""
    request, responder, services = context.request, context.responder, context.entry.services
    body = await request.body(services.limits.max_body_bytes)
    if context.byte_observers is not None and context.byte_observers.inbound_request is not None:
        context.byte_observers.inbound_request(body)
    strict = context.strict
    if len(body) > LARGE_BYTES:
        asked = await read_large(context, body)
    else:
        asked = read_asked(body, services.only_model, strict=strict, head=context.entry.head)
    call = _call(context, asked, strict)
    targets = services.resolved((call.model, call.client)) or await targets_of(context, call.model)
    limits = TimeLimits(context.cancellation, responder)
    client = ClientResponse(call, responder, context.record, services.observers)
    context.in_band = client.fail_in_band
    request.on_gone = context.cancellation.client_gone
    keepalive = None
    if call.stream:
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


def _call(context: RequestContext, asked: ReadBody, strict: Severity | None) -> Call:
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
