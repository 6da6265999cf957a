"""Whoever waits for an upstream watches the client meanwhile: one that leaves lets the upstream go.

One HTTP request with everything that its handling needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from trilogue.errors import BadRequest, UpstreamError, UpstreamFailure
from trilogue.gateway.log.record import Record
from trilogue.gateway.request.admission import Admission
from trilogue.gateway.request.call import ReadBody, read_asked
from trilogue.gateway.request.failures import error_reply, raw_headers
from trilogue.gateway.request.large_bodies import beside
from trilogue.jsontext.text import dump
from trilogue.model import Failure, Json
from trilogue.routing import NoRoute, Upstream
from trilogue.serving import ClientGone, HttpRequest, Responder

_MODES = ("declare", "strict")


class RequestContext(Struct, kw_only=True, eq=False):
    """A request that was let in, as `entry` says."""

    request: HttpRequest
    responder: Responder
    entry: Admission
    record: Record
    request_id: str
    in_band: Callable[[UpstreamError], None] | None = None
    """how to tell of an error once the answer has begun"""

    def reply(self, body: Json, status: int = 200) -> None:
        """A whole JSON answer."""
        self.responder.reply(status, [(b"content-type", b"application/json")], dump(body))

    def refuse(self, failure: Failure) -> None:
        """An error, in the client's shape: instead of the answer, or inside one that has begun."""
        if self.responder.started:
            if self.in_band is not None and not self.responder.ended:
                self.in_band(UpstreamFailure(failure))
            return
        reply = error_reply(failure, self.entry.client, self.request_id)
        self.record.failed(failure)
        self.responder.reply(reply.status, raw_headers(reply.headers), dump(reply.body))

    @property
    def strict(self) -> bool:
        """Refuse what would lose something: asked for by the request, its key or the configuration."""
        mode = self.entry.mode
        if mode not in _MODES:
            raise BadRequest("trilogue-mode is strict or declare", path="trilogue-mode")
        return mode == "strict"


GONE = "client gone"


@contextmanager
def watching(visit: RequestContext) -> Iterator[None]:
    """What is done inside ends with ClientGone when the client leaves."""
    task = visit.request.task
    left = []

    def leave() -> None:
        left.append(GONE)
        task.cancel(GONE)

    visit.request.on_gone = leave
    try:
        yield
    except asyncio.CancelledError:
        # Not by its message: on its way through a gather that gets lost.
        if not left:
            raise
        task.uncancel()
        raise ClientGone from None
    finally:
        visit.request.on_gone = _nobody_minds


async def read_large(visit: RequestContext, body: bytes) -> ReadBody:
    """As `read_asked`, of a body that takes a while."""
    with watching(visit):
        entry = visit.entry
        return await beside(read_asked, body, entry.services.only_model, strict=visit.strict, head=entry.head)


async def targets_of(visit: RequestContext, model: str) -> tuple[Upstream, ...]:
    """Where a model goes: as the routes say, else to a provider that lists it. Raises NoRoute."""
    services, client = visit.entry.services, visit.entry.client
    try:
        return services.routed(model, client)
    except NoRoute:
        with watching(visit):
            offered = await services.offered(model, client)
        if offered is None:
            raise
        return (offered,)


def _nobody_minds() -> None:
    """The client may go."""
