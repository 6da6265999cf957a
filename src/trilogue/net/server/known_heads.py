"""A fast path: recognise the request headers that a client has sent before, so that they are parsed only once.

In: the bytes of a request as they arrived. Out: the request, if its headers were accepted before. A client sends the
same headers again and again, except for `content-length`. So the parsed headers, and what the application concluded
from them (`Head.note`), are kept for other requests with these headers. This module does not know what headers mean.

Saves about 30 µs and 77 calls per request, 20 % of a request that is passed through.
"""

from __future__ import annotations

from trilogue.net.server.request import Head, HttpRequest

Key = tuple[bytes, bytes]
"""a request line with headers, without the number of the content-length: the bytes before it and those after it"""

MAX_KEPT_BYTES = 8 * 1024
MOST = 512

_BEFORE = b"\r\ncontent-l"
_DIGITS = 9
_NOT_REUSED = frozenset({"content-encoding", "expect", "transfer-encoding", "upgrade"})
"""headers that make a connection behave differently, so that the parser must see them"""
_UNKNOWN = (None, None)


class KnownHeads:
    """The latest headers of a listener's clients that were valid HTTP/1.1 and left their connection open."""

    def __init__(self) -> None:
        self._heads: dict[Key, Head] = {}

    def find(self, data: bytes) -> tuple[Key | None, HttpRequest | None]:
        """Return the request if these bytes are one complete request with known headers.

        The key is for `keep`, once the parser has accepted the headers; None if these bytes cannot be reused.
        """
        end = data.find(b"\r\n\r\n", 0, MAX_KEPT_BYTES)
        at = data.find(b"ength: ", 0, end) if end > 0 else -1
        if at < 0:
            return _UNKNOWN
        stop = data.find(b"\r\n", at)
        length, body = data[at + 7 : stop], data[end + 4 :]
        if not length.isdigit() or len(length) > _DIGITS or int(length) != len(body):
            return _UNKNOWN
        # Whether the headers are valid, and whether this was their content-length, is decided by parser and `keep`.
        key = (data[:at], data[stop:end])
        head = self._heads.get(key)
        return key, None if head is None else HttpRequest(head, body)

    def forget(self) -> None:
        """Forget all headers, and what the application noted there."""
        self._heads.clear()

    def keep(self, key: Key, head: Head) -> None:
        """Recognise these headers from now on, with any content-length."""
        if head.method != "POST" or not key[0].lower().endswith(_BEFORE) or not _NOT_REUSED.isdisjoint(head.headers):
            return
        if len(self._heads) >= MOST:
            del self._heads[next(iter(self._heads))]
        self._heads[key] = head
