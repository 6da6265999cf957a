"""Placeholders for the texts in a piece of JSON text, for tool arguments that arrive in pieces cut anywhere.

Names of fields, numbers and words outside of texts stay; every character of a text but white space becomes an x. The
result is JSON wherever the input was, and its texts have the same lengths.
"""

from __future__ import annotations

_KEPT_ESCAPES = frozenset("ntrbf")
_HIGH_SURROGATES = ("d8", "d9", "da", "db")
PLACEHOLDER = "x"


class JsonTextRedactor:
    """Redacts one JSON text, fed in pieces."""

    def __init__(self) -> None:
        self._containers: list[str] = []
        self._is_key = False
        self._in_text = False
        self._escape = ""
        """an escape sequence that is not complete yet"""

    def feed(self, piece: str) -> str:
        """Return the next piece with placeholders."""
        return "".join(map(self._character, piece))

    def _character(self, character: str) -> str:
        if not self._in_text:
            return self._outside(character)
        if self._escape:
            return self._escaped(character)
        if character == "\\":
            self._escape = character
            return ""
        if character == '"':
            self._in_text = self._is_key = False
            return character
        return character if self._is_key or character.isspace() else PLACEHOLDER

    def _outside(self, character: str) -> str:
        if character in "{[":
            self._containers.append(character)
        elif character in "}]" and self._containers:
            self._containers.pop()
        if character in "{,":
            self._is_key = self._containers[-1:] == ["{"]
        elif character == '"':
            self._in_text = True
        return character

    def _escaped(self, character: str) -> str:
        """Return the placeholder of an escape sequence once it is complete. It stands for one character."""
        self._escape += character
        if self._escape.startswith("\\u") and len(self._escape) < 6:
            return ""
        escape, self._escape = self._escape, ""
        if self._is_key or escape[1] in _KEPT_ESCAPES:
            return escape
        # Two escapes make one character if it is outside of the basic plane.
        return "" if escape[2:4].lower() in _HIGH_SURROGATES else PLACEHOLDER


def redact_json_text(text: str) -> str:
    """Return a whole JSON text with placeholders."""
    return JsonTextRedactor().feed(text)
