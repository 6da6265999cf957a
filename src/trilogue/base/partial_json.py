"""JSON text that arrives in pieces: whether it is complete, and which part of incomplete text is certain."""

from __future__ import annotations

import re

from trilogue.base.json_text import Json, parse_object

# An escaped pair counts as one token, so that `\\"` does not end a string; all other text is skipped.
_TOKENS = re.compile(r'\\.|["{}\[\]]', re.DOTALL)


class JsonProgress:
    """A watcher for a JSON value that arrives in pieces.

    It knows when the value is complete. The cost is linear in the length of the text, however it is split.
    """

    __slots__ = ("_depth", "_in_string", "_rest", "complete")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._rest = ""
        self.complete = False
        """whether the outermost object or array is closed; only whitespace may follow"""

    def feed(self, piece: str) -> None:
        """Take the next piece of the text."""
        piece = self._rest + piece
        backslashes = len(piece) - len(piece.rstrip("\\"))
        # Keep a backslash at the very end until the character that it escapes has arrived.
        self._rest = "\\" if backslashes % 2 else ""
        for token in _TOKENS.findall(piece):
            if token == '"':
                self._in_string = not self._in_string
            # Brackets inside strings do not count, and an escaped pair is never a bracket.
            elif not self._in_string and len(token) == 1:
                self._depth += 1 if token in "{[" else -1
                self.complete = self._depth <= 0


def is_truncated_object(text: str) -> bool:
    """Return whether a text is the beginning of a JSON object that is not closed."""
    progress = JsonProgress()
    progress.feed(text)
    return text.lstrip().startswith("{") and not progress.complete


def is_cut(arguments: str) -> bool:
    """Return whether the arguments of a tool call are a JSON object that lacks more than its closing brackets."""
    return is_truncated_object(arguments) and closing(arguments) is None


_WHOLE_VALUE = ('"', "}", "]", "true", "false", "null")
"""how a JSON text ends if its last value is complete; a number could have more digits"""


def closing(text: str) -> str | None:
    """Return the closing brackets that a JSON object lacks at its end: "" if it is complete, None if more is missing.

    Values are never completed: half of a path or of a number would be a different value.
    """
    if parse_object(text) is not None:
        return ""
    # Agents call the tool with whatever can be parsed: `/srv` instead of `/srv/x`. So a cut value is never closed.
    if not text.rstrip().endswith(_WHOLE_VALUE):
        return None
    open_brackets: list[str] = []
    for match in _MEMBERS.finditer(text):
        token = match.group()
        if token in _CLOSE:
            open_brackets.append(_CLOSE[token])
        elif open_brackets and token == open_brackets[-1]:
            open_brackets.pop()
    # Some servers leave out the last brackets of tool arguments; try to parse the text with them added.
    brackets = "".join(reversed(open_brackets))
    return brackets if parse_object(text + brackets) is not None else None


_MEMBERS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]', re.DOTALL)
_CLOSE = {"{": "}", "[": "]"}


def complete_object(text: str) -> dict[str, Json] | None:
    """Return the certain part of a truncated JSON object: everything up to its last complete member.

    None if not even that part is an object.
    """
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
