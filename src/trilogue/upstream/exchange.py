"""One request's answer as it arrives: its head at once, its body as it comes, to be read, poured, held or let go.

Everything here runs on the event loop's thread. Reading from the socket stops while too much of the body waits to be
taken, so a slow reader slows the upstream.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from copy import copy
from time import monotonic
from typing import Protocol

from trilogue.deadlines import Deadlines
from trilogue.errors import UpstreamError, UpstreamProtocolError, UpstreamTimeout
from trilogue.upstream.interface import UpstreamTimeouts

HIGH_WATER = 64 * 1024
"""Body bytes that may wait for their reader before the socket is no longer read."""


class Link(Protocol):
    """What an exchange needs of its connection."""

    loop: asyncio.AbstractEventLoop
    deadlines: Deadlines

    def abort(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class HttpExchange:
    """An `UpstreamResponse`, made by the connection, which tells it what comes."""

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

    def __init__(self, connection: Link, timeouts: UpstreamTimeouts) -> None:
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.encoded = False
        """one of the headers says how the body is packed"""
        self.touched = False
        """something of an answer has come"""
        self.complete = False
        self.error: UpstreamError | None = None
        """how it ended. Copies of it are raised: what is raised holds its frames, and they hold the exchange"""
        self._connection: Link | None = connection
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
        """The whole body, bounded."""
        if self.complete and self._size <= limit:
            return self._taken()
        pieces: list[bytes] = []
        size = 0
        while data := await self.chunk():
            pieces.append(data)
            size += len(data)
            if size > limit:
                await self.aclose()
                raise UpstreamProtocolError(f"the upstream's answer is larger than {limit} bytes")
        return b"".join(pieces)

    async def chunk(self) -> bytes:
        """Whatever has arrived and was not taken yet; b"" at the end of the body."""
        while not self._pieces:
            if self.complete:
                return b""
            if self.error is not None:
                raise copy(self.error)
            await self.wait()
        return self._taken()

    async def pour(self, take: Callable[[bytes], bool]) -> None:
        """Give `take` everything, as it comes, until the end or until it has enough."""
        if self._pieces and take(self._taken()):
            return
        if not self.complete and self.error is None:
            self._take, self._heard = take, False
            try:
                await self.wait()
            finally:
                enough, self._take = self._take is None, None
            if enough:
                return  # how it ended after that is for whoever wants more of it
        if self.error is not None:
            raise copy(self.error)

    def hold(self, held: bool) -> None:
        """Leave what comes in the socket, or no longer."""
        self._held = held
        self._heard = True
        if self._connection is not None:
            if held:
                self._connection.pause()
            else:
                self._connection.resume()

    def release(self, seconds: float) -> None:
        """Nobody wants the rest; the connection can be used again if it comes soon."""
        self._released = True
        if self._connection is not None:
            self._take = _enough
            self.hold(False)
            self._deadlines.add(self.abort, monotonic() + seconds)

    async def aclose(self) -> None:
        """Drop the connection at once if the body is neither complete nor released."""
        if self._connection is not None and not self._released:
            self._connection.abort()

    def abort(self) -> None:
        """Drop the connection unless the answer is complete."""
        if self._connection is not None:
            self._connection.abort()

    async def wait(self) -> None:
        """Wait until there is something to look at; whoever stops waiting drops the connection."""
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
        """More of the body has come, at least one piece. The list is empty afterwards."""
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
        """The end, good or bad. The first one counts."""
        if not self.complete and self.error is None:
            self.complete, self.error = error is None, error
        self._connection = None
        if self._released:
            self._deadlines.remove(self.abort)
        if self._waiter is not None:
            self.wake()

    def wake(self) -> None:
        """Let whoever waits look again."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _taken(self) -> bytes:
        """What has arrived and was not taken yet."""
        data = b"".join(self._pieces)
        self._pieces = []
        self._size = 0
        if self._connection is not None and not self._held:
            self._connection.resume()
        return data

    def _broke(self, error: BaseException | None) -> None:
        """Whoever was to take the bytes failed at it: that is for whoever waits for the end."""
        self._take = None
        if error is not None and self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    def _late(self) -> None:
        """The time of this wait is over.

        Where bytes are poured there is one wait for many pieces: then it begins again if any has come meanwhile. So
        silence is noticed after one to two times `between`; clocks that count events are the caller's own.
        """
        seconds = self._timeouts.between if self.status else self._timeouts.first_byte
        if seconds is None or self._waiter is None:
            return  # it was woken just in time
        if self._take is not None and (self._heard or self._held):
            self._heard = False
            self._deadlines.add(self._late, monotonic() + seconds)
            return
        what = "more of the answer" if self.status else "the first byte of the answer"
        self.abort()
        self.finish(UpstreamTimeout(f"the upstream was silent for {seconds:g} s while we waited for {what}"))


def _enough(_: bytes) -> bool:
    """What comes is of no interest any more."""
    return True
