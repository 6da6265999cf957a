"""The gateway as an ASGI application: its life, and which adapter a connection gets.

It starts with the lifespan of the server, with `lifespan` of a program that mounts it, or with the first request. It
belongs to one event loop at a time; on another one, it is built again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from trilogue.app.embed.asgi_http import Receive, Scope, Send, serve_http
from trilogue.app.embed.asgi_websocket import OpenSockets, serve_websocket
from trilogue.app.embed.gateway import EmbeddedGateway
from trilogue.config.config import Config
from trilogue.config.environment import with_dotenv
from trilogue.config.load import find, load, parse
from trilogue.errors import InternalError
from trilogue.gateway.log.setup import log_to_standard_library


class AsgiGateway:
    """An ASGI application. Use `trilogue.asgi` to make one."""

    def __init__(self, config: Config, file: Path | None = None, *, trust_callers: bool = False) -> None:
        self._config = replace(config, keys=()) if trust_callers else config
        self._file = file
        self._trust_callers = trust_callers
        self._embedded: EmbeddedGateway | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sockets: OpenSockets = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of the server, or its lifespan."""
        kind = scope["type"]
        if kind == "http":
            await serve_http((await self._started()).app, scope, receive, send)
        elif kind == "websocket":
            await serve_websocket((await self._started()).app, self._sockets, scope, receive, send)
        elif kind == "lifespan":
            await self._live(receive, send)
        else:
            raise InternalError(f"there is no ASGI connection of the type {kind!r}")

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Start the gateway and stop it at the end: `FastAPI(lifespan=gateway.lifespan)`.

        Servers do not announce their start and end to mounted applications.
        """
        await self._started()
        try:
            yield
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Let running requests finish, for `server.drain_seconds` at most, and close everything."""
        embedded, self._embedded = self._embedded, None
        for socket in list(self._sockets):
            socket.shut()
        if embedded is not None:
            await embedded.stop(self._config.server.drain_seconds)

    async def _started(self) -> EmbeddedGateway:
        loop = asyncio.get_running_loop()
        if self._embedded is None or self._loop is not loop:
            self._loop = loop
            log_to_standard_library()
            self._embedded = EmbeddedGateway(self._config, self._file)
            self._embedded.app.gateway.access.trusts_callers = self._trust_callers
            await self._embedded.start()
        return self._embedded

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start and stop with the server."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self._started()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


def make_asgi(source: str | Path | Mapping[str, Any] | None, *, trust_callers: bool) -> AsgiGateway:
    """Return the application for a configuration: the path of a file, settings, or None for what `serve` would use.

    Raises ConfigError.
    """
    if isinstance(source, Mapping):
        config = parse(msgspec.json.encode(source), os.environ, Path.cwd())
        return AsgiGateway(config, trust_callers=trust_callers)
    file = find(Path(source) if source is not None else None)
    return AsgiGateway(load(file, with_dotenv(os.environ, file)), file, trust_callers=trust_callers)
