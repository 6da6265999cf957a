"""A gateway that another program starts and stops. The program decides where requests come from."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog
from msgspec.structs import replace

from trilogue import __version__
from trilogue.app.observers import WorkerObservers
from trilogue.app.sealing import stored_sealer
from trilogue.app.stores import counting, locations_of, store_fault, usage_fault
from trilogue.app.transports import transports
from trilogue.app.worker import KeyWatch, Worker
from trilogue.base import cipher
from trilogue.base.secrets import Secret
from trilogue.config.config import Config
from trilogue.gateway.endpoints.app import GatewayApp
from trilogue.gateway.features.capture.worker_capture import FOLDER_NAME, WorkerCapture
from trilogue.gateway.features.usage.client_route import usage_handler
from trilogue.gateway.log.guard import Guard, close_all
from trilogue.gateway.log.lines import journal
from trilogue.gateway.observer import Observer
from trilogue.storage.locations import ACCOUNTS_FILE, state_directory, state_file
from trilogue.translate.reasoning.seal import Sealer

TICK_SECONDS = 0.1
LOOK_SECONDS = 0.02
ERROR_SECONDS = 1.0
"""how long requests may take to end with an error, after the time to finish is over"""

log = structlog.get_logger("trilogue.server")


class EmbeddedGateway:
    """A gateway with this configuration. `file`: the configuration file, which says where state and usage are kept."""

    def __init__(
        self,
        config: Config,
        file: Path | None = None,
        observers: Sequence[Observer] = (),
        sealer: Sealer | None = None,
    ) -> None:
        if sealer is None:
            sealer, problem = stored_sealer(config)
            if problem:
                log.warning("what is sealed or stored now cannot be read after a restart", reason=problem)
        config = _with_usable_store(config, sealer, file)
        # Limits are those of this process: nobody knows how many others the program has.
        config = replace(config, server=replace(config.server, workers=1))
        fault = usage_fault(config, locations_of(config, file))
        if fault is not None:
            log.warning("usage cannot be stored", reason=str(fault))
        kept = state_file(os.environ, ACCOUNTS_FILE, file)
        self._observers = WorkerObservers(config, None, metrics=False, usage=counting(config, file))
        self._observers.configure(config)
        everyone = [*self._observers.all, *observers]
        self._worker = worker = Worker(kept, transports, sealer, None, everyone)
        gateway = worker.gateway(config)
        self._capture = WorkerCapture(state_directory(os.environ) / FOLDER_NAME, version=__version__)
        self._capture.configure(config.capture, gateway.observe)
        usage = usage_handler(self._observers.usage)
        self.app = GatewayApp(gateway, reads={"/usage": usage}, connected=worker.cluster.connected)
        self.forget: Callable[[], None] = _do_nothing
        """forgets what was concluded from the headers of clients, where that is kept"""
        self._key_watch = KeyWatch(self.app, worker, self._forget)
        self._ticking: asyncio.Task[None] | None = None
        # Load the library now, so that the first request does not have to wait for it.
        cipher.load()

    async def start(self) -> None:
        """Keep the state of accounts in step with other processes from now on."""
        self._worker.stores.start()
        self._ticking = asyncio.create_task(self._tick(), name="trilogue tick")

    async def stop(self, seconds: float) -> None:
        """Give running requests this many seconds to finish, end the others with an error, and close everything."""
        running = self.app.running
        running.leaving = True
        await self._wait_for_requests(seconds)
        running.stop_all()
        await self._wait_for_requests(ERROR_SECONDS)
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait([self._ticking])
        await close_all(
            ("connections", self.app.gateway.upstreams.aclose),
            ("state", self._worker.aclose),
            ("captures", self._capture.aclose),
            ("usage", self._observers.close),
            ("log", journal.finish),
        )

    def _forget(self) -> None:
        self.forget()

    async def _tick(self) -> None:
        guard = Guard()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._worker.tick()
            self._key_watch.tick()
            guard.run("captures", self._capture.tick)
            guard.run("log", journal.catch_up)

    async def _wait_for_requests(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.app.running.requests and loop.time() < until:
            await asyncio.sleep(LOOK_SECONDS)


def _with_usable_store(config: Config, sealer: Sealer, file: Path | None) -> Config:
    """Return the configuration, or one that stores nothing if the default file cannot be used."""
    if config.state.store is not None:
        return config
    fault = store_fault(config.state, sealer.storage_keys, locations_of(config, file))
    if fault is None:
        return config
    log.warning("responses and conversations are not stored", reason=str(fault), hint="set `state`, or state: none")
    return replace(config, state=replace(config.state, store=Secret("none", literal=True)))


def _do_nothing() -> None:
    """Forget nothing: every request is looked at."""
