"""One HTTP request of a client. Its head is here; its body comes, is read once, and is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from trilogue.serving.known import Head

BODY_SECONDS = 30.0
BODY_BYTES_PER_SECOND = 1024
"""A body may take half a minute, and longer only while it keeps this pace."""
HIGH_WATER = 64 * 1024
"""What may come of a body before somebody wants it."""

_LENGTH_DIGITS = 15


class BodyTooLarge(Exception):
    """The client sent more than the limit."""


class BodyTooSlow(Exception):
    """The client sends so slowly that it looks like an attack."""


class BodyEncoded(Exception):
    """The body is compressed. What it unpacks to is not known, and no client of these protocols does it by default."""


class BodyBroken(Exception):
    """What came in the place of the body is not HTTP."""


class ClientGone(Exception):
    """The client closed the connection before it had its answer."""


def _nothing() -> None:
    """Nobody minds."""


class Request:
    """`body`: if all of it is here. `on_gone` is called if the client leaves before it has its answer."""

    __slots__ = (
        "_body",
        "_broken",
        "_complete",
        "_gone",
        "_size",
        "_waiter",
        "_wanted",
        "head",
        "headers",
        "method",
        "on_gone",
        "on_wanted",
        "path",
        "query",
        "task",
    )

    task: asyncio.Task[None]
    """what answers it"""

    def __init__(self, head: Head, body: bytes | None = None) -> None:
        self.head = head
        self.method = head.method
        self.path = head.path
        self.query = head.query
        self.headers = head.headers
        self.on_gone: Callable[[], object] = _nothing
        self.on_wanted: Callable[[], None] = _nothing
        """somebody waits for a body that is not complete"""
        self._body: bytes | bytearray = bytearray() if body is None else body
        self._size = 0 if body is None else len(body)
        self._complete = body is not None
        self._wanted = False
        self._gone = False
        self._broken = False
        self._waiter: asyncio.Future[None] | None = None

    async def body(self, limit: int) -> bytes:
        """All of the body; BodyTooLarge as soon as it is clear that it is."""
        if "content-encoding" in self.headers and self.headers["content-encoding"].lower() != "identity":
            raise BodyEncoded
        if not self._complete:
            declared = self.headers.get("content-length", "0")
            if len(declared) > _LENGTH_DIGITS or int(declared) > limit:
                raise BodyTooLarge
            await self._all(limit)
        if self._size > limit:
            raise BodyTooLarge
        body, self._body = self._body, b""
        return bytes(body)

    async def _all(self, limit: int) -> None:
        self._wanted = True
        self.on_wanted()
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(BODY_SECONDS) as clock:
                while not self._complete:
                    if self._gone:
                        raise ClientGone
                    if self._broken:
                        raise BodyBroken
                    if self._size > limit:
                        raise BodyTooLarge
                    self._waiter = loop.create_future()
                    await self._waiter
                    clock.reschedule(started + BODY_SECONDS + self._size / BODY_BYTES_PER_SECOND)
        except TimeoutError:
            raise BodyTooSlow from None
        finally:
            self._wanted = False
            self._waiter = None

    def received(self, data: bytes) -> bool:
        """The connection: more of the body. Whether there is room for still more."""
        self._body += data
        self._size += len(data)
        if self._waiter is not None:
            self._wake()
        return self._wanted or self._size <= HIGH_WATER

    def completed(self) -> None:
        """The connection: that was the body."""
        self._complete = True
        if self._waiter is not None:
            self._wake()

    def broke(self) -> None:
        """The connection: the rest of the body cannot be read."""
        self._broken = True
        self._wake()

    def lost(self) -> None:
        """The connection: the client has left."""
        self._gone = True
        self._wake()
        self.on_gone()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
