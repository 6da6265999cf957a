"""Whoever waits for an upstream watches the client meanwhile: one that leaves lets the upstream go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trilogue.errors import InternalError
from trilogue.gateway.http import ClientGone
from trilogue.gateway.visit import Visit
from trilogue.routing import NoRoute, Upstream

GONE = "client gone"


async def watch_client(visit: Visit, task: asyncio.Task[object]) -> None:
    """Cancel the task when the client leaves before it has its answer."""
    await visit.request.gone()
    if not visit.responder.ended:
        task.cancel(GONE)


@asynccontextmanager
async def watching(visit: Visit) -> AsyncIterator[None]:
    """What is done inside ends with ClientGone when the client leaves."""
    task = asyncio.current_task()
    if task is None:
        raise InternalError("not in a task")
    watcher = asyncio.create_task(watch_client(visit, task))
    try:
        yield
    except asyncio.CancelledError:
        # Not by its message: on its way through a gather that gets lost.
        if not watcher.done() or visit.responder.ended:
            raise
        task.uncancel()
        raise ClientGone from None
    finally:
        watcher.cancel()


async def targets_of(visit: Visit, model: str) -> tuple[Upstream, ...]:
    """Where a model goes: as the routes say, else to a provider that lists it. Raises NoRoute."""
    services = visit.services
    try:
        return services.router.resolve(model, visit.client).targets
    except NoRoute:
        async with watching(visit):
            offered = await services.offered(model, visit.client)
        if offered is None:
            raise
        return (offered,)
