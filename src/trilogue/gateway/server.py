"""One worker process: the application on a listening socket, reloaded on SIGHUP, drained on SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
import uvicorn

from trilogue.config import Config, ConfigError
from trilogue.gateway.accounts import Accounts
from trilogue.gateway.admin import Admin
from trilogue.gateway.app import Gateway
from trilogue.gateway.guard import GuardedProtocol
from trilogue.gateway.logs import configure_logging
from trilogue.gateway.services import Services

log = structlog.get_logger("trilogue.server")

LAST_WORDS_SECONDS = 1.0
"""Before the drain ends, running answers are told that they will not be complete."""
RETIRE_SECONDS = 1.0
_QUIET: dict[str, Any] = {"ws": "none", "access_log": False, "log_config": None, "server_header": False}
"""what uvicorn would do beside serving"""

Load = Callable[[], Config]
Build = Callable[[Config], Services]


class Worker(uvicorn.Server):
    """uvicorn with our way of stopping and reloading. `parent`: the process without which this one must not live."""

    def __init__(self, config: Config, load: Load, build: Build, accounts: Accounts, parent: int | None = None) -> None:
        self._load = load
        self._accounts = accounts
        self.admin_socket: socket.socket | None = None
        self.shared_folder: Path | None = None
        """where workers find each other, if there are several"""
        self._build = build
        self._parent = parent
        self._retiring: set[asyncio.Task[None]] = set()
        self.gateway = Gateway(build(config))
        super().__init__(
            uvicorn.Config(
                self.gateway, http=GuardedProtocol, loop="uvloop", lifespan="on", timeout_keep_alive=75, **_QUIET
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; also for admins, on `admin_socket`, which all workers share: each knows the state of all."""
        await super().startup(sockets)
        if self.admin_socket is None:
            return
        admin = Admin(lambda: self.gateway.services, self.shared_folder)
        listening = await admin.siblings.listen()
        if listening is not None:
            self.servers.append(listening)
        config = uvicorn.Config(admin, http=GuardedProtocol, **_QUIET)
        config.load()
        server = await asyncio.get_running_loop().create_server(
            lambda: GuardedProtocol(config=config, server_state=self.server_state, app_state={}),
            sock=self.admin_socket,
        )
        self.servers.append(server)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Instead of uvicorn's own, which raises the signal again at the end: to stop when asked is no failure."""
        loop = asyncio.get_running_loop()
        # With a supervisor, Ctrl-C is its business: a terminal sends it to every process.
        for number in (signal.SIGTERM, signal.SIGINT) if self._parent is None else (signal.SIGTERM,):
            loop.add_signal_handler(number, self.stop, number)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        yield

    def stop(self, number: int) -> None:
        """Stop in good order; asked a second time, at once."""
        if self.should_exit:
            os._exit(128 + number)
        self.gateway.running.leaving = True
        self.should_exit = True

    def reload(self) -> None:
        """Take the new configuration; keep the old one if the new one is bad. Running requests keep what they have."""
        config = load_or_none(self._load)
        if config is None:
            return
        old, self.gateway.services = self.gateway.services, self._build(config)
        retiring = asyncio.get_running_loop().create_task(self._retire(old))
        self._retiring.add(retiring)
        retiring.add_done_callback(self._retiring.discard)
        configure_logging(config.server.log)
        log.info("reloaded")

    async def on_tick(self, counter: int) -> bool:
        """uvicorn: ten times a second."""
        if self._parent is not None and os.getppid() != self._parent and not self.should_exit:
            self.stop(signal.SIGTERM)
        # Also without requests: counts are to be seen elsewhere, and what a hand has done is to be heard of.
        self._accounts.sync()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let running answers finish; those that take too long end with an error of their own, none is cut."""
        running, seconds = self.gateway.running, self.gateway.services.config.server.drain_seconds
        running.draining = True
        asyncio.get_running_loop().call_later(max(0.0, seconds - LAST_WORDS_SECONDS), running.stop_all)
        self.config.timeout_graceful_shutdown = round(seconds) + 1
        await super().shutdown(sockets)
        self._accounts.close()

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
