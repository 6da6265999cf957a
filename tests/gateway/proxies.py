"""Real egress proxies on loopback, HTTP, HTTPS and SOCKS5, in a thread of their own."""

from __future__ import annotations

import asyncio
import ssl
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class LoopbackProxy:
    """Passes on what it gets, counts its connections, and notes who logged in to go where."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self.url = ""
        self.connections = 0
        self.open: list[asyncio.StreamWriter] = []
        self.logins: set[str] = set()
        self.tunnels: set[str] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client."""
        self.connections += 1
        self.open.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            meet = self._http if self.scheme.startswith("http") else self._socks
            host, port, first = await meet(reader, writer)
            # Names that only this proxy can resolve.
            inward, outward = await asyncio.open_connection("127.0.0.1" if host.endswith(".test") else host, port)
            self.open.append(outward)
            outward.write(first)
            await asyncio.gather(_pipe(reader, outward), _pipe(inward, writer))

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int, bytes]:
        """CONNECT, or plain requests in absolute form (RFC 9112 §3.2.2), which the upstream understands too."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.decode("latin-1").split(" ", 2)
        _, found, login = head.partition(b"proxy-authorization: Basic ")
        if found:
            self.logins.add(b64decode(login.partition(b"\r\n")[0]).decode())
        if method != "CONNECT":
            parts = urlsplit(target)
            return parts.hostname or "", parts.port or 80, head
        self.tunnels.add(target)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        host, _, port = target.rpartition(":")
        return host, int(port), b""

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int, bytes]:
        """RFC 1928, with a password (RFC 1929) if the client has one."""
        method = max(await reader.readexactly((await reader.readexactly(2))[1]))
        writer.write(bytes([5, method]))
        if method:
            user = await reader.readexactly((await reader.readexactly(2))[1])
            password = await reader.readexactly((await reader.readexactly(1))[0])
            self.logins.add(f"{user.decode()}:{password.decode()}")
            writer.write(b"\x01\x00")
        kind = (await reader.readexactly(4))[3]
        size = 4 if kind == 1 else (await reader.readexactly(1))[0]
        address = await reader.readexactly(size)
        port = int.from_bytes(await reader.readexactly(2), "big")
        writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50")
        host = ".".join(map(str, address)) if kind == 1 else address.decode()
        self.tunnels.add(f"{host}:{port}")
        return host, port, b""


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextmanager
def proxying(*schemes: str, tls: ssl.SSLContext | None = None) -> Iterator[list[LoopbackProxy]]:
    """Proxies that run. `tls`: the certificate of those that are HTTPS."""
    proxies = [LoopbackProxy(scheme) for scheme in schemes]
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        servers = []
        for proxy in proxies:
            context = tls if proxy.scheme == "https" else None
            servers.append(await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=context))
            proxy.url = f"{proxy.scheme}://127.0.0.1:{servers[-1].sockets[0].getsockname()[1]}"
        ready.set()
        await stop.wait()
        for server in servers:
            server.close()
        # A connection that is closed ends its task; a task that is cancelled is reported as an error.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for writer in (writer for proxy in proxies for writer in proxy.open):
                writer.close()
            await asyncio.wait(others, timeout=0.05)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(5)
        yield proxies
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)
        loop.close()
