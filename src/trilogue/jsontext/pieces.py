"""JSON text that comes in pieces: whether it is complete, and what is certain of it if it is not."""

from __future__ import annotations

import re

from trilogue.jsontext.text import parse_object
from trilogue.model import Json

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


def is_cut(arguments: str) -> bool:
    """Whether the arguments of a tool call are a JSON object of which more is missing than its last brackets."""
    return breaks_off(arguments) and closing(arguments) is None


_WHOLE_VALUE = ('"', "}", "]", "true", "false", "null")
"""how a JSON text ends whose last value is complete; a number may have had more digits"""


def closing(text: str) -> str | None:
    """What makes a text a JSON object: nothing if it is one, or the brackets that a server has left out at its end.

    None if more is missing. Nothing inside a value is made up: half of a path or of a number is another one.
    """
    if parse_object(text) is not None:
        return ""
    if not text.rstrip().endswith(_WHOLE_VALUE):
        return None
    open_brackets: list[str] = []
    for match in _MEMBERS.finditer(text):
        token = match.group()
        if token in _CLOSE:
            open_brackets.append(_CLOSE[token])
        elif open_brackets and token == open_brackets[-1]:
            open_brackets.pop()
    brackets = "".join(reversed(open_brackets))
    return brackets if parse_object(text + brackets) is not None else None


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
