"""The response to one request: started once, then written in pieces, then ended.

In: status, headers and body from the application. Out: the bytes of an HTTP/1.1 response, to a `ClientLink`. What the
body means is not known here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

from trilogue.errors import InternalError
from trilogue.net.server.websocket import Upgrade

Headers = list[tuple[bytes, bytes]]

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_written = b": ".join


class _DateHeader:
    """The date header of the current second, so that it is formatted once per second and not per response."""

    second = 0
    line = b""


def response_head(status: int, headers: Headers, common: bytes, *, keep_alive: bool) -> bytes:
    """Return status line and headers with the blank line; `connection: close` is added unless `keep_alive`.

    `common`: further header lines, already encoded.
    """
    if not keep_alive:
        headers = [header for header in headers if header[0] != b"connection"] + [(b"connection", b"close")]
    line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
    return b"%b%b%b%b\r\n" % (line, _date(), header_lines(headers), common)


def header_lines(headers: Headers) -> bytes:
    """Return headers as they are sent, each with its line end. Raises `InternalError` if one contains a line end."""
    lines = b"\r\n".join([*map(_written, headers), b""])
    if lines.count(b"\n") != len(headers):
        raise InternalError("a response has an illegal header")
    return lines


def _date() -> bytes:
    now = int(time.time())
    if now != _DateHeader.second:
        _DateHeader.second, _DateHeader.line = now, f"date: {formatdate(now, usegmt=True)}\r\n".encode()
    return _DateHeader.line


_CLOSE = b"close\r\n"
_LAST = b"0\r\n\r\n"
"""the chunk that ends a chunked body"""
_BODILESS = frozenset({204, 304})


class ClientLink(Protocol):
    """The part of a connection that a response needs."""

    keep_alive: bool
    paused: bool
    """whether the client does not read what was sent"""
    on_flow: Callable[[bool], None]
    """called with the new value whenever `paused` changes"""

    @property
    def peer(self) -> str:
        """The address that the client connects from; "" if it is not known."""
        ...

    def put(self, data: bytes) -> None: ...
    def response_ended(self) -> None: ...
    async def drained(self) -> None: ...


class Responder:
    """The response to one request. Writing to a client that has disconnected does nothing.

    `common`: encoded header lines that every response to this request gets.
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
        "upgrade",
    )

    def __init__(self, line: ClientLink, *, chunked: bool, bodiless: bool) -> None:
        self._line = line
        self.chunked = chunked
        """whether the body is sent in chunks, which HTTP/1.0 clients do not understand"""
        self._bodiless = bodiless
        """whether the client asked for the headers only (HEAD)"""
        self._head = b""
        self.common = b""
        self.started = False
        self.ended = False
        self.status = 0
        self.upgrade: Upgrade | None = None
        """accepts the client's offer of a WebSocket, if it made one; this takes the place of a response"""
        self.on_head: Callable[[int, Headers], None] | None = None
        """is called with the status and headers of the response, for an observer"""
        self.on_body: Callable[[bytes, float], None] | None = None
        """is called with each piece of the body and the time, for an observer"""
        self.since = self.last_write_at = time.monotonic()
        """when the request arrived"""

    @property
    def peer(self) -> str:
        """The address that the client connects from; "" if it is not known."""
        return self._line.peer

    @property
    def busy(self) -> bool:
        """Whether earlier pieces wait for the client to read."""
        return self._line.paused

    def start(self, status: int, headers: Headers) -> None:
        """Set status and headers, which are sent with the first piece of the body."""
        if status in _BODILESS or self._bodiless:
            self.chunked, self._bodiless = False, True
        elif self.chunked:
            headers = [*headers, (b"transfer-encoding", b"chunked")]
        else:
            self._line.keep_alive = False
        self._begin(status, headers)

    def send(self, data: bytes) -> None:
        """Send a piece of the body now. Callers that send much must check `busy`, or use `follow`."""
        self.last_write_at = time.monotonic()
        self._line.put(self._framed(data))

    def _framed(self, data: bytes) -> bytes:
        """Return the piece as it is sent, after the headers if they have not been sent yet."""
        if self._bodiless:
            data = b""
        if self.on_body is not None and data:
            self.on_body(data, time.monotonic())
        if self.chunked and data:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        head, self._head = self._head, b""
        return head + data

    def piece(self, data: bytes, now: float) -> None:
        """Send one of many small pieces of a stream whose headers have been sent. `now`: the current time."""
        self.last_write_at = now
        if self.on_body is not None:
            self.on_body(data, now)
        self._line.put(b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data)

    async def write(self, data: bytes) -> None:
        """Send a piece of the body, and wait while the client is slow."""
        self.send(data)
        if self._line.paused:
            await self._line.drained()

    def follow(self, flow: Callable[[bool], None]) -> None:
        """Call `flow` with True when the client becomes slow, and with False when it has caught up."""
        self._line.on_flow = flow
        if self._line.paused:
            flow(True)

    def end(self, data: bytes = b"") -> None:
        """Send the last piece. Does nothing if the response has ended."""
        if self.ended:
            return
        self._line.put(self._framed(data) + _LAST if self.chunked else self._framed(data))
        self.ended = True
        self._line.response_ended()

    def reply(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole response: status, headers and body."""
        self.chunked = False
        self._begin(status, [*headers, (b"content-length", b"%d" % len(body))])
        self.ended = True
        if self.on_body is not None and body and not self._bodiless:
            self.on_body(body, time.monotonic())
        self._line.put(self._head if self._bodiless else self._head + body)
        self._line.response_ended()

    def switch(self, headers: Headers) -> bytes:
        """End the response with a change of the protocol, and return its bytes."""
        # Also while the gateway drains: this connection must not be announced as one that closes.
        self.chunked, self._line.keep_alive = False, True
        self._begin(HTTPStatus.SWITCHING_PROTOCOLS, headers)
        self.ended = True
        return self._head

    def _begin(self, status: int, headers: Headers) -> None:
        self.started = True
        self.status = status
        if self.on_head is not None:
            self.on_head(status, headers)
        self._head = response_head(status, headers, self.common, keep_alive=self._line.keep_alive)
        if self._head.find(_CLOSE) >= 0:
            self._line.keep_alive = False
