"""HTTP as the gateway sees it: a request to read, an answer to send. On top of ASGI, with nothing between.

Comes in: an ASGI scope with its two callables. Goes out: ASGI messages. Knows nothing of protocols or models.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


BODY_SECONDS = 30.0
BODY_BYTES_PER_SECOND = 1024
"""A body may take half a minute, and longer only while it keeps this pace."""


_LENGTH_DIGITS = 15


class BodyTooLarge(Exception):
    """The client sent more than the limit."""


class BodyTooSlow(Exception):
    """The client sends so slowly that it looks like an attack."""


class BodyEncoded(Exception):
    """The body is compressed. What it unpacks to is not known, and no client of these protocols does it by default."""


class ClientGone(Exception):
    """The client closed the connection before it had its answer."""


class Request:
    """One HTTP request. Its body is read once, and bounded."""

    __slots__ = ("_receive", "headers", "method", "path", "query")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope.get("query_string", b"")
        self.headers: dict[str, str] = _headers(scope["headers"])
        self._receive = receive

    async def body(self, limit: int) -> bytes:
        """All of the body; BodyTooLarge as soon as it is clear that it is."""
        declared = self.headers.get("content-length", "0")
        if len(declared) > _LENGTH_DIGITS or int(declared) > limit:
            raise BodyTooLarge
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise BodyEncoded
        try:
            async with asyncio.timeout(BODY_SECONDS) as clock:
                return await self._pieces(limit, clock)
        except TimeoutError:
            raise BodyTooSlow from None

    async def _pieces(self, limit: int, clock: asyncio.Timeout) -> bytes:
        started = asyncio.get_running_loop().time()
        pieces: list[bytes] = []
        size = 0
        while (message := await self._receive())["type"] == "http.request":
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > limit:
                raise BodyTooLarge
            if not message.get("more_body"):
                return b"".join(pieces)
            clock.reschedule(started + BODY_SECONDS + size / BODY_BYTES_PER_SECOND)
        raise ClientGone

    async def gone(self) -> None:
        """Returns when the client has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


_LISTS = frozenset({"anthropic-beta", "openai-beta"})
"""headers that clients send several times, which means the same as one list"""


def _headers(raw: Headers) -> dict[str, str]:
    """By name. Any other header that is repeated keeps its first value: what a proxy in front has added comes later."""
    headers: dict[str, str] = {}
    for name_bytes, value_bytes in raw:
        name, value = name_bytes.decode("latin-1"), value_bytes.decode("latin-1")
        if name in _LISTS and name in headers:
            headers[name] += f",{value}"
        else:
            headers.setdefault(name, value)
    return headers


class Responder:
    """The answer to one request: started once, then written piece by piece, then ended."""

    __slots__ = ("_send", "busy", "common", "ended", "last_write_at", "started", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.common: Headers = []
        """headers that every answer to this request carries"""
        self.started = False
        self.ended = False
        self.busy = False
        """a piece waits until the client has taken earlier ones"""
        self.status = 0
        self.last_write_at = time.monotonic()

    async def start(self, status: int, headers: Headers) -> None:
        """Status and headers; from here on errors can only be told inside the body."""
        self.started = True
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers + self.common})

    async def write(self, data: bytes) -> None:
        """A piece of the body. Waits while the client is slow, and so makes the upstream wait."""
        self.last_write_at = time.monotonic()
        self.busy = True
        try:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
        finally:
            self.busy = False

    async def end(self, data: bytes = b"") -> None:
        """The last piece."""
        self.ended = True
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def reply(self, status: int, headers: Headers, body: bytes) -> None:
        """A whole answer."""
        await self.start(status, [*headers, (b"content-length", str(len(body)).encode())])
        await self.end(body)
