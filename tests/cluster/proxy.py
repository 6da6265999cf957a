"""A TCP proxy on loopback that can stop passing on what it gets, as a network does that is split, and can speak TLS."""

from __future__ import annotations

import asyncio
import ssl
import threading
from contextlib import suppress

from tests.timing import turns

CHUNK = 65_536


class Proxy:
    """Passes connections on to a port of this machine, in a thread of its own. `tls`: what clients connect with."""

    def __init__(self, target: int, tls: ssl.SSLContext | None = None) -> None:
        self._target = target
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0

    def __enter__(self) -> Proxy:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def split(self) -> None:
        """Pass nothing on from now on; connections stay open."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def heal(self) -> None:
        """Pass on everything again, and what was held up."""
        self._loop.call_soon_threadsafe(self._flowing.set)

    def reset(self) -> None:
        """Close all connections."""
        self._loop.call_soon_threadsafe(self._abort)

    def _run(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        if self._server is not None:
            self._server.close()
        self._abort()
        self._loop.run_until_complete(turns(5))
        self._loop.close()

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self._ready.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with suppress(OSError, asyncio.CancelledError):
            await self._flowing.wait()
            inward, outward = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.append(outward)
            await asyncio.gather(self._pass_on(reader, outward), self._pass_on(inward, writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
