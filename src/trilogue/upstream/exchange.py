"""One request's answer as it arrives: its head at once, its body as it comes, to be read, poured, held or let go.

Everything here runs on the event loop's thread. Reading from the socket stops while too much of the body waits to be
taken, so a slow reader slows the upstream.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Protocol

from trilogue.errors import UpstreamError, UpstreamTimeout

HIGH_WATER = 64 * 1024
"""Body bytes that may wait for their reader before the socket is no longer read."""


class Link(Protocol):
    """What an exchange needs of its connection."""

    def abort(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Exchange:
    """Made by the connection, which tells it what comes."""

    __slots__ = (
        "_connection",
        "_heard",
        "_held",
        "_pieces",
        "_size",
        "_take",
        "_timer",
        "_waiter",
        "complete",
        "error",
        "framed",
        "headers",
        "released",
        "status",
        "touched",
    )

    def __init__(self, connection: Link) -> None:
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.framed = False
        """its end is marked by length or chunks; otherwise the end of the connection is its end"""
        self.touched = False
        """something of an answer has come"""
        self.complete = False
        self.error: UpstreamError | None = None
        self._connection: Link | None = connection
        self._pieces: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._take: Callable[[bytes], bool] | None = None
        self._held = False
        self._heard = True
        self._timer: asyncio.TimerHandle | None = None
        self.released = False

    async def head(self, seconds: float) -> None:
        """Wait until the head is complete."""
        while not self.status:
            if self.error is not None:
                raise self.error
            await self._wait(seconds, "the first byte of the answer")

    async def chunk(self, seconds: float | None) -> bytes:
        """Whatever has arrived and was not taken yet; b"" at the end of the body."""
        while not self._pieces:
            if self.complete:
                return b""
            if self.error is not None:
                raise self.error
            if seconds is None:
                await self._woken()
            else:
                await self._wait(seconds, "more of the answer")
        return self.take()

    @property
    def waiting(self) -> int:
        """Bytes that have arrived and were not taken yet."""
        return self._size

    def take(self) -> bytes:
        """What has arrived and was not taken yet."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        if self._connection is not None and not self._held:
            self._connection.resume()
        return data

    async def pour(self, take: Callable[[bytes], bool], seconds: float | None) -> None:
        """Give `take` everything, as it comes, until the end or until it has enough."""
        if self._pieces and take(self.take()):
            return
        if not self.complete and self.error is None:
            self._take, self._heard = take, True
            if seconds is not None:
                self._listen_for(seconds)
            try:
                await self._woken()
            finally:
                self._take = None
                self._stop_timer()
        if self.error is not None:
            raise self.error

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
        self.released = True
        if self._connection is not None:
            self._take = _enough
            self.hold(False)
            self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def abort(self) -> None:
        """Drop the connection unless the answer is complete."""
        if self._connection is not None:
            self._connection.abort()

    def received(self, data: bytes) -> None:
        """More of the body has come."""
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
        self.wake()
        if self._size > HIGH_WATER and self._connection is not None:
            self._connection.pause()

    def _broke(self, error: BaseException | None) -> None:
        """Whoever was to take the bytes failed at it: that is for whoever waits for the end."""
        self._take = None
        if error is not None and self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    def finish(self, error: UpstreamError | None = None) -> None:
        """The end, good or bad. The first one counts."""
        if not self.complete and self.error is None:
            self.complete, self.error = error is None, error
        self._connection = None
        self._stop_timer()
        self.wake()

    def wake(self) -> None:
        """Let whoever waits look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self, seconds: float, what: str) -> None:
        clock = asyncio.get_running_loop().call_later(seconds, self._expire, seconds, what)
        try:
            await self._woken()
        finally:
            clock.cancel()

    async def _woken(self) -> None:
        """Wait until there is something to look at; whoever stops waiting drops the connection."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            self._waiter = None

    def _listen_for(self, seconds: float) -> None:
        """One timer for many pieces: it looks when it fires, instead of being set for each.

        So silence is noticed after one to two times `seconds`; clocks that count events are the caller's own.
        """
        if self._heard or self._held:
            self._heard = False
            self._timer = asyncio.get_running_loop().call_later(seconds, self._listen_for, seconds)
        else:
            self._expire(seconds, "more of the answer")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self, seconds: float, what: str) -> None:
        self.abort()
        self.finish(UpstreamTimeout(f"the upstream was silent for {seconds:g} s while we waited for {what}"))


def _enough(_: bytes) -> bool:
    """What comes is of no interest any more."""
    return True
