"""Repair of characters that a server split in two: JSON escapes of one surrogate of a pair, which parsers refuse."""

from __future__ import annotations

import re

# Any escape: a high surrogate with or without its low one, a low surrogate alone, or another escape.
_UNITS = re.compile(
    rb"\\(?:u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u([dD][c-fC-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_REPLACEMENT = b"\\ufffd"


def _is_lone_surrogate(unit: re.Match[bytes]) -> bool:
    return bool(unit[3] or (unit[1] and not unit[2]))


def has_lone_surrogates(text: bytes) -> bool:
    """Return whether a JSON text has an escaped surrogate without its other half."""
    return any(map(_is_lone_surrogate, _UNITS.finditer(text)))


def replace_lone_surrogates(text: bytes) -> bytes:
    """Return the text with each lone surrogate replaced by U+FFFD, the replacement character."""
    # Used for complete responses, where no second half can follow.
    return _UNITS.sub(lambda unit: _REPLACEMENT if _is_lone_surrogate(unit) else unit[0], text)


class SurrogateJoiner:
    """A filter that joins characters which were split across two JSON texts.

    JavaScript counts an emoji as two characters. Servers that split text there write half of the emoji into each of two
    events, which no JSON parser accepts.
    """

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first = b""

    def join(self, data: bytes) -> bytes | None:
        """Return the text with split characters joined, or None if none was split.

        A high surrogate at the end is held back and put in front of the low surrogate of the next text.
        """
        joined = _UNITS.sub(self._unit, data)
        return None if joined == data else joined

    def _unit(self, match: re.Match[bytes]) -> bytes:
        if match[1] and not match[2]:
            unpaired, self._first = self._first, match[0]
            # Two high surrogates in a row: the earlier one never gets its other half.
            return _REPLACEMENT if unpaired else b""
        if match[3]:
            first, self._first = self._first, b""
            return first + match[0] if first else _REPLACEMENT
        return match[0]
