"""Heads of requests that have come before. A client sends the same one again and again, but for the length of the body,
so what follows from a head is found out once: by the parser, and by the application.
"""

from __future__ import annotations

Key = tuple[bytes, bytes]
"""a head without the number of its content-length: what is before it, and what is behind"""

MAX_KEPT_BYTES = 8 * 1024
MOST = 512

_BEFORE = b"\r\ncontent-l"
_DIGITS = 9
_NOT_AGAIN = frozenset({"content-encoding", "expect", "transfer-encoding", "upgrade"})


class Head:
    """`headers`: by name in lower case; not to be changed, as requests share them.

    `note`: what the application wants to find here when the same head comes again.
    """

    __slots__ = ("headers", "method", "note", "path", "query")

    def __init__(self, method: str, path: str, query: bytes, headers: dict[str, str]) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.note: object = None


class KnownHeads:
    """Those of the clients of one listener that were valid HTTP/1.1, and after which another request may follow."""

    def __init__(self) -> None:
        self._heads: dict[Key, Head] = {}
        self.find = self._heads.get

    def forget(self) -> None:
        """All of them, with what was noted there."""
        self._heads.clear()

    def keep(self, key: Key, head: Head) -> None:
        """Know this one again, with whatever length."""
        if head.method != "POST" or not key[0].lower().endswith(_BEFORE) or not _NOT_AGAIN.isdisjoint(head.headers):
            return
        if len(self._heads) >= MOST:
            del self._heads[next(iter(self._heads))]
        headers = {name: value for name, value in head.headers.items() if name != "content-length"}
        self._heads[key] = Head(head.method, head.path, head.query, headers)


def split(data: bytes) -> tuple[Key, bytes] | None:
    """Head and body, if this is one whole request whose body has a length; what the head says is another question."""
    end = data.find(b"\r\n\r\n", 0, MAX_KEPT_BYTES)
    at = data.find(b"ength: ", 0, end) if end > 0 else -1
    if at < 0:
        return None
    stop = data.find(b"\r\n", at)
    length, body = data[at + 7 : stop], data[end + 4 :]
    if not length.isdigit() or len(length) > _DIGITS or int(length) != len(body):
        return None
    return (data[:at], data[stop:end]), body
