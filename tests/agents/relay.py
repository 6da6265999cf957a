"""A relay between a client and the gateway that writes down what the client sent and what it was told."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.scripted.http import Recorded, WatchedReader, head, read_request

_END = b"\r\n\r\n"


@dataclass
class Exchange:
    """One request of a client. Times are those of `time.monotonic`."""

    request: Recorded
    status: int = 0
    answer: bytes = b""
    """the response with its head, if it was an error"""
    ended: float = 0.0


@dataclass
class Relay:
    """A server on loopback: `url`, and `exchanges` with everything that went through."""

    target: str
    url: str = ""
    exchanges: list[Exchange] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> asyncio.Server:
        """Start to listen."""
        loop = asyncio.get_running_loop()

        def made() -> asyncio.StreamReaderProtocol:
            reader = WatchedReader()

            def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = loop.create_task(self._serve(reader, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

            return asyncio.StreamReaderProtocol(reader, connected)

        server = await loop.create_server(made, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def stop(self) -> None:
        """End what is still running."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: WatchedReader, writer: asyncio.StreamWriter) -> None:
        """Relay one request; the client opens a new connection for the next."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            request = await read_request(reader, 0)
            exchange = Exchange(request)
            self.exchanges.append(exchange)
            await self._relay(exchange, reader, writer)
        writer.close()

    async def _relay(self, exchange: Exchange, reader: WatchedReader, writer: asyncio.StreamWriter) -> None:
        address = urlsplit(self.target)
        source, sink = await asyncio.open_connection(address.hostname, address.port)
        leaving = asyncio.ensure_future(reader.closed.wait())
        leaving.add_done_callback(lambda _: sink.close())
        try:
            sink.write(_request_bytes(exchange.request))
            await _copy(exchange, source, writer)
        finally:
            exchange.ended = time.monotonic()
            leaving.cancel()
            sink.close()


async def _copy(exchange: Exchange, source: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        if not exchange.status:
            exchange.status = int(data.split(b" ", 2)[1])
        if exchange.status >= 400:
            exchange.answer += data
        writer.write(data)
        await writer.drain()


def _request_bytes(request: Recorded) -> bytes:
    skipped = ("connection", "content-length", "transfer-encoding", "expect")
    headers = [(name, value) for name, value in request.headers if name not in skipped]
    headers += [("connection", "close"), ("content-length", str(len(request.body)))]
    line = f"{request.method} {request.target} HTTP/1.1".encode()
    return line + head(200, headers).partition(b"\r\n")[1] + head(200, headers).partition(b"\r\n")[2] + request.body


@contextmanager
def relaying(target: str) -> Iterator[Relay]:
    """Run a relay to an address on a thread of its own."""
    relay = Relay(target)
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        server = await relay.start()
        ready.set()
        await stop.wait()
        server.close()
        await relay.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        if not ready.wait(5):
            raise RuntimeError("the relay did not start")
        yield relay
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)
        loop.close()
