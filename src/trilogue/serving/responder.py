"""The answer to one request: started once, then written piece by piece, then ended.

Writes the head of an HTTP/1.1 response.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

from trilogue.errors import InternalError

Headers = list[tuple[bytes, bytes]]

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_written = b": ".join


class _Clock:
    """The date header, made once a second."""

    second = 0
    line = b""


def response_head(status: int, headers: Headers, common: bytes, *, keep_alive: bool) -> bytes:
    """Status line and headers, with the blank line. A connection that will be closed says so.

    `common`: further headers, written already.
    """
    if not keep_alive:
        headers = [header for header in headers if header[0] != b"connection"] + [(b"connection", b"close")]
    line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
    return b"%b%b%b%b\r\n" % (line, _date(), header_lines(headers), common)


def header_lines(headers: Headers) -> bytes:
    """Headers as they are sent, each with the end of its line."""
    lines = b"\r\n".join([*map(_written, headers), b""])
    if lines.count(b"\n") != len(headers):
        raise InternalError("an answer has an illegal header")
    return lines


def _date() -> bytes:
    now = int(time.time())
    if now != _Clock.second:
        _Clock.second, _Clock.line = now, f"date: {formatdate(now, usegmt=True)}\r\n".encode()
    return _Clock.line


_CLOSE = b"close\r\n"
_LAST = b"0\r\n\r\n"
"""the chunk that ends a body"""
_BODILESS = frozenset({204, 304})


class ClientLink(Protocol):
    """What an answer needs of its connection."""

    keep_alive: bool
    paused: bool
    """the client does not take what it was sent"""
    on_flow: Callable[[bool], None]
    """is told whenever `paused` changes"""

    def put(self, data: bytes) -> None: ...
    def answered(self) -> None: ...
    async def drained(self) -> None: ...


class Responder:
    """`common`: headers that every answer to this request carries, written out. Writing to a client that has left does
    nothing.
    """

    __slots__ = (
        "_bodiless",
        "_head",
        "_line",
        "chunked",
        "common",
        "ended",
        "last_write_at",
        "on_body",
        "on_head",
        "since",
        "started",
        "status",
    )

    def __init__(self, line: ClientLink, *, chunked: bool, bodiless: bool) -> None:
        self._line = line
        self.chunked = chunked
        """the client knows HTTP/1.1, in which the end of a body can be told without closing"""
        self._bodiless = bodiless
        """the client asked for the head alone"""
        self._head = b""
        self.common = b""
        self.started = False
        self.ended = False
        self.status = 0
        self.on_head: Callable[[int, Headers], None] | None = None
        """is called with the status and headers of the response, for an observer"""
        self.on_body: Callable[[bytes, float], None] | None = None
        """is called with each piece of the body and the time, for an observer"""
        self.since = self.last_write_at = time.monotonic()
        """when the request came"""

    @property
    def busy(self) -> bool:
        """Pieces wait until the client has taken earlier ones."""
        return self._line.paused

    def start(self, status: int, headers: Headers) -> None:
        """Status and headers, sent with the first piece; from here on errors can only be told inside the body."""
        if status in _BODILESS or self._bodiless:
            self.chunked, self._bodiless = False, True
        elif self.chunked:
            headers = [*headers, (b"transfer-encoding", b"chunked")]
        else:
            self._line.keep_alive = False
        self._begin(status, headers)

    def send(self, data: bytes) -> None:
        """A piece of the body, now. Who sends much must heed `busy`, or `follow` it."""
        self.last_write_at = time.monotonic()
        self._line.put(self._framed(data))

    def _framed(self, data: bytes) -> bytes:
        """The piece as it is sent, after the head if that is still due."""
        if self._bodiless:
            data = b""
        if self.on_body is not None and data:
            self.on_body(data, time.monotonic())
        if self.chunked and data:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        head, self._head = self._head, b""
        return head + data

    def piece(self, data: bytes, now: float) -> None:
        """As `send`, for a stream that has begun: one of many small pieces. `now`: the time."""
        self.last_write_at = now
        if self.on_body is not None:
            self.on_body(data, now)
        self._line.put(b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data)

    async def write(self, data: bytes) -> None:
        """As `send`, and waits while the client is slow."""
        self.send(data)
        if self._line.paused:
            await self._line.drained()

    def follow(self, flow: Callable[[bool], None]) -> None:
        """Call this with True when the client becomes slow, with False when it has caught up."""
        self._line.on_flow = flow
        if self._line.paused:
            flow(True)

    def end(self, data: bytes = b"") -> None:
        """The last piece."""
        if self.ended:
            return
        self._line.put(self._framed(data) + _LAST if self.chunked else self._framed(data))
        self.ended = True
        self._line.answered()

    def reply(self, status: int, headers: Headers, body: bytes) -> None:
        """A whole answer."""
        self.chunked = False
        self._begin(status, [*headers, (b"content-length", b"%d" % len(body))])
        self.ended = True
        if self.on_body is not None and body and not self._bodiless:
            self.on_body(body, time.monotonic())
        self._line.put(self._head if self._bodiless else self._head + body)
        self._line.answered()

    def _begin(self, status: int, headers: Headers) -> None:
        self.started = True
        self.status = status
        if self.on_head is not None:
            self.on_head(status, headers)
        self._head = response_head(status, headers, self.common, keep_alive=self._line.keep_alive)
        if self._head.find(_CLOSE) >= 0:
            self._line.keep_alive = False
