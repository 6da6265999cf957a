"""Listens for clients, and lets them go in good order."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

from trilogue.serving.connection import App, ClientConnection, Refusal
from trilogue.serving.known_heads import KnownHeads

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
        self._sock: socket.socket | None = None

    async def open(self, sock: socket.socket) -> None:
        """Take connections from this socket."""
        self._sock = sock
        self._server = await asyncio.get_running_loop().create_server(self._connection, sock=sock, backlog=BACKLOG)

    def _connection(self) -> ClientConnection:
        loop = asyncio.get_running_loop()
        return ClientConnection(self._app, self._refusal, self._connections, self._known, loop)

    def forget(self) -> None:
        """What the application has noted of its clients is not true any more."""
        self._known.forget()

    async def drain(self, seconds: float) -> None:
        """Take no more requests; give those that are being answered so many seconds.

        Who has connected already may still ask: the system would tell them that nobody was ever there.
        """
        loop = asyncio.get_running_loop()
        waiting = self._accepted()
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0)  # for those that the event loop has in hand
        for connection in list(self._connections):
            connection.shut()
        for sock in waiting:
            with suppress(OSError):  # it has left
                _, late = await loop.connect_accepted_socket(self._connection, sock)
                late.shut()
        deadline = loop.time() + seconds
        while self._connections and loop.time() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    def _accepted(self) -> list[socket.socket]:
        """The connections that the system has made and the event loop has not seen yet."""
        accepted: list[socket.socket] = []
        with suppress(OSError):  # there are no more
            while self._sock is not None and len(accepted) < BACKLOG:
                sock, _ = self._sock.accept()
                sock.setblocking(False)
                accepted.append(sock)
        return accepted
