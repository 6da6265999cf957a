"""The body of a request while it comes in: bounded in size, in time, and in what waits before somebody wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

BODY_SECONDS = 30.0
BODY_BYTES_PER_SECOND = 1024
"""A body may take half a minute, and longer only while it keeps this pace."""
HIGH_WATER = 64 * 1024
"""What may come of a body before somebody wants it."""


class BodyTooLarge(Exception):
    """The client sent more than the limit."""


class BodyTooSlow(Exception):
    """The client sends so slowly that it looks like an attack."""


class BodyBroken(Exception):
    """What came in the place of the body is not HTTP."""


class ClientGone(Exception):
    """The client closed the connection before it had its answer."""


class Upload:
    """`on_wanted` is called when somebody waits for the rest."""

    __slots__ = ("_body", "_broken", "_complete", "_gone", "_on_wanted", "_waiter", "_wanted")

    def __init__(self, on_wanted: Callable[[], None]) -> None:
        self._on_wanted = on_wanted
        self._body = bytearray()
        self._complete = False
        self._wanted = False
        self._gone = False
        self._broken = False
        self._waiter: asyncio.Future[None] | None = None

    async def all(self, limit: int) -> bytes:
        """The whole body; BodyTooLarge as soon as it is clear that it is."""
        if not self._complete:
            await self._rest(limit)
        if len(self._body) > limit:
            raise BodyTooLarge
        return bytes(self._body)

    async def _rest(self, limit: int) -> None:
        self._wanted = True
        self._on_wanted()
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(BODY_SECONDS) as clock:
                while not self._complete:
                    if self._gone:
                        raise ClientGone
                    if self._broken:
                        raise BodyBroken
                    if len(self._body) > limit:
                        raise BodyTooLarge
                    self._waiter = loop.create_future()
                    await self._waiter
                    clock.reschedule(started + BODY_SECONDS + len(self._body) / BODY_BYTES_PER_SECOND)
        except TimeoutError:
            raise BodyTooSlow from None
        finally:
            self._wanted = False
            self._waiter = None

    def received(self, data: bytes) -> bool:
        """The connection: more of it. Whether there is room for still more."""
        self._body += data
        self._wake()
        return self._wanted or len(self._body) <= HIGH_WATER

    def completed(self) -> None:
        """The connection: that was all."""
        self._complete = True
        self._wake()

    def broke(self) -> None:
        """The connection: the rest cannot be read."""
        self._broken = True
        self._wake()

    def lost(self) -> None:
        """The connection: the client has left."""
        self._gone = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
