"""The background jobs that one worker runs: reports them, stops those that others cancelled, fails those of the dead.

Every worker whose store is open looks for jobs whose worker has died. A store that was away for a while has kept all
workers from reporting, so that nothing is concluded from late reports until it has been there for some seconds.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from trilogue.gateway.conversations.store.interface import StoreError
from trilogue.gateway.conversations.store.jobs import JobKey
from trilogue.gateway.conversations.store.service import StoreService

REPORT_SECONDS = 0.4
"""How often a worker reports, and so how long another worker's cancellation may take to get here."""
SWEEP_SECONDS = 1.0
STEADY_SECONDS = 3.0
"""How long the store must have responded before late reports mean that a worker has died."""
SLOW_SECONDS = 1.0

log = structlog.get_logger("trilogue.state")


class RunningJobs:
    """The jobs of one worker in one store. `worker`: the name that the store knows the worker by."""

    def __init__(self, service: StoreService) -> None:
        self.worker = secrets.token_hex(8)
        self._service = service
        self._stops: dict[JobKey, Callable[[], None]] = {}
        self._changes: dict[JobKey, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._steady_since: float | None = None
        self._warned = False
        self._swept_at = 0.0
        self._watching = self._loop.create_task(self._watch(), name="background jobs")

    @property
    def count(self) -> int:
        """How many jobs there are."""
        return len(self._stops)

    def add(self, key: JobKey, stop: Callable[[], None]) -> None:
        """Add a job. `stop` is called when it was cancelled, deleted or failed elsewhere, maybe several times."""
        self._stops[key] = stop
        self._changes[key] = asyncio.Event()

    def remove(self, key: JobKey) -> None:
        """Remove a job that has ended, and wake up those that wait for it."""
        self._stops.pop(key, None)
        change = self._changes.pop(key, None)
        if change is not None:
            change.set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a job in a task. The event loop itself does not keep tasks alive."""
        task = self._loop.create_task(work, name="background response")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self, key: JobKey) -> None:
        """Stop a job now if this worker runs it."""
        stop = self._stops.get(key)
        if stop is not None:
            stop()

    def changed(self, key: JobKey) -> None:
        """Wake up those that wait for a job: the store has more of it."""
        change = self._changes.get(key)
        if change is not None:
            self._changes[key] = asyncio.Event()
            change.set()

    async def wait(self, key: JobKey, seconds: float) -> None:
        """Wait until the store has more of a job. Jobs of other workers cannot be waited for: look after `seconds`."""
        change = self._changes.get(key)
        try:
            async with asyncio.timeout(seconds):
                await (change.wait() if change is not None else asyncio.sleep(seconds))
        except TimeoutError:
            return

    def close(self) -> None:
        """Stop reporting the jobs of this worker, and looking for jobs of workers that have died."""
        self._watching.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            try:
                if self._stops:
                    await self._report()
                if self._loop.time() - self._swept_at >= SWEEP_SECONDS:
                    self._swept_at = self._loop.time()
                    await self._sweep()
                self._warned = False
            except StoreError as error:
                self._steady_since = None
                if not self._warned:
                    self._warned = True
                    log.warning("background jobs cannot be reported", store=self._service.store.name, error=str(error))
            except Exception as error:  # the task boundary: other workers would take this one for dead
                if not self._warned:
                    self._warned = True
                    log.error("bug", error=type(error).__name__, exc_info=True)

    async def _report(self) -> None:
        stopped = await self._service.write(self._service.store.jobs.report, self.worker, tuple(self._stops))
        for key in stopped:
            self.stop(key)

    async def _sweep(self) -> None:
        """Fail the jobs of workers that have died."""
        began = self._loop.time()
        jobs = self._service.store.jobs
        found = await self._service.read(jobs.has_dead)
        now = self._loop.time()
        if self._steady_since is None or now - began > SLOW_SECONDS:
            self._steady_since = now
        if not found or now - self._steady_since < STEADY_SECONDS:
            return
        for job in await self._service.write(jobs.fail_dead):
            log.error("background response failed: its worker has died", id=job.id, worker=job.worker)
