"""One response as it arrives, with its time limits and its flow control.

In: headers, body and end, from the connection. Out: the `UpstreamResponse` that the gateway reads. Everything runs on
the event loop's thread. Reading from the socket stops while too much of the body waits, so a slow reader slows the
upstream down.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from copy import copy
from time import monotonic
from typing import Protocol

from trilogue.errors import UpstreamError, UpstreamProtocolError, UpstreamTimeout
from trilogue.net.client.interface import UpstreamTimeouts
from trilogue.net.event_loop import Deadlines

HIGH_WATER = 64 * 1024
"""Bytes of the body that may wait for the reader before we stop reading from the socket."""


class ConnectionControl(Protocol):
    """The part of a connection that an exchange uses."""

    loop: asyncio.AbstractEventLoop
    deadlines: Deadlines

    def abort(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class HttpExchange:
    """The `UpstreamResponse` of a connection, which calls `received` and `finish`."""

    __slots__ = (
        "_connection",
        "_deadlines",
        "_heard",
        "_held",
        "_loop",
        "_pieces",
        "_released",
        "_size",
        "_take",
        "_timeouts",
        "_waiter",
        "complete",
        "encoded",
        "error",
        "headers",
        "status",
        "touched",
    )

    def __init__(self, connection: ConnectionControl, timeouts: UpstreamTimeouts) -> None:
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.encoded = False
        """There is a content-encoding header."""
        self.touched = False
        """At least one byte of the response has arrived."""
        self.complete = False
        self.error: UpstreamError | None = None
        """Why the response failed. Copies are raised: a raised error holds its frames, and they hold the exchange."""
        self._connection: ConnectionControl | None = connection
        self._loop = connection.loop
        self._deadlines = connection.deadlines
        self._timeouts = timeouts
        self._pieces: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._take: Callable[[bytes], bool] | None = None
        self._held = False
        self._heard = False
        self._released = False

    async def read(self, limit: int) -> bytes:
        """Return the whole body. Raise UpstreamProtocolError if it is larger than `limit` bytes."""
        if self.complete and self._size <= limit:
            return self._taken()
        pieces: list[bytes] = []
        size = 0
        while data := await self.chunk():
            pieces.append(data)
            size += len(data)
            if size > limit:
                await self.aclose()
                raise UpstreamProtocolError(f"the upstream's response is larger than {limit} bytes")
        return b"".join(pieces)

    async def chunk(self) -> bytes:
        """Return the bytes that have arrived since the last call, or wait for the next ones; b"" at the end."""
        while not self._pieces:
            if self.complete:
                return b""
            if self.error is not None:
                raise copy(self.error)
            await self.wait()
        return self._taken()

    async def pour(self, take: Callable[[bytes], bool]) -> None:
        """Call `take` with all bytes, as they arrive, until the end of the body or until `take` returns True."""
        if self._pieces and take(self._taken()):
            return
        if not self.complete and self.error is None:
            self._take, self._heard = take, False
            try:
                await self.wait()
            finally:
                enough, self._take = self._take is None, None
            if enough:
                return  # an error after that concerns only a caller that reads on
        if self.error is not None:
            raise copy(self.error)

    def hold(self, held: bool) -> None:
        """Stop reading from the socket, or start again."""
        self._held = held
        self._heard = True
        if self._connection is not None:
            if held:
                self._connection.pause()
            else:
                self._connection.resume()

    def release(self, seconds: float) -> None:
        """Drop the rest of the body. If it ends within this many seconds, the connection can be used again."""
        self._released = True
        if self._connection is not None:
            self._take = _enough
            self.hold(False)
            self._deadlines.add(self.abort, monotonic() + seconds)

    async def aclose(self) -> None:
        """Close the connection at once unless the body is complete or released."""
        if self._connection is not None and not self._released:
            self._connection.abort()

    def abort(self) -> None:
        """Close the connection unless the response is complete."""
        if self._connection is not None:
            self._connection.abort()

    async def wait(self) -> None:
        """Wait for headers, more of the body, or the end. If the caller is cancelled, close the connection."""
        seconds = self._timeouts.between if self.status else self._timeouts.first_byte
        if seconds is not None:
            self._deadlines.add(self._late, monotonic() + seconds)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            self._waiter = None
            self._deadlines.remove(self._late)

    def received(self, bodies: list[bytes]) -> None:
        """Take parts of the body, at least one, from the connection. The list is empty afterwards."""
        data = bodies.pop()
        if bodies:
            data = b"".join([*bodies, data])
            bodies.clear()
        take = self._take
        if take is not None:
            self._heard = True
            enough = None
            try:
                enough = take(data)
            finally:
                if enough is None:
                    self._broke(sys.exc_info()[1])
            if enough and take is not _enough:
                self._take = None
                self.wake()
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._waiter is not None:
            self.wake()
        if self._size > HIGH_WATER and self._connection is not None:
            self._connection.pause()

    def finish(self, error: UpstreamError | None = None) -> None:
        """End the response, with an error or as complete. Only the first call counts."""
        if not self.complete and self.error is None:
            self.complete, self.error = error is None, error
        self._connection = None
        if self._released:
            self._deadlines.remove(self.abort)
        if self._waiter is not None:
            self.wake()

    def wake(self) -> None:
        """Resume the task in `wait`, if there is one."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _taken(self) -> bytes:
        """Return the waiting bytes, and read from the socket again."""
        data = b"".join(self._pieces)
        self._pieces = []
        self._size = 0
        if self._connection is not None and not self._held:
            self._connection.resume()
        return data

    def _broke(self, error: BaseException | None) -> None:
        """Raise an error of `take` in the task that waits in `pour`."""
        self._take = None
        if error is not None and self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    def _late(self) -> None:
        """Fail the response: the time limit of this wait is over.

        `pour` waits once for many parts, so the limit starts again if any has arrived meanwhile. Silence is therefore
        noticed after one to two times `between`. Time limits on events are the caller's.
        """
        seconds = self._timeouts.between if self.status else self._timeouts.first_byte
        if seconds is None or self._waiter is None:
            return  # the waiting task was resumed in the same moment
        if self._take is not None and (self._heard or self._held):
            self._heard = False
            self._deadlines.add(self._late, monotonic() + seconds)
            return
        what = "more of the response" if self.status else "the first byte of the response"
        self.abort()
        self.finish(UpstreamTimeout(f"the upstream was silent for {seconds:g} s while we waited for {what}"))


def _enough(_: bytes) -> bool:
    """Ignore the rest of a released body."""
    return True
