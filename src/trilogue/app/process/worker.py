"""One worker process: the application on a listening socket, reloaded on SIGHUP, drained on SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from trilogue.app.admin_routes import admin_routes
from trilogue.app.process import resources
from trilogue.app.process.resources import Descriptors
from trilogue.app.process.signals import RELOAD, handle_signal
from trilogue.app.worker import KeyWatch, Worker
from trilogue.config.config import Config
from trilogue.errors import ConfigError
from trilogue.gateway.admin.administration import Administration
from trilogue.gateway.admin.app import AdminApi
from trilogue.gateway.admin.routes import AdminContext, AdminRoute
from trilogue.gateway.admin.worker_group import OtherWorkers
from trilogue.gateway.endpoints.app import GatewayApp, not_http
from trilogue.gateway.features.capture.worker_capture import WorkerCapture
from trilogue.gateway.features.metrics.families import WORKERS_EXPECTED
from trilogue.gateway.features.metrics.gauges import register_capture, register_cluster, register_gauges, register_usage
from trilogue.gateway.features.metrics.worker_metrics import WorkerMetrics
from trilogue.gateway.features.usage.client_route import usage_handler
from trilogue.gateway.features.usage.observer import UsageObserver
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.log.guard import Guard, close_all
from trilogue.gateway.log.lines import journal
from trilogue.gateway.log.setup import configure_logging
from trilogue.net.server.listener import Listener
from trilogue.policies.loading import PolicyError

log = structlog.get_logger("trilogue.server")

TICK_SECONDS = 0.1
ERROR_SECONDS = 1.0
"""This long before the drain ends, running responses end with an error in the client's protocol."""
DRAIN_LOOK_SECONDS = 0.02
RETIRE_SECONDS = 1.0
GC_THRESHOLD = 50_000
"""New objects after which the garbage collector runs during traffic. It stops everything for half a microsecond per
object, some milliseconds with a hundred streams, and finds nothing: requests leave no cycles.
"""
GC_IDLE = 2_000
"""New objects after which it runs when there are no requests."""
KEEP_TICKS = 50
"""Ticks after which the counts are written for the case that this worker is killed."""
IDLE_TICKS = 50
"""Ticks without a request after which free memory is returned to the system."""

Load = Callable[[], Config]
Build = Callable[[Config], Gateway]


class WorkerProcess:
    """One process that serves until it is stopped. `parent`: the supervisor; the worker ends when that is gone."""

    def __init__(
        self,
        config: Config,
        load: Load,
        build: Build,
        worker: Worker,
        usage: UsageObserver | None,
        parent: int | None = None,
    ) -> None:
        resources.keep_free()  # must come before the first thread
        self._load = load
        self._worker = worker
        self._config = config
        self._build = build
        self._parent = parent
        self._retiring: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._at_once = False
        """whether a person at a terminal waits for the end: nobody sends another request then"""
        self._descriptors = Descriptors()
        self._idle_ticks = 0
        """ticks since the last request"""
        self._worker_server: asyncio.Server | None = None
        self._listeners: list[Listener] = []
        self.admin_socket: socket.socket | None = None
        self.shared_folder: Path | None = None
        """where several workers find each other's sockets; None for a single one"""
        self.metrics: WorkerMetrics | None = None
        """None if they are off, or without an admin interface, which shows them"""
        self.usage = usage
        """None if usage is not counted"""
        self.capture: WorkerCapture | None = None
        self._ticks = 0
        self._guard = Guard()
        self.app = GatewayApp(build(config), reads={"/usage": usage_handler(usage)}, connected=worker.cluster.connected)
        self._key_watch = KeyWatch(self.app, worker, self._forget)

    async def serve(self, sock: socket.socket) -> None:
        """Serve clients on this socket, and admins on `admin_socket`, which all workers share, until drained."""
        self._handle_signals()
        listeners = self._listeners
        listeners.append(Listener(self.app, not_http))
        await listeners[0].open(sock)
        self._worker.stores.start()
        if self.admin_socket is not None:
            workers = OtherWorkers(self.shared_folder)
            admin = AdminApi(self._admin, self._admin_routes(workers))
            self._register_metrics()
            self._worker_server = await workers.listen()
            listeners.append(Listener(admin, not_http))
            await listeners[1].open(self.admin_socket)
        # What exists now stays for good: the garbage collector need not go through it every time.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
        while not self._stopped.is_set():
            self._tick()
            await self._pause()
        await self._drain()

    def _gateway(self) -> Gateway:
        return self.app.gateway

    def _admin(self) -> Administration:
        return self._worker.admin

    def _admin_routes(self, workers: OtherWorkers) -> Iterator[AdminRoute]:
        context = AdminContext(self._admin, workers, self.app.running)
        return admin_routes(context, self._worker, self.metrics, self.usage, self.capture)

    def _register_metrics(self) -> None:
        """Register the metrics that are read when they are asked for."""
        if self.metrics is None:
            return
        worker = self._worker
        register_gauges(self.metrics, self.app.running, self._gateway, worker.store_health, worker.approvals)
        workers = self._config.server.workers  # a reload does not change it
        self.metrics.register(WORKERS_EXPECTED, lambda: [((), workers)])
        if worker.cluster.member is not None:
            register_cluster(self.metrics, worker.cluster)
        if self.usage is not None:
            register_usage(self.metrics, self.usage)
        if self.capture is not None:
            register_capture(self.metrics, self.capture)

    def stop(self, number: int) -> None:
        """Stop after a drain; at the second call, at once."""
        if self._stopped.is_set():
            journal.flush()
            os._exit(128 + number)
        self._at_once = number == signal.SIGINT
        self.app.running.leaving = True
        self._stopped.set()

    def reload(self) -> None:
        """Use the new configuration, or keep the old one if it is invalid. Running requests keep their gateway."""
        config = load_or_none(self._load)
        if config is None:
            return
        try:
            gateway = self._build(config)
        except PolicyError as error:
            # The file of a policy may have changed since the configuration was checked.
            log.error("reload refused", problems=[str(error)])
            return
        old, self.app.gateway = self.app.gateway, gateway
        self._config = config
        self._forget()
        self._worker.stores.start()
        retiring = asyncio.get_running_loop().create_task(self._retire(old))
        self._retiring.add(retiring)
        retiring.add_done_callback(self._retiring.discard)
        configure_logging(config.server.log)
        log.info("reloaded")

    def _handle_signals(self) -> None:
        # A terminal sends Ctrl-C to every process. With a supervisor, that one passes it on as SIGTERM.
        for number in (signal.SIGTERM, signal.SIGINT) if self._parent is None else (signal.SIGTERM,):
            handle_signal(number, self.stop, number)
        if RELOAD is not None:
            handle_signal(RELOAD, self.reload)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {RELOAD})

    def _tick(self) -> None:
        if self._parent is not None and os.getppid() != self._parent:
            self.stop(signal.SIGTERM)
        # Also without requests: other processes want our counts, and commands change accounts.
        self._worker.tick()
        self._guard.run("log", journal.catch_up)
        self._guard.run("file descriptors", self._descriptors.look)
        if self.capture is not None:
            self._guard.run("captures", self.capture.tick)
        self._ticks += 1
        self._key_watch.tick()
        if self.metrics is not None and self._ticks % KEEP_TICKS == 0:
            self._guard.run("metrics", self.metrics.keep)
        self._guard.run("memory", self._tidy)

    def _forget(self) -> None:
        """Look again at the headers of clients that were admitted before."""
        for listener in self._listeners:
            listener.forget()

    def _tidy(self) -> None:
        """Collect garbage and return memory when there are no requests that it would delay."""
        if self.app.running.requests:
            self._idle_ticks = 0
            return
        self._idle_ticks += 1
        if gc.get_count()[0] > GC_IDLE:
            gc.collect()
        if self._idle_ticks == IDLE_TICKS:
            resources.give_back()

    async def _pause(self) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(TICK_SECONDS):
                await self._stopped.wait()
        except TimeoutError:
            if self.metrics is not None:
                self.metrics.observe_lag(time.monotonic() - began - TICK_SECONDS)

    async def _drain(self) -> None:
        """Let running responses finish. Those that take too long end with an error; none is cut off."""
        running, seconds = self.app.running, self._config.server.drain_seconds
        loop = asyncio.get_running_loop()
        loop.call_later(max(0.0, seconds - ERROR_SECONDS), running.stop_all)
        until = loop.time() + seconds + ERROR_SECONDS
        clients, *admins = self._listeners
        closing = [clients.drain(seconds + 1, at_once=self._at_once)]
        closing += [listener.drain(seconds + 1, at_once=True) for listener in admins]
        await asyncio.gather(*closing)
        while running.requests and loop.time() < until:
            # Background responses have no connection that the listeners could wait for.
            await asyncio.sleep(DRAIN_LOOK_SECONDS)
        if self._worker_server is not None:
            self._worker_server.close()
        await close_all(
            *([("captures", self.capture.aclose)] if self.capture is not None else []),
            ("connections", self.app.gateway.upstreams.aclose),
            ("state", self._worker.aclose),
            ("log", journal.finish),
        )

    async def _retire(self, gateway: Gateway) -> None:
        """Close the old connections once the requests that use them have ended."""
        while self.app.running.using(gateway):
            await asyncio.sleep(RETIRE_SECONDS)
        await gateway.upstreams.aclose()


def load_or_none(load: Load) -> Config | None:
    """Return the new configuration, or None after logging what is wrong with it."""
    try:
        return load()
    except ConfigError as error:
        log.error("reload refused", problems=[str(problem) for problem in error.problems])
        return None
