"""JSON text that comes in pieces: whether it is complete, and characters that were cut in half."""

from __future__ import annotations

import re

# An escaped pair counts as one token, so that `\\"` does not end a string; all other text is skipped.
_TOKENS = re.compile(r'\\.|["{}\[\]]', re.DOTALL)


class JsonProgress:
    """Watches a JSON value arrive in pieces and knows when it is complete. Linear in the text, whatever the pieces."""

    __slots__ = ("_depth", "_in_string", "_rest", "complete")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._rest = ""
        self.complete = False
        """An object or array has been closed: nothing but white space may follow."""

    def feed(self, piece: str) -> None:
        """Take the next piece."""
        piece = self._rest + piece
        backslashes = len(piece) - len(piece.rstrip("\\"))
        # A backslash at the very end waits for the character that it escapes.
        self._rest = "\\" if backslashes % 2 else ""
        for token in _TOKENS.findall(piece):
            if token == '"':
                self._in_string = not self._in_string
            elif not self._in_string and len(token) == 1:
                self._depth += 1 if token in "{[" else -1
                self.complete = self._depth <= 0


def breaks_off(text: str) -> bool:
    """Whether a text is a JSON object that was cut."""
    progress = JsonProgress()
    progress.feed(text)
    return text.lstrip().startswith("{") and not progress.complete


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
