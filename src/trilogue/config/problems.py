"""What is wrong with a configuration, as data: the path of the setting, what is wrong, and the line.

What providers, accounts, client keys and stored keys may be called.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches

from msgspec import Struct

from trilogue.errors import TrilogueError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NAME_RULE = "must be letters, digits, dots, dashes and underscores, at most 64"


_LONGEST_SHOWN = 24
"""longer names are not shown: they may be a secret in the wrong place"""

_LONGEST_PART = 300


class Problem(Struct, frozen=True):
    """One problem. `line` counts from 1; None = not known."""

    path: str
    text: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"{_one_line(self.path)}: " if self.path else ""
        return f"{where}{_one_line(self.text)}" + (f" (line {self.line})" if self.line else "")


class ConfigError(TrilogueError):
    """A configuration that cannot be used; `problems` lists everything that is wrong with it, one line each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def _one_line(text: str) -> str:
    """Names come from the file: they must not forge a line or move the cursor of a terminal."""
    bounded = text if len(text) <= _LONGEST_PART else f"{text[:_LONGEST_PART]}…"
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in bounded)


def join(path: str, name: str) -> str:
    """The path of a setting inside another one."""
    return f"{path}.{name}" if path else name


def suggest(name: str, known: Collection[str]) -> str | None:
    """The known name that was probably meant."""
    close = get_close_matches(name.replace("-", "_").lower(), known, 1, 0.7)
    return close[0] if close else None


def shown(name: object) -> str:
    """A key as it may be printed."""
    text = str(name)
    return f'"{text}"' if len(text) <= _LONGEST_SHOWN and text.isprintable() else f"of {len(text)} characters"
