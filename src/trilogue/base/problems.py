"""Problems of a configuration as data (path of the setting, text, line), and the parts their texts are made of.

`NAME` is the rule for the names of providers, accounts, client keys and stored keys. Nothing here reads a file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches

from msgspec import Struct

from trilogue.base.headers import LEGAL_NAME, OF_CONNECTION

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NAME_RULE = "must consist of at most 64 letters, digits, dots, dashes and underscores"
_LONGEST_SHOWN = 24
"""longer names are not quote_key, because they may be a secret in the wrong place"""
_LONGEST_PART = 300
Findings = Iterator[tuple[str, str]]
"""pairs of the path of a setting and what is wrong with it"""
SET_BY_GATEWAY = OF_CONNECTION | {"accept-encoding", "content-type"}


class Problem(Struct, frozen=True):
    """One problem of a configuration."""

    path: str
    """the setting, empty for the whole file"""
    text: str
    """what is wrong with it"""
    line: int | None = None
    """its line, counted from 1; None if not known"""

    def __str__(self) -> str:
        where = f"{_one_line(self.path)}: " if self.path else ""
        return f"{where}{_one_line(self.text)}" + (f" (line {self.line})" if self.line else "")


def _one_line(text: str) -> str:
    """Return the text shortened and without control characters.

    Names come from the file. They must not look like another line of output or move the cursor of a terminal.
    """
    bounded = text if len(text) <= _LONGEST_PART else f"{text[:_LONGEST_PART]}…"
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in bounded)


def join(path: str, name: str) -> str:
    """Return the path of a setting inside another one."""
    return f"{path}.{name}" if path else name


def suggest(name: str, known: Collection[str]) -> str | None:
    """Return the known name that was probably meant, or None."""
    close = get_close_matches(name.replace("-", "_").lower(), known, 1, 0.7)
    return close[0] if close else None


def quote_key(name: object) -> str:
    """Return a key in quotes, or only its length if it may be a secret."""
    text = str(name)
    return f'"{text}"' if len(text) <= _LONGEST_SHOWN and text.isprintable() else f"of {len(text)} characters"


def check_headers(path: str, headers: Iterable[str]) -> Findings:
    """Yield the path and what is wrong with each header that a setting must not have."""
    for header in headers:
        if not LEGAL_NAME.fullmatch(header):
            yield path, "the name of a header must consist of letters, digits and dashes"
        elif header.lower() in SET_BY_GATEWAY:
            yield f"{path}.{header}", "is set by the gateway itself"
