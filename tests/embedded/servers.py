"""ASGI servers in threads: uvicorn and hypercorn, each with an application and a free port."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any

import hypercorn.asyncio
import hypercorn.config
import uvicorn

from tests.timing import eventually, eventually_async

Serving = Callable[[Any, socket.socket, threading.Event, Path | None], None]
"""serves an application until the event; with a certificate and its key, over TLS"""


def _uvicorn(app: Any, sock: socket.socket, stop: threading.Event, certificate: Path | None) -> None:
    tls: dict[str, Any] = {"ssl_certfile": certificate, "ssl_keyfile": certificate} if certificate else {}
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, **tls))

    async def serve() -> None:
        watching = asyncio.create_task(_until(stop))
        watching.add_done_callback(lambda _: setattr(server, "should_exit", True))
        await server.serve(sockets=[sock])

    asyncio.run(serve())


def _hypercorn(app: Any, sock: socket.socket, stop: threading.Event, certificate: Path | None) -> None:
    config = hypercorn.config.Config()
    config.bind = [f"fd://{os.dup(sock.fileno())}"]
    config.loglevel = "ERROR"
    if certificate is not None:
        config.certfile = config.keyfile = str(certificate)
    asyncio.run(hypercorn.asyncio.serve(app, config, shutdown_trigger=lambda: _until(stop)))


async def _until(stop: threading.Event) -> None:
    await eventually_async(stop.is_set, inf)


SERVERS: dict[str, Serving] = {"uvicorn": _uvicorn, "hypercorn": _hypercorn}


@contextmanager
def serving(name: str, app: Any, certificate: Path | None = None) -> Iterator[str]:
    """An application under a server, with a certificate over TLS. Returns its address."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        stop = threading.Event()
        thread = threading.Thread(target=SERVERS[name], args=(app, sock, stop, certificate), daemon=True)
        thread.start()
        host, port = sock.getsockname()
        if certificate is None:
            _wait_for(host, port)
        try:
            yield f"{'http' if certificate is None else 'https'}://{host}:{port}"
        finally:
            stop.set()
            thread.join(10)


def _wait_for(host: str, port: int) -> None:
    """Wait until the server responds: the socket accepts connections before that."""

    def responds() -> bool:
        with suppress(OSError), socket.create_connection((host, port), timeout=5) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return bool(client.recv(100))
        return False

    eventually(responds)
