"""JSON text that comes in pieces: whether it is complete, and what is certain of it if it is not."""

from __future__ import annotations

import re

from trilogue.model import Json
from trilogue.protocols.jsontext import parse_object

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


_MEMBERS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]', re.DOTALL)
_CLOSE = {"{": "}", "[": "]"}


def complete_object(text: str) -> dict[str, Json] | None:
    """The part of a cut JSON object that is certain: everything up to its last complete member."""
    open_brackets: list[str] = []
    certain, closers = 0, ""
    for match in _MEMBERS.finditer(text):
        token = match.group()
        if token in _CLOSE:
            open_brackets.append(_CLOSE[token])
            certain, closers = match.end(), "".join(reversed(open_brackets))
        elif token == ",":
            certain, closers = match.start(), "".join(reversed(open_brackets))
        elif open_brackets and token == open_brackets[-1]:
            open_brackets.pop()
            certain, closers = match.end(), "".join(reversed(open_brackets))
    return parse_object(text[:certain] + closers)
