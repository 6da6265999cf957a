"""The boundary of a request: its beginning for observers, and the response to whatever exception ends it."""

from __future__ import annotations

import asyncio

import structlog

from trilogue.errors import TrilogueError
from trilogue.gateway.conversations.objects import store_failure
from trilogue.gateway.conversations.store.types import StoreError
from trilogue.gateway.observer import Observers
from trilogue.gateway.request.failures import REVOKED, SHUTTING_DOWN, client_failure
from trilogue.gateway.request.request import CancelReason, RequestContext
from trilogue.model import Failure
from trilogue.net.server.request import BodyBroken, BodyEncoded, BodyTooLarge, BodyTooSlow, ClientGone
from trilogue.protocols.failure import own_failure

log = structlog.get_logger("trilogue.gateway")

CLIENT_CLOSED = 499
"""for the log only: the client has disconnected"""

_REFUSED: dict[type[Exception], tuple[int, str, str]] = {
    BodyTooLarge: (
        413,
        "the body is larger than this gateway takes (server.max_body_bytes, and server.max_upload_bytes for files)",
        "request_too_large",
    ),
    BodyTooSlow: (408, "the body came too slowly", "request_timeout"),
    BodyBroken: (400, "the body is not valid HTTP", "bad_http"),
    BodyEncoded: (
        415,
        "compressed bodies are not taken: send it without content-encoding",
        "unsupported_encoding",
    ),
}


_ENDED: dict[CancelReason | None, Failure] = {CancelReason.DRAINING: SHUTTING_DOWN, CancelReason.REVOKED: REVOKED}
"""What requests get that the gateway ends before they have a response."""


def begin(context: RequestContext, observers: Observers) -> None:
    """Notify observers of a request, and show its bytes to those that want them."""
    if observers.request_began is not None:
        observers.request_began(context.record)
    wanted = observers.observe_bytes(context.record, context.request.head) if observers.observe_bytes else None
    if wanted is not None:
        context.observe_bytes(wanted)


def report(context: RequestContext, error: BaseException) -> bool:
    """Respond with the error that ended the handling of a request. Return False if it must be raised again.

    A request that a shutdown ends gets an error as well.
    """
    match error:
        case ClientGone():
            context.record.error = "client_gone"
        case BodyTooLarge() | BodyTooSlow() | BodyBroken() | BodyEncoded():
            context.refuse(own_failure(*_REFUSED[type(error)]))
        case asyncio.CancelledError() if context.cancellation.reason in _ENDED:
            failure = _ENDED[context.cancellation.reason]
            context.cancellation.clear()
            context.refuse(failure)
        case StoreError():
            log.error("store", error=str(error), request_id=context.request_id)
            context.refuse(store_failure(error))
        case TrilogueError():
            context.refuse(client_failure(error, context.entry.client, context.record))
        case Exception():
            log.error("bug", error=type(error).__name__, request_id=context.request_id, exc_info=True)
            context.refuse(own_failure(500, "internal error", "internal_error"))
        case _:
            return False
    return True
