"""The scripted upstream for tests that are not async, such as those of the official SDKs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.scripted.server import ScriptedUpstream


@contextmanager
def running(upstream: ScriptedUpstream | None = None) -> Iterator[ScriptedUpstream]:
    """Run a scripted upstream on its own event loop and thread: `with running() as up:`."""
    served = upstream or ScriptedUpstream()
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with served:
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        if not ready.wait(5):
            raise RuntimeError("the scripted upstream did not start")
        yield served
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)
        loop.close()
