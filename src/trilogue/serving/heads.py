"""Writes the head of an HTTP/1.1 response."""

from __future__ import annotations

import time
from email.utils import formatdate
from http import HTTPStatus

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
