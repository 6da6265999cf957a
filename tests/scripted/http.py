"""HTTP/1.1 by hand: read requests from a socket, and send responses as steps that a connection performs."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from tests.timing import pause_for

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden"}
REASONS |= {404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable"}


class Do(Enum):
    """A step that does not send bytes."""

    RESET = "close with RST"
    HANG = "say nothing more, until the client leaves"
    CLOSE = "close in good order"


Step = bytes | float | Do
"""bytes to send, seconds to wait, or something to do"""

Headers = list[tuple[str, str]]


@dataclass
class Recorded:
    """One recorded request. Times are those of `time.monotonic`."""

    method: str
    target: str
    headers: Headers
    body: bytes
    time: float
    connection: int
    closed: float | None = None
    """when the client closed the connection, if it did"""
    complete: bool = False
    """whether the whole response was sent"""
    _json: Any = field(default=None, repr=False)

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> str:
        return urlsplit(self.target).query

    def header(self, name: str) -> str | None:
        """Return the first value of a header."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def json(self) -> Any:
        """Return the parsed body."""
        if self._json is None:
            self._json = json.loads(self.body)
        return self._json


class WatchedReader(asyncio.StreamReader):
    """A reader that reports when the peer has closed, even if nothing reads from it."""

    def __init__(self) -> None:
        super().__init__(limit=64 * 1024 * 1024)
        self.closed = asyncio.Event()
        self.closed_at: float | None = None

    def feed_eof(self) -> None:
        super().feed_eof()
        self._note()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self._note()

    def _note(self) -> None:
        if self.closed_at is None:
            self.closed_at = time.monotonic()
            self.closed.set()


async def read_request(reader: WatchedReader, connection: int) -> Recorded:
    """Read the next request. Raises IncompleteReadError at the end of the connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = line.split(" ")
    headers = [(name.lower(), value.strip()) for name, _, value in (text.partition(":") for text in lines)]
    body = await _read_body(reader, dict(headers))
    return Recorded(method, target, headers, body, time.monotonic(), connection)


async def _read_body(reader: WatchedReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    pieces = []
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        pieces.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return b"".join(pieces)


def head(status: int, headers: Headers) -> bytes:
    """Return the status line and the headers."""
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def whole(status: int, headers: Headers, body: bytes, content_type: str = "application/json") -> bytes:
    """Return a complete response with its length."""
    framing = [("content-type", content_type), ("content-length", str(len(body)))]
    return head(status, [*framing, *headers]) + body


def json_answer(status: int, headers: Headers, body: Any) -> bytes:
    """Return a complete JSON response."""
    return whole(status, headers, json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())


def stream_head(headers: Headers) -> bytes:
    """Return the head of a chunked event stream."""
    framing = [("content-type", "text/event-stream; charset=utf-8"), ("transfer-encoding", "chunked")]
    return head(200, [*framing, ("cache-control", "no-cache"), *headers])


def chunk(data: bytes) -> bytes:
    """Return the bytes as one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def sse_answer(events: Iterable[bytes], headers: Headers | None = None) -> Iterator[Step]:
    """Return a complete event stream, for tests that write their own events."""
    yield stream_head(headers or [])
    yield from map(chunk, events)
    yield LAST_CHUNK


async def perform(steps: Iterable[Step], writer: asyncio.StreamWriter) -> bool:
    """Perform the steps of a response. Returns False if the connection must not be used again."""
    for step in steps:
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
        elif not isinstance(step, Do):
            await pause_for(step)
        elif step is Do.HANG:
            await asyncio.Event().wait()
        else:
            if step is Do.RESET:
                reset(writer)
            return False
    return True


def reset(writer: asyncio.StreamWriter) -> None:
    """Close the connection with RST."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
