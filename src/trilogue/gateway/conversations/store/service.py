"""The store for an event loop: nothing blocks it, and writes that wait at the same time share one commit.

Reads run in a few threads. Writes run in one thread, a group at a time: while one group is committed, the next one
gathers. A store that is away or locked is tried again for a while; one that is full or broken is an error at once, for
the writes that needed it. Requests that store nothing never wait for any of this.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

import structlog

from trilogue.gateway.conversations.store.conversations import LEASE_SECONDS
from trilogue.gateway.conversations.store.jobs import JobKey
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import (
    CommitUnsure,
    ConversationLease,
    ConversationLocked,
    StoreAway,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from trilogue.storage.database import StoreDamaged, StoreHealth

T = TypeVar("T")
P = ParamSpec("P")

log = structlog.get_logger("trilogue.state")

READERS = 4
MAX_GROUP = 200
MAX_WAITING = 2_000
RETRY_SECONDS = 0.2
LOCK_SECONDS = 0.05
PRUNE_SECONDS = 60.0


class _Write:
    """A write that waits. `until`: when to stop trying, by the clock of the loop. `alone`: in no group."""

    __slots__ = ("alone", "call", "future", "until")

    def __init__(self, call: Callable[[], object], future: asyncio.Future[Any], until: float) -> None:
        self.call = call
        self.future = future
        self.until = until
        self.alone = False


class _WriterThread:
    """A thread that writes one group after the other. It starts with the first one.

    An executor of one thread would do the same, but its futures take longer than a small write.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        write: Callable[[list[Callable[[], object]]], list[Any]],
        done: Callable[[list[_Write], list[Any] | Exception], None],
    ) -> None:
        self._loop = loop
        self._write = write
        self._done = done
        self._groups: SimpleQueue[list[_Write] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def write(self, group: list[_Write]) -> None:
        """Write a group, and call `done` in the event loop with the outcomes or the error."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="trilogue-store-write", daemon=True)
            self._thread.start()
        self._groups.put(group)

    def stop(self) -> None:
        """End the thread after the group that it writes."""
        self._groups.put(None)

    def _run(self) -> None:
        while (group := self._groups.get()) is not None:
            try:
                outcomes: list[Any] | Exception = self._write([write.call for write in group])
            except Exception as error:
                log.error("bug", error=type(error).__name__, exc_info=True)
                outcomes = error
            with suppress(RuntimeError):  # the event loop was closed, and nothing waits for the outcome any more
                self._loop.call_soon_threadsafe(self._done, group, outcomes)


class StoreService:
    """The store of one event loop. Make it inside the loop, and after a fork.

    `patience`: seconds for which a store that is away is tried again. `timeout`: seconds after which a caller is not
    kept waiting any longer.
    """

    def __init__(self, store: ResponseStore, patience: float = 15.0, timeout: float = 30.0) -> None:
        self.store = store
        self._patience = patience
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._reader = ThreadPoolExecutor(READERS, "trilogue-store-read")
        self._writer = _WriterThread(self._loop, store.together, self._written)
        self._waiting: deque[_Write] = deque()
        self._writing = False
        self._closed = False
        self._retry: asyncio.TimerHandle | None = None
        self._prune = self._loop.call_later(PRUNE_SECONDS, self._start_pruning)
        self._idle = asyncio.Event()
        self._idle.set()
        self._failing = False
        self._failures = 0
        self._damaged = False

    @property
    def health(self) -> StoreHealth:
        """How reading and writing goes. Writes that are being committed do not wait any more."""
        return StoreHealth(self._failing, len(self._waiting), self._failures)

    async def read(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a reading method of the store, and return or raise what it does. Raise StoreUnavailable if it is slow."""
        until = self._loop.time() + self._patience
        while True:
            self._check_open()
            try:
                async with asyncio.timeout(self._timeout):
                    found = await self._loop.run_in_executor(self._reader, partial(call, *args, **kwargs))
            except StoreAway:
                if self._loop.time() > until:
                    self._note(failed=True)
                    raise
                self._failing = True
                await asyncio.sleep(RETRY_SECONDS)
            except TimeoutError:
                self._note(failed=True)
                raise StoreUnavailable(f"{self.store.name} did not respond within {self._timeout:g} s") from None
            except (StoreUnavailable, StoreDamaged) as error:
                self._note(failed=True)
                self._say_damaged(error)
                raise
            else:
                self._failing = False
                return found

    def _say_damaged(self, outcome: object) -> None:
        """Log damage that shows only when something is read: the operator must learn of it, and once is enough."""
        if isinstance(outcome, StoreDamaged) and not self._damaged:
            self._damaged = True
            log.error("the store of responses is damaged", store=self.store.name, error=str(outcome))

    def _note(self, *, failed: bool) -> None:
        """Note whether the store could be used."""
        self._failing = failed
        self._failures += failed

    async def write(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a writing method of the store; return what it does after it was committed, or raise what it does.

        The write happens also if the caller is cancelled. Raise StoreUnavailable if the store is full, slow or broken.
        """
        self._check_open()
        if len(self._waiting) >= MAX_WAITING:
            self._note(failed=True)
            raise StoreUnavailable(f"{self.store.name} is too slow: {MAX_WAITING} writes are waiting")
        future: asyncio.Future[T] = self._loop.create_future()
        self._add(_Write(partial(call, *args, **kwargs), future, self._loop.time() + self._patience))
        # A timer of our own: `asyncio.timeout` takes several times as long.
        timer = self._loop.call_later(self._timeout, self._expire, future)
        try:
            return await future
        finally:
            timer.cancel()

    async def lock(
        self, owner: str, conversation: str, patience: float = 5.0, seconds: float = LEASE_SECONDS
    ) -> ConversationLease:
        """Take a conversation, in turn with other requests. Renew it with `renew` before `seconds` have passed.

        Raise NotFound, or ConversationLocked if others have it for longer than `patience`.
        """
        until = self._loop.time() + patience
        holder = secrets.token_hex(8)
        while True:
            try:
                return await self.write(self.store.conversations.lock, owner, conversation, holder, seconds)
            except ConversationLocked:
                if self._loop.time() > until:
                    raise
            except (asyncio.CancelledError, CommitUnsure):
                # The write happens all the same, and nobody else knows the holder.
                self.unlock(ConversationLease(owner, conversation, holder))
                raise
            await asyncio.sleep(LOCK_SECONDS)

    def unlock(self, lease: ConversationLease) -> None:
        """Give a lease back, without waiting for it: a caller that is being cancelled can do it too.

        The writes that began before come first. A lease that cannot be given back ends by itself.
        """
        if self._closed:
            return
        future: asyncio.Future[None] = self._loop.create_future()
        future.add_done_callback(_ignore_error)
        self._add(_Write(partial(self.store.conversations.unlock, lease), future, self._loop.time() + self._patience))

    async def renew(self, lease: ConversationLease, seconds: float = LEASE_SECONDS) -> None:
        """Extend a lease. Raise ConversationLocked if another request has it now."""
        await self.write(self.store.conversations.lock, lease.owner, lease.conversation, lease.holder, seconds)

    async def stop(self) -> None:
        """Finish the writes that wait. Later calls raise StoreUnavailable. The store stays open."""
        self._closed = True
        self._prune.cancel()
        await self._idle.wait()
        # Waits for reads that run, because `close` closes their connections next.
        await asyncio.to_thread(self._reader.shutdown, cancel_futures=True)
        self._writer.stop()

    async def close(self) -> None:
        """Finish the writes that wait, and close the store."""
        await self.stop()
        await asyncio.to_thread(self.store.close)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"{self.store.name} was closed")

    def _add(self, write: _Write) -> None:
        self._idle.clear()
        self._waiting.append(write)
        if not self._writing and self._retry is None:
            self._write_group()

    def _write_group(self) -> None:
        """Give the waiting writes to the thread, as one group."""
        self._retry = None
        size = 1 if self._waiting[0].alone else min(len(self._waiting), MAX_GROUP)
        group = [self._waiting.popleft() for _ in range(size)]
        self._writing = True
        self._writer.write(group)

    def _expire(self, future: asyncio.Future[Any]) -> None:
        if not future.done():
            text = f"{self.store.name} did not confirm a write within {self._timeout:g} s"
            self._note(failed=True)
            future.set_exception(CommitUnsure(text))

    def _written(self, group: list[_Write], outcomes: list[Any] | Exception) -> None:
        """Pass the outcomes on, and start the next group."""
        self._writing = False
        if isinstance(outcomes, Exception) and len(group) > 1:
            # A bug in one write must not fail the others: each of them gets a transaction of its own.
            for write in group:
                write.alone = True
            self._waiting.extendleft(reversed(group))
            self._write_group()
            return
        each = [outcomes] if isinstance(outcomes, Exception) else outcomes
        again = [write for write, outcome in zip(group, each, strict=True) if not self._end(write, outcome)]
        self._waiting.extendleft(reversed(again))
        if again:
            self._retry = self._loop.call_later(RETRY_SECONDS, self._write_group)
        elif self._waiting:
            self._write_group()
        else:
            self._idle.set()

    def _end(self, write: _Write, outcome: object) -> bool:
        """Pass an outcome on to its caller. Return False if the write should be tried again instead."""
        if isinstance(outcome, StoreAway | StoreBusy) and self._loop.time() < write.until and not self._closed:
            self._failing = True
            return False
        self._note(failed=isinstance(outcome, StoreUnavailable | StoreDamaged))
        self._say_damaged(outcome)
        if not write.future.done():
            if isinstance(outcome, BaseException):
                write.future.set_exception(outcome)
            else:
                write.future.set_result(outcome)
        return True

    def _start_pruning(self) -> None:
        """Delete what has expired, a little at a time, between the writes of requests."""
        future: asyncio.Future[int] = self._loop.create_future()
        future.add_done_callback(self._pruned)
        self._add(_Write(self.store.owners.prune_some, future, 0.0))

    def _pruned(self, future: asyncio.Future[int]) -> None:
        if self._closed or future.cancelled():
            return
        error = future.exception()
        if isinstance(error, StoreError):
            log.warning("the store of responses cannot be pruned", store=self.store.name, error=str(error))
        again = error is None and future.result() > 0
        self._prune = self._loop.call_later(0.0 if again else PRUNE_SECONDS, self._start_pruning)


def _ignore_error(future: asyncio.Future[None]) -> None:
    """Let nobody hear of the error of a write that nobody waits for."""
    if not future.cancelled():
        future.exception()


REPORT_SECONDS = 0.4
"""How often a worker reports, and so how long another worker's cancellation may take to get here."""
SWEEP_SECONDS = 1.0
STEADY_SECONDS = 3.0
"""How long the store must have responded before late reports mean that a worker has died."""
SLOW_SECONDS = 1.0


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
