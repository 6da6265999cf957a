"""The listening socket: accept clients, and drain their connections when the gateway stops.

In: a bound socket and the application. It does not know HTTP; `connection.py` does.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.net.server.connection import App, ClientConnection, Refusal
from trilogue.net.server.request import KnownHeads
from trilogue.net.server.websocket import WebSocket

BACKLOG = 2048
LOOK_SECONDS = 0.02


class Listener:
    """One listening socket and the connections that it has accepted."""

    def __init__(self, app: App, refusal: Refusal) -> None:
        self._app = app
        self._refusal = refusal
        self._connections: set[ClientConnection | WebSocket] = set()
        self._known = KnownHeads() if FAST_PATHS.on else None
        self._server: asyncio.Server | None = None
        self._sock: socket.socket | None = None

    async def open(self, sock: socket.socket) -> None:
        """Start to accept connections from this socket."""
        self._sock = sock
        self._server = await asyncio.get_running_loop().create_server(self._connection, sock=sock, backlog=BACKLOG)

    def _connection(self) -> ClientConnection:
        loop = asyncio.get_running_loop()
        return ClientConnection(self._app, self._refusal, self._connections, self._known, loop)

    def forget(self) -> None:
        """Forget what the application has noted about its clients' headers, because the configuration has changed."""
        if self._known is not None:
            self._known.forget()

    async def drain(self, seconds: float, *, at_once: bool = False) -> None:
        """Accept no more connections, and give running requests this many seconds to finish.

        Clients that have already connected may still send a request: if their connections were reset, clients would
        report that the server does not exist. `at_once`: close connections that were used before and are idle now.
        """
        loop = asyncio.get_running_loop()
        waiting = self._accepted()
        if self._server is not None:
            self._server.close()
        # Let the event loop finish the connections that it is accepting right now.
        await asyncio.sleep(0)
        for connection in list(self._connections):
            connection.shut(at_once=at_once)
        for sock in waiting:
            # A client may have disconnected in the meantime.
            with suppress(OSError):
                _, late = await loop.connect_accepted_socket(self._connection, sock)
                late.shut()
        deadline = loop.time() + seconds
        while self._connections and loop.time() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    def _accepted(self) -> list[socket.socket]:
        """Return the connections that the kernel has accepted and the event loop has not seen yet."""
        accepted: list[socket.socket] = []
        # The socket is non-blocking: an OSError means that there are no more.
        with suppress(OSError):
            while self._sock is not None and len(accepted) < BACKLOG:
                sock, _ = self._sock.accept()
                sock.setblocking(False)
                accepted.append(sock)
        return accepted
