"""Extraction of the free text inside `{"input": "…"}` while the JSON is still arriving.

A free-text tool that was offered as a function comes back as a JSON object with one string. The client wants the
string, piece by piece. JSON of any other form is returned unchanged, at the end.
"""

from __future__ import annotations

import json
import re

from trilogue.base.json.text import parse, parse_object
from trilogue.errors import UpstreamProtocolError

INPUT = "input"
"""the only property of a function that replaces a free-text tool"""

_HEAD = re.compile(r'\s*\{\s*"' + INPUT + r'"\s*:\s*"')
_MAYBE_HEAD = re.compile(r'\s*(\{\s*("(i(n(p(u(t("(\s*(:(\s*)?)?)?)?)?)?)?)?)?)?)?')
# Whole escapes, plain characters, and `\u` that is not an escape. It stops before an incomplete escape and before the
# closing quote.
_SAFE = re.compile(
    r'(?:[^"\\]|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[0-9a-fA-F]{4}|(?=[^\\]|\\[^u]))'
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u(?=[0-9a-fA-F]{0,3}[^0-9a-fA-F])|\\[^u])+"
)

_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|(?!u).|)", re.DOTALL)
_KNOWN = frozenset('"\\/bfnrtu')


class InputUnwrapper:
    """The unwrapper for the input of one tool call."""

    __slots__ = ("_all", "_closed", "_inside", "_pending")

    def __init__(self) -> None:
        self._all: list[str] = []
        self._pending = ""
        self._inside = False
        self._closed = False

    def feed(self, piece: str) -> str:
        """Return the text that this piece of JSON adds."""
        self._all.append(piece)
        if self._closed:
            return ""
        self._pending += piece
        if not self._inside and not self._enter():
            return ""
        return self._take()

    def close(self) -> str:
        """Return the text that was not returned yet, once the arguments are complete."""
        if self._inside:
            # The arguments were cut off inside an escape: return it as it is.
            return "" if self._closed else self._pending
        whole = "".join(self._all)
        parsed = parse_object(whole)
        if parsed is not None and isinstance(parsed.get(INPUT), str):
            return str(parsed[INPUT])
        return whole

    def _enter(self) -> bool:
        head = _HEAD.match(self._pending)
        if head is None:
            if not _MAYBE_HEAD.fullmatch(self._pending):
                # It has another form: keep everything for `close`.
                self._closed = True
            return False
        self._inside = True
        self._pending = self._pending[head.end() :]
        return True

    def _take(self) -> str:
        safe = _SAFE.match(self._pending)
        end = safe.end() if safe else 0
        text, self._pending = self._pending[:end], self._pending[end:]
        if self._pending.startswith('"'):
            self._closed = True
        return _decoded(text) if text else ""


def _decoded(text: str) -> str:
    """Return the text of the inside of a JSON string.

    Models write line breaks, paths and patterns into it without escaping them.
    """
    escaped = _CONTROL.sub(_escape, text)
    try:
        return str(parse(f'"{escaped}"', UpstreamProtocolError))
    except UpstreamProtocolError:
        # The standard parser accepts lone surrogates, which msgspec refuses.
        value = str(json.loads(f'"{_ESCAPE.sub(_escape_backslash, escaped)}"'))
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


def _escape_backslash(match: re.Match[str]) -> str:
    """Return a valid escape unchanged, and any other backslash escaped."""
    found = match.group()
    return found if found[1:2] in _KNOWN and found != "\\" else f"\\{found}"
