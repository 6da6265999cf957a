"""Keeps users' regular expressions from hanging the server.

Python's `re` tries one way to match after the other, so a pattern costs about as many steps as there are ways.
A small reader of the pattern's text counts them and refuses what could be too many: repetition of something that
itself has several ways (`(a+)+`, `(a|b)*`) is exponential, and a row of repetitions or alternatives multiplies.
It does not know what a pattern means and leaves syntax to `re.compile`.
"""

from __future__ import annotations

import re

from trilogue.routing.errors import BadPattern

MAX_PATTERN = 200
MOST_WAYS = 1_000_000
"""measured: the worst patterns under this limit take well below 0.1 s on a name of the longest allowed length"""
_REPEATED = 100
"""the ways of one repetition; a row of three shares the at most 256 characters of a name, hence not 256 each"""

_TOKEN = re.compile(
    r"""
    (?P<backref> \\[1-9] | \(\?P= )
  | (?P<escape> \\. )
  | (?P<set> \[\^?\]?(?:\\.|[^\]\\])*\] )
  | (?P<open> \(\?P<\w+> | \(\?: | \((?!\?) )
  | (?P<special> \(\? )
  | (?P<close> \) )
  | (?P<bar> \| )
  | (?P<repeat> (?: [*+?] | \{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\} ) (?P<mode>[?+]?) )
  | (?P<char> . )
    """,
    re.VERBOSE | re.DOTALL,
)


class _Sequence:
    """What is being read between two brackets: finished alternatives, and the ways of the current one."""

    __slots__ = ("before", "last", "others")

    def __init__(self) -> None:
        self.others = 0
        self.before = 1
        self.last = 1
        """the ways of the last item alone: the one that a repetition applies to"""

    def add(self, ways: int) -> None:
        self.before *= self.last
        self.last = ways

    def alternative(self) -> None:
        self.others += self.before * self.last
        self.before = self.last = 1

    def ways(self) -> int:
        return self.others + self.before * self.last


def check_regex(pattern: str) -> None:
    """Raise BadPattern for a pattern that is too long, or that could need too many steps."""
    if len(pattern) > MAX_PATTERN:
        raise BadPattern(f"must have at most {MAX_PATTERN} characters")
    if _count(pattern) > MOST_WAYS:
        raise BadPattern("has too many repetitions and alternatives, which could take very long; use a glob")


def _count(pattern: str) -> int:
    stack = [_Sequence()]
    for token in _TOKEN.finditer(pattern):
        kind, here = token.lastgroup, stack[-1]
        if kind == "open":
            stack.append(_Sequence())
        elif kind == "close" and len(stack) > 1:
            stack[-2].add(stack.pop().ways())
        elif kind == "bar":
            here.alternative()
        elif kind == "repeat":
            here.last = _repeated(here.last, token)
        elif kind in ("backref", "special"):
            raise BadPattern(
                "must not use back references, look-around or other (?…) forms, except (?:…) and (?P<name>…)"
            )
        else:
            here.add(1)
    return stack[0].ways()


def _repeated(ways: int, token: re.Match[str]) -> int:
    """The ways of an item with this repetition."""
    least, most = _bounds(token)
    if most <= 1:
        return ways + 1
    if ways > 1:
        raise BadPattern(
            "must not repeat a group that has repetition or alternatives in it, such as (a+)+ or (a|b)*, "
            "which could take very long; use a set such as [ab]* or a glob"
        )
    return 1 if token["mode"] == "+" else min(most - least + 1, _REPEATED)


def _bounds(token: re.Match[str]) -> tuple[int, int]:
    sign = token["repeat"][0]
    if sign != "{":
        return (1 if sign == "+" else 0), (1 if sign == "?" else _REPEATED)
    least = int(token["least"] or 0)
    most = int(token["most"] or _REPEATED) if token["comma"] else least
    return least, max(most, least)
