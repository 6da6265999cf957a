"""Listens for clients, and lets them go in good order."""

from __future__ import annotations

import asyncio
import socket

from trilogue.serving.connection import App, ClientConnection, Refusal
from trilogue.serving.known import KnownHeads

__all__ = ["App", "Listener"]

BACKLOG = 2048
LOOK_SECONDS = 0.02


class Listener:
    """One listening socket and the connections that came from it."""

    def __init__(self, app: App, refusal: Refusal) -> None:
        self._app = app
        self._refusal = refusal
        self._connections: set[ClientConnection] = set()
        self._known = KnownHeads()
        self._server: asyncio.Server | None = None

    async def open(self, sock: socket.socket) -> None:
        """Take connections from this socket."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ClientConnection(self._app, self._refusal, self._connections, self._known, loop),
            sock=sock,
            backlog=BACKLOG,
        )

    def forget(self) -> None:
        """What the application has noted of its clients is not true any more."""
        self._known.forget()

    async def drain(self, seconds: float) -> None:
        """Take no more requests; give those that are being answered so many seconds."""
        loop = asyncio.get_running_loop()
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.shut()
        deadline = loop.time() + seconds
        while self._connections and loop.time() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)
