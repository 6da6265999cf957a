"""Characters that were cut in half: JSON escapes of one half of a pair, which no JSON parser takes."""

from __future__ import annotations

import re

# An escape: a first half with or without the second one, a second half by itself, or anything else.
_UNITS = re.compile(
    rb"\\(?:u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u([dD][c-fC-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_REPLACEMENT = b"\\ufffd"


def _is_half(unit: re.Match[bytes]) -> bool:
    return bool(unit[3] or (unit[1] and not unit[2]))


def has_halves(text: bytes) -> bool:
    """Whether a JSON text holds half of a character."""
    return any(map(_is_half, _UNITS.finditer(text)))


def with_halves_shown(text: bytes) -> bytes:
    """The text with a sign for each half of a character."""
    return _UNITS.sub(lambda unit: _REPLACEMENT if _is_half(unit) else unit[0], text)


class HalfMender:
    """Puts characters together that were cut in half between two JSON texts.

    JavaScript counts an emoji as two characters; servers that cut texts there write half of it into each of two events,
    which no JSON parser takes.
    """

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first = b""

    def mend(self, data: bytes) -> bytes | None:
        """The text without its first half of a character, which is kept for the second one; None if all are whole."""
        mended = _UNITS.sub(self._unit, data)
        return None if mended == data else mended

    def _unit(self, match: re.Match[bytes]) -> bytes:
        if match[1] and not match[2]:
            lost, self._first = self._first, match[0]
            return _REPLACEMENT if lost else b""
        if match[3]:
            first, self._first = self._first, b""
            return first + match[0] if first else _REPLACEMENT
        return match[0]
