"""The shape of a stream's ordinary event: all of it but the text, learnt from one and recognised in those that follow.

A server writes one text delta like the other, byte for byte. Whoever has decoded one finds the text of the next between
the same two halves, without parsing them. What may differ besides is in `_LEGAL`. Whatever does not fit exactly, or
has a text that is no string of JSON, is left to the decoder.
"""

from __future__ import annotations

import re
from string import ascii_letters, digits

import msgspec

from trilogue.jsontext.text import DECODE_ERRORS

_VARIES = re.compile(rb'"(?:sequence_number": ?(?P<number>\d+)|(?:obfuscation|p)": ?"(?P<padding>[0-9A-Za-z]*)")')
"""OpenAI counts its events, and hides how long they are, as Mistral does"""
_SAYS = re.compile(rb'"(?:content|delta|partial_json|reasoning|reasoning_content|text|thinking)": ?$')
"""the fields that have a text; what stands in another one is something else that happens to be the same"""
_QUOTE = ord('"')
_SPACED = b" }\n\n"
"""the end of an event of Anthropic's, which hides its length with spaces"""
_LEGAL = {
    "number": (digits.encode(), True),
    "padding": ((digits + ascii_letters).encode(), False),
    "spaces": (b" ", False),
}
"""the characters of what varies, and whether there must be any"""
_decode_text = msgspec.json.Decoder(str).decode

_Legal = tuple[bytes, bool]
_Gap = tuple[bytes, _Legal]
"""the fixed bytes beside something that varies, and what that may be"""


class RepeatedEvent:
    """Made by `learn`."""

    __slots__ = ("_after", "_before", "_begin", "_end", "_start", "_stop")

    def __init__(self, start: bytes, before: list[_Gap], after: list[_Gap], end: bytes) -> None:
        self._start = start
        self._begin = len(start)
        self._before = before
        """what varies before the text, from the start, each with the bytes behind it"""
        self._after = after
        """what varies after the text, from the end, each with the bytes before it"""
        self._end = end
        self._stop = -len(end)

    def text(self, data: bytes) -> str:
        """The text of this event; empty if it is another event, or one that the decoder must see."""
        if not data.startswith(self._start) or not data.endswith(self._end):
            return ""
        quoted = data[self._begin : self._stop]
        for mark, (legal, needed) in self._before:
            varies, _, quoted = quoted.partition(mark)
            if varies.strip(legal) or (needed and not varies):
                return ""
        for mark, (legal, needed) in self._after:
            quoted, _, varies = quoted.rpartition(mark)
            if varies.strip(legal) or (needed and not varies):
                return ""
        if not quoted or quoted[0] != _QUOTE or quoted[-1] != _QUOTE:
            return ""  # the decoder of a text would let blanks around it pass
        try:
            return _decode_text(quoted)
        except DECODE_ERRORS:
            return ""


def learn(data: bytes, text: str) -> RepeatedEvent | None:
    """The shape of an event with this text; None if its place is not certain."""
    quoted = b'"%b"' % text.encode("utf-8", "replace")
    if data.count(quoted) != 1 or data.count(b"\n\n") != 1 or not data.endswith(b"\n\n"):
        return None
    half, _, other = data.partition(quoted)
    if not _SAYS.search(half):
        return None
    (start, *marks), varies = _split(half)
    before = list(zip(marks, varies, strict=True))
    (*marks, end), varies = _split(other)
    after = list(zip(marks, varies, strict=True))
    return RepeatedEvent(start, before, after[::-1], end)


def _split(half: bytes) -> tuple[list[bytes], list[_Legal]]:
    """The bytes around what varies, and what that may be."""
    fixed, varies, at = [], [], 0
    for found in _VARIES.finditer(half):
        kind = found.lastgroup or ""
        fixed.append(half[at : found.start(kind)])
        varies.append(_LEGAL[kind])
        at = found.end(kind)
    rest = half[at:]
    if rest.endswith(_SPACED) and (mark := rest[: -len(_SPACED)].rstrip(b" ")):
        fixed.append(mark)
        varies.append(_LEGAL["spaces"])
        rest = _SPACED[1:]
    return [*fixed, rest], varies
