"""One worker process: the application on a listening socket, reloads on SIGHUP, drained on SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
import uvicorn

from trilogue.config import Config, ConfigError, Log
from trilogue.gateway.app import Gateway
from trilogue.gateway.guard import GuardedProtocol
from trilogue.gateway.services import Services

log = structlog.get_logger("trilogue.server")

LAST_WORDS_SECONDS = 1.0
"""Before the drain ends, running answers are told that they will not be complete."""

Load = Callable[[], Config]
Build = Callable[[Config], Services]


class Worker(uvicorn.Server):
    """uvicorn with our way of stopping and reloading."""

    def __init__(self, load: Load, build: Build) -> None:
        config = load()
        self._load = load
        self._build = build
        self._drain = config.server.drain_seconds
        self.gateway = Gateway(build(config))
        super().__init__(
            uvicorn.Config(
                self.gateway,
                http=GuardedProtocol,
                loop="uvloop",
                ws="none",
                lifespan="on",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=round(self._drain) + 1,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's own, and SIGHUP."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload)
        with super().capture_signals():
            yield

    def reload(self) -> None:
        """Take the new configuration; keep the old one if the new one is bad. Running requests keep what they have."""
        try:
            services = self._build(self._load())
        except ConfigError as error:
            log.error("reload refused", problems=[str(problem) for problem in error.problems])
            return
        old, self.gateway.services = self.gateway.services, services
        asyncio.get_running_loop().create_task(self._retire(old))
        log.info("reloaded")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let running answers finish; those that take too long end with an error of their own, none is cut."""
        running = self.gateway.running
        running.draining = True
        asyncio.get_running_loop().call_later(max(0.0, self._drain - LAST_WORDS_SECONDS), running.stop_all)
        await super().shutdown(sockets)

    async def _retire(self, services: Services) -> None:
        """Close the old connections once the requests that use them are through."""
        while len(self.gateway.running):
            await asyncio.sleep(1.0)
        await services.aclose()


def configure_logging(settings: Log) -> None:
    """One JSON object per line on standard error, or lines for people."""
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    last: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if settings.format == "json" else structlog.dev.ConsoleRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=max(level, logging.WARNING))
