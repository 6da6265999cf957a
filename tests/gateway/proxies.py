"""Real egress proxies on loopback, HTTP and SOCKS5, in a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class LoopbackProxy:
    """Passes on what it gets and counts its connections."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self.url = ""
        self.connections = 0
        self.open: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client."""
        self.connections += 1
        self.open.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            meet = self._http if self.scheme == "http" else self._socks
            host, port, first = await meet(reader, writer)
            inward, outward = await asyncio.open_connection(host, port)
            self.open.append(outward)
            outward.write(first)
            await asyncio.gather(_pipe(reader, outward), _pipe(inward, writer))

    async def _http(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> tuple[str, int, bytes]:
        """Plain requests in absolute form (RFC 9112 §3.2.2); the upstream of these tests understands them too."""
        head = await reader.readuntil(b"\r\n\r\n")
        parts = urlsplit(head.split(b" ")[1].decode())
        return parts.hostname or "", parts.port or 80, head

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int, bytes]:
        """RFC 1928 without a password."""
        await reader.readexactly((await reader.readexactly(2))[1])
        writer.write(b"\x05\x00")
        kind = (await reader.readexactly(4))[3]
        size = 4 if kind == 1 else (await reader.readexactly(1))[0]
        address = await reader.readexactly(size)
        port = int.from_bytes(await reader.readexactly(2), "big")
        writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50")
        return ".".join(map(str, address)) if kind == 1 else address.decode(), port, b""


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextmanager
def proxying(*schemes: str) -> Iterator[list[LoopbackProxy]]:
    """Proxies that run."""
    proxies = [LoopbackProxy(scheme) for scheme in schemes]
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        servers = []
        for proxy in proxies:
            servers.append(await asyncio.start_server(proxy.serve, "127.0.0.1", 0))
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
