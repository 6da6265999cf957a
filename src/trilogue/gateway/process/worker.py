"""One worker process: the application on a listening socket, reloaded on SIGHUP, drained on SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import structlog

from trilogue.config import Config, ConfigError
from trilogue.gateway.endpoints.admin import AdminApi
from trilogue.gateway.endpoints.app import Gateway, not_http
from trilogue.gateway.log.lines import journal
from trilogue.gateway.log.setup import configure_logging
from trilogue.gateway.process import resources
from trilogue.gateway.process.resources import Descriptors
from trilogue.gateway.setup.services import Services, WorkerPools
from trilogue.serving import Listener

log = structlog.get_logger("trilogue.server")

TICK_SECONDS = 0.1
LAST_WORDS_SECONDS = 1.0
"""Before the drain ends, running answers are told that they will not be complete."""
RETIRE_SECONDS = 1.0
GC_THRESHOLD = 50_000
"""New objects at which the collector of cycles looks at them in the middle of traffic. It stops everything for half a
microsecond per object, some milliseconds with a hundred streams, and finds nothing: what a request makes goes with it.
"""
GC_IDLE = 2_000
"""New objects at which it looks when no request is under way."""
REST_TICKS = 50
"""Without a request, after which free memory goes back to the system."""

Load = Callable[[], Config]
Build = Callable[[Config], Services]


class Worker:
    """Serves until it is told to stop. `parent`: the process without which this one must not live."""

    def __init__(
        self, config: Config, load: Load, build: Build, accounts: WorkerPools, parent: int | None = None
    ) -> None:
        resources.keep_free()  # before there is any thread
        self._load = load
        self._accounts = accounts
        self._build = build
        self._parent = parent
        self._retiring: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._descriptors = Descriptors()
        self._quiet = 0
        """ticks since a request was seen"""
        self._siblings: asyncio.Server | None = None
        self._listeners: list[Listener] = []
        self.admin_socket: socket.socket | None = None
        self.shared_folder: Path | None = None
        """where workers find each other, if there are several"""
        self.gateway = Gateway(build(config))

    async def serve(self, sock: socket.socket) -> None:
        """Listen; also for admins, on `admin_socket`, which all workers share: each knows the state of all."""
        self._hear_signals()
        listeners = self._listeners
        listeners.append(Listener(self.gateway, not_http))
        await listeners[0].open(sock)
        if self.admin_socket is not None:
            admin = AdminApi(lambda: self.gateway.services, self.shared_folder)
            self._siblings = await admin.siblings.listen()
            listeners.append(Listener(admin, not_http))
            await listeners[1].open(self.admin_socket)
        # What was made so far stays: the collector of cycles need not look at it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
        while not self._stopped.is_set():
            self._tick()
            await self._pause()
        await self._drain()

    def stop(self, number: int) -> None:
        """Stop in good order; asked a second time, at once."""
        if self._stopped.is_set():
            journal.flush()
            os._exit(128 + number)
        self.gateway.running.leaving = True
        self._stopped.set()

    def reload(self) -> None:
        """Take the new configuration; keep the old one if the new one is bad. Running requests keep what they have."""
        config = load_or_none(self._load)
        if config is None:
            return
        old, self.gateway.services = self.gateway.services, self._build(config)
        for listener in self._listeners:
            listener.forget()
        retiring = asyncio.get_running_loop().create_task(self._retire(old))
        self._retiring.add(retiring)
        retiring.add_done_callback(self._retiring.discard)
        configure_logging(config.server.log)
        log.info("reloaded")

    def _hear_signals(self) -> None:
        loop = asyncio.get_running_loop()
        # With a supervisor, Ctrl-C is its business: a terminal sends it to every process.
        for number in (signal.SIGTERM, signal.SIGINT) if self._parent is None else (signal.SIGTERM,):
            loop.add_signal_handler(number, self.stop, number)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})

    def _tick(self) -> None:
        if self._parent is not None and os.getppid() != self._parent:
            self.stop(signal.SIGTERM)
        # Also without requests: counts are to be seen elsewhere, and what a hand has done is to be heard of.
        self._accounts.sync()
        journal.catch_up()
        self._descriptors.look()
        self._tidy()

    def _tidy(self) -> None:
        """What would hold up requests, when there are none."""
        if self.gateway.running.tasks:
            self._quiet = 0
            return
        self._quiet += 1
        if gc.get_count()[0] > GC_IDLE:
            gc.collect()
        if self._quiet == REST_TICKS:
            resources.give_back()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(TICK_SECONDS):
                await self._stopped.wait()
        except TimeoutError:
            pass

    async def _drain(self) -> None:
        """Let running answers finish; those that take too long end with an error of their own, none is cut."""
        running, seconds = self.gateway.running, self.gateway.services.config.server.drain_seconds
        asyncio.get_running_loop().call_later(max(0.0, seconds - LAST_WORDS_SECONDS), running.stop_all)
        await asyncio.gather(*(listener.drain(seconds + 1) for listener in self._listeners))
        if self._siblings is not None:
            self._siblings.close()
        await self.gateway.services.aclose()
        self._accounts.close()
        journal.finish()

    async def _retire(self, services: Services) -> None:
        """Close the old connections once the requests that use them are through."""
        while self.gateway.running.using(services):
            await asyncio.sleep(RETIRE_SECONDS)
        await services.aclose()


def load_or_none(load: Load) -> Config | None:
    """The new configuration, or None after saying in the log what is wrong with it."""
    try:
        return load()
    except ConfigError as error:
        log.error("reload refused", problems=[str(problem) for problem in error.problems])
        return None
