"""Whoever waits for an upstream watches the client meanwhile: one that leaves lets the upstream go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from trilogue.gateway.request.call import ReadBody, read_asked
from trilogue.gateway.request.context import RequestContext
from trilogue.gateway.request.large_bodies import beside
from trilogue.routing import NoRoute, Upstream
from trilogue.serving import ClientGone

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
        return await beside(read_asked, body, visit.entry.services.only_model, strict=visit.strict)


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
