"""Writes the head of an HTTP/1.1 response."""

from __future__ import annotations

import time
from email.utils import formatdate
from http import HTTPStatus

from trilogue.errors import InternalError

Headers = list[tuple[bytes, bytes]]

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode() for status in HTTPStatus}
_written = b": ".join


class _Clock:
    """The date header, made once a second."""

    second = 0
    line = b""


def response_head(status: int, headers: Headers, common: Headers, *, keep_alive: bool) -> bytes:
    """Status line and headers, with the blank line. A connection that will be closed says so."""
    if not keep_alive:
        headers = [header for header in headers if header[0] != b"connection"] + [(b"connection", b"close")]
    line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status
    lines = [line, _date(), *map(_written, headers), *map(_written, common), b"\r\n"]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines):
        raise InternalError("an answer has an illegal header")
    return head


def _date() -> bytes:
    now = int(time.time())
    if now != _Clock.second:
        _Clock.second, _Clock.line = now, f"date: {formatdate(now, usegmt=True)}".encode()
    return _Clock.line
