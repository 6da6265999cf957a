"""One HTTP request with everything that its handling needs, and what all endpoints do with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum

from msgspec import Struct

from trilogue.base.json_text import dump
from trilogue.errors import BadRequest, UpstreamError, UpstreamFailure
from trilogue.gateway.conversations.turn import StoredTurn
from trilogue.gateway.limits.limiter import Reservation
from trilogue.gateway.observer import ByteObservers
from trilogue.gateway.record import RequestRecord
from trilogue.gateway.request.admission import Admission
from trilogue.gateway.request.call import ReadBody, read_asked
from trilogue.gateway.request.failures import error_reply, raw_headers
from trilogue.gateway.request.large_bodies import in_thread
from trilogue.model import Failure, Json, Severity
from trilogue.net.server.request import ClientGone, HttpRequest
from trilogue.net.server.responder import Responder
from trilogue.routing.model_names import NoRoute
from trilogue.routing.router import ProviderModel

LOCAL = "local"
"""The owner of what is stored without client keys."""
_MODES = ("declare", "strict")


class RequestContext(Struct, kw_only=True, eq=False):
    """A request whose head was read. `entry`: what follows from the head, such as the client's key and protocol."""

    request: HttpRequest
    responder: Responder
    entry: Admission
    record: RequestRecord
    cancellation: Cancellation
    request_id: str
    running: dict[RequestContext, None]
    """all running requests of the process: a shutdown waits for them"""
    byte_observers: ByteObservers | None = None
    """those that want the bytes of this request"""
    reservation: Reservation | None = None
    """what was counted for it; None if nobody counts it"""
    in_band: Callable[[UpstreamError], None] | None = None
    """ends a stream that has begun with an error"""
    turn: StoredTurn | None = None
    """what is looked up in a store for the request: the boundary of the request gives its conversation back"""

    def observe_bytes(self, observers: ByteObservers) -> None:
        """Show the bytes of this request to observers."""
        self.byte_observers = observers
        self.responder.on_head, self.responder.on_body = observers.outbound_head, observers.outbound_response

    def reply(self, body: Json, status: int = 200) -> None:
        """Send a whole JSON response."""
        self.responder.reply(status, [(b"content-type", b"application/json")], dump(body))

    def reply_json(self, body: bytes) -> None:
        """Send a JSON text as the response."""
        self.responder.reply(200, [(b"content-type", b"application/json")], body)

    def refuse(self, failure: Failure) -> None:
        """Send an error in the client's protocol: as the response, or inside a stream that has begun."""
        if self.responder.started:
            if self.in_band is not None and not self.responder.ended:
                self.in_band(UpstreamFailure(failure))
            return
        reply = error_reply(failure, self.entry.client, self.request_id)
        self.record.mark_failed(failure)
        settle = self.entry.gateway.observers.request_settled
        if settle is not None:
            settle(self.record)
        self.responder.reply(reply.status, raw_headers(reply.headers), dump(reply.body))

    @property
    def owner(self) -> str:
        """Whose stored responses and conversations the request can use. Without client keys, all clients are one."""
        return (self.entry.key.owner if self.entry.key is not None else "") or LOCAL

    @property
    def strict(self) -> Severity | None:
        """The severity from which losses are refused; None unless the request, its key or the configuration asks.

        Raises BadRequest for an unknown mode. That is reported here and not at admission, where the body of the request
        is not read yet.
        """
        mode = self.entry.mode
        if mode not in _MODES:
            raise BadRequest("trilogue-mode is strict or declare", path="trilogue-mode")
        return self.entry.gateway.settings.strict_from if mode == "strict" else None


@contextmanager
def watching(context: RequestContext) -> Iterator[None]:
    """End what is done inside with ClientGone if the client disconnects, so that the upstream is not kept busy."""
    request, cancellation = context.request, context.cancellation
    request.on_gone = cancellation.client_gone
    try:
        yield
    except asyncio.CancelledError:
        if cancellation.reason is not CancelReason.CLIENT_GONE:
            raise
        cancellation.clear()
        raise ClientGone from None
    finally:
        request.on_gone = _do_nothing


def cancelled_error(context: RequestContext) -> UpstreamError:
    """Return the error for a request that the gateway itself has cancelled.

    Call it where a `CancelledError` was caught. Raises that again if it came from elsewhere, and ClientGone if the
    client has disconnected.
    """
    reason = context.cancellation.reason
    if reason is None:
        raise asyncio.CancelledError
    error = context.cancellation.clear()
    if reason is CancelReason.CLIENT_GONE or error is None:
        raise ClientGone from None
    return error


async def read_large(context: RequestContext, body: bytes) -> ReadBody:
    """Do what `read_asked` does, for a large body."""
    with watching(context):
        entry = context.entry
        return await in_thread(
            read_asked, body, entry.gateway.models.only_model, strict=context.strict, head=entry.head
        )


async def targets_of(context: RequestContext, model: str) -> tuple[ProviderModel, ...]:
    """Return the targets of a model: those of the routes, else a provider that lists it. Raises NoRoute."""
    gateway, client = context.entry.gateway, context.entry.client
    try:
        return gateway.models.routed(model, client)
    except NoRoute:
        with watching(context):
            offered = await gateway.upstreams.offered(model, client)
        if offered is None:
            raise
        return (offered,)


def _do_nothing() -> None:
    """Ignore that the client disconnects while nothing is awaited for it."""


class CancelReason(IntEnum):
    """Why a request was cancelled. If several reasons come together, the highest counts."""

    ATTEMPT_TIMED_OUT = 1
    """The upstream of one attempt sends no events. Another attempt may follow."""
    REQUEST_TIMED_OUT = 2
    """There is no time left for any attempt."""
    DRAINING = 3
    """The gateway shuts down and cannot wait any longer."""
    REVOKED = 4
    """The client key was revoked, and its requests are to end."""
    CLIENT_GONE = 5
    """The client has disconnected: no response is needed."""


class Cancellation(Struct, eq=False):
    """The cancellations of one request's task, if there are any.

    Code that catches a `CancelledError` asks `reason`. If that is None, the cancellation is not the gateway's own.
    """

    _task: asyncio.Task[None]
    reason: CancelReason | None = None
    error: UpstreamError | None = None
    """what the client gets instead of a response, unless it has disconnected"""
    _requested: int = 0
    """how often the task was cancelled and may go on"""

    def cancel(self, reason: CancelReason, error: UpstreamError | None = None) -> None:
        """Cancel the task for this reason."""
        if self.reason is None or reason > self.reason:
            self.reason, self.error = reason, error
        self._requested += 1
        self._task.cancel(reason)

    def client_gone(self) -> None:
        """Cancel the task because the client has disconnected."""
        self.cancel(CancelReason.CLIENT_GONE)

    def clear(self) -> UpstreamError | None:
        """Let the task go on after its `CancelledError` was caught. Return the error that was given with the reason."""
        while self._requested:
            self._requested -= 1
            self._task.uncancel()
        error, self.error, self.reason = self.error, None, None
        return error
