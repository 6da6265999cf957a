"""The shape of a stream's ordinary event: all of it but the text, learnt from one and recognised in those that follow.

A server writes one text delta like the other, byte for byte. Whoever has decoded one finds the text of the next between
the same two halves, without a parser. What may differ besides is a sequence number or a padding, one in each half.
Whatever does not fit exactly, or has a text that JSON must escape, is left to the decoder.
"""

from __future__ import annotations

import re

_VARIES = re.compile(rb'"sequence_number": ?(\d+)|"obfuscation": ?"([0-9A-Za-z]*)"')
_QUOTE = b'"'


class Shape:
    """Made by `learn`."""

    __slots__ = ("_after", "_before", "_end", "_start")

    def __init__(self, start: bytes, before: bytes, after: bytes, end: bytes) -> None:
        self._start = start
        self._before = before
        """between what varies and the text; empty if nothing varies before the text"""
        self._after = after
        self._end = end
        """behind what varies after the text; empty if nothing does"""

    def text(self, data: bytes) -> str:
        """The text of this event; empty if it is another event, or one that the decoder must see."""
        if not data.startswith(self._start):
            return ""
        begin = len(self._start)
        if self._before:
            found = data.find(self._before, begin)
            if not data[begin:found].isdigit():
                return ""
            begin = found + len(self._before)
        end = data.find(_QUOTE, begin)
        if not (self._fits(data, end) if self._end else data[end:] == self._after):
            return ""
        try:
            text = data[begin:end].decode()
        except UnicodeDecodeError:
            return ""
        return text if text.isprintable() and "\\" not in text else ""

    def _fits(self, data: bytes, at: int) -> bool:
        varies = data[at + len(self._after) : -len(self._end)]
        return data.startswith(self._after, at) and data.endswith(self._end) and varies.isalnum()


def learn(data: bytes, text: str) -> Shape | None:
    """The shape of an event with this text; None if its place is not certain."""
    quoted = b'"%b"' % text.encode("utf-8", "replace")
    if data.count(quoted) != 1 or data.count(b"\n\n") != 1 or not data.endswith(b"\n\n"):
        return None
    at = data.index(quoted) + 1
    start, before = _split(data[:at])
    after, end = _split(data[at + len(quoted) - 2 :])
    return Shape(start, before, after, end)


def _split(half: bytes) -> tuple[bytes, bytes]:
    """Around what varies."""
    found = _VARIES.search(half)
    if found is None:
        return half, b""
    return half[: found.start(found.lastindex or 0)], half[found.end(found.lastindex or 0) :]
