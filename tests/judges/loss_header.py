"""Reads the `trilogue-loss` header, written without our code: a list of structured fields (RFC 9651)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

STRING = r'"(?:[ !#-\[\]-~]|\\["\\])*"'
DISPLAY = r'%"(?:[ !#-$&-~]|%[0-9a-f]{2})*"'
MEMBER = re.compile(rf"([a-z_.]+)(?:;at=({STRING}|{DISPLAY})|;losses=([0-9]+))?")
"""one member as RFC 9651 allows it, as far as we use it"""


def members(value: str) -> list[tuple[str, str | None]]:
    """Return code and path of each member. Fails on anything that is not a structured field."""
    found: list[tuple[str, str | None]] = []
    position = 0
    while position < len(value):
        match = MEMBER.match(value, position)
        assert match, value[position:]
        code, at, count = match.groups()
        found.append((code, count or (None if at is None else text(at))))
        position = match.end()
        assert value[position : position + 2] in ("", ", ")
        position += 2
    return found


def text(string: str) -> str:
    """Return what a string or a display string says."""
    if string.startswith("%"):
        return unquote(string[2:-1])
    return re.sub(r"\\(.)", r"\1", string[1:-1])


def codes(headers: Mapping[str, str]) -> list[str]:
    """Return the codes of the losses that a response declares, each once, in order."""
    return list(dict.fromkeys(code for code, _ in members(headers.get("trilogue-loss", "")) if code != "more"))
