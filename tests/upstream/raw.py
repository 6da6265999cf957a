"""Servers on raw sockets for tests of the transport: each connection is one coroutine that sends what it likes."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import uvloop

from tests.timing import eventually_async
from trilogue.net.client.interface import UpstreamRequest, UpstreamTimeouts
from trilogue.net.client.transport import HttpTransport

Handler = Callable[["Peer"], Awaitable[None]]
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CLOSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Return one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.reader = reader
        self.writer = writer
        self.number = number

    async def request(self) -> tuple[bytes, bytes]:
        """Return head and body of the next request."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return head, await self.reader.readexactly(length)

    async def send(self, data: bytes) -> None:
        """Write bytes and wait until they are sent."""
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Close the connection with a RST."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def gone(self) -> float:
        """Wait for the client to close, and return the loop's time when it did."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass
        return asyncio.get_running_loop().time()


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Run a server on loopback and yield its port."""
    count = 0
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        try:
            await handler(Peer(reader, writer, count))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def transport(**options: Any) -> AsyncIterator[HttpTransport]:
    """Yield a transport that is closed at the end."""
    made = HttpTransport(**options)
    try:
        yield made
    finally:
        await made.aclose()


def post(port: int, path: str = "/", *, body: bytes = b"{}", scheme: str = "http", **clocks: float) -> UpstreamRequest:
    """Return a request to a server of ours, with short time limits."""
    timeouts = UpstreamTimeouts(**{"connect": 2.0, "first_byte": 2.0, "between": 2.0, **clocks})
    return UpstreamRequest("POST", f"{scheme}://127.0.0.1:{port}{path}", (("x-test", "1"),), body, timeouts)


def run(loop: str, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test on one of the event loops."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(asyncio.wait_for(test(), 20))


async def until(condition: Callable[[], bool], seconds: float = 2) -> None:
    """Wait until a condition holds."""
    await eventually_async(condition)
