"""Patterns in text that arrives in pieces. The result is the same as on the whole text, however it is split.

A `Scan` is a pattern together with what is needed to search a text that is not complete: either `partial`, which
finds where an incomplete match may begin, or `reach`, the longest match. `ScanFilter` applies one to a text piece by
piece and holds back only what a match could still need.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from msgspec import Struct

from trilogue.policies.verdicts import Pass, StopWith

MARGIN = 2
"""characters that `$` and `\\b` may look at after a match"""
LONGEST_REACH = 4096
"""a match that may be longer is only searched for in whole blocks"""
LONGEST_PHRASE = 200
"""characters of a literal phrase; the pattern for its beginnings is nested that deep"""
NEVER = r"(?!)"
"""a pattern that matches nowhere"""
_LOOKS = re.compile(r"\(\?<?[=!]")

OnMatch = Callable[[re.Match[str]], object]


class Scan(Struct, frozen=True, kw_only=True):
    """What to find in a text. `partial` matches at a position from which the text may be an incomplete match."""

    pattern: re.Pattern[str]
    reach: int
    partial: re.Pattern[str] | None = None

    def certain(self, text: str, start: int) -> int:
        """Return the position up to which more text cannot change what is found."""
        horizon = max(start, len(text) - self.reach - MARGIN)
        if self.partial is None:
            return horizon
        found = self.partial.search(text, horizon)
        return found.start() if found else len(text)


def longest_match(pattern: re.Pattern[str]) -> int | None:
    """Return the length of the longest match of a pattern, or None if it is unlimited or looks further around."""
    if _LOOKS.search(pattern.pattern):
        return None
    # There is no public way to ask for the width, and every interpreter from 3.11 on has this module.
    parsed: Any = import_module("re._parser").parse(pattern.pattern, pattern.flags)
    longest: int = parsed.getwidth()[1]
    return longest if longest <= LONGEST_REACH else None


def scan_of(pattern: re.Pattern[str]) -> Scan | None:
    """Return the scan of any pattern; None if its matches have no limit, so that only a whole text can be searched."""
    longest = longest_match(pattern)
    return None if longest is None else Scan(pattern=pattern, reach=longest)


def phrase_scan(phrases: Iterable[str], *, ignore_case: bool = False) -> Scan:
    """Return the scan of literal phrases, which holds back nothing but the beginning of a phrase."""
    # The longest first: of two phrases that begin alike, the regular expression takes the first that matches.
    ordered = sorted(set(phrases), key=lambda phrase: (-len(phrase), phrase))
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    cut_off = "|".join([_cut_off(phrase) for phrase in ordered if len(phrase) > 1])
    return Scan(
        pattern=re.compile("|".join(map(re.escape, ordered)), flags),
        reach=max(map(len, ordered), default=0),
        partial=re.compile(rf"(?:{cut_off})\Z" if cut_off else NEVER, flags),
    )


def _cut_off(phrase: str) -> str:
    """Return a pattern for every proper beginning of a phrase at the end of the text."""
    pattern = ""
    for character in reversed(phrase[1:-1]):
        pattern = f"(?:{re.escape(character)}{pattern})?"
    return re.escape(phrase[0]) + pattern


class Step(Struct, frozen=True):
    """One part of a pattern: a character class, or any pattern of one character, `least` to `most` times."""

    one: str
    least: int = 1
    most: int = 1

    def written(self) -> str:
        """Return the part as a regular expression."""
        return f"(?:{self.one}){{{self.least},{self.most}}}"


def steps_of(text: str) -> list[Step]:
    """Return the steps of a literal text."""
    return [Step(re.escape(character)) for character in text]


def written(steps: list[Step]) -> str:
    """Return steps as a regular expression."""
    return "".join(step.written() for step in steps)


def partly_written(steps: list[Step]) -> str:
    """Return a regular expression for every beginning of these steps that the end of the text cuts off."""
    pattern = r"\Z"
    for step in reversed(steps):
        # Either the text ends inside this step, or the step is complete and a later one is cut off.
        pattern = rf"(?:(?:{step.one}){{0,{step.most}}}\Z|{step.written()}{pattern})"
    return pattern


def longest(steps: list[Step]) -> int:
    """Return the length of the longest match of these steps."""
    return sum(step.most for step in steps)


class ScanFilter:
    """One scan over one text that arrives in pieces."""

    __slots__ = ("_on_match", "_scan", "_start", "_text", "changed", "matches", "stopped")

    def __init__(self, scan: Scan, on_match: OnMatch) -> None:
        self._scan = scan
        self._on_match = on_match
        self._text = ""
        # One character that has gone on is kept in front, because `\b` looks at it.
        self._start = 0
        self.matches = 0
        self.changed = False
        self.stopped: StopWith | None = None
        """the verdict that ended the response; the filter takes no more text then"""

    @property
    def held(self) -> int:
        """The number of characters that are held back."""
        return len(self._text) - self._start

    def feed(self, piece: str, *, final: bool = False) -> str:
        """Return the text that can go on now. `final`: no more text follows."""
        if self.stopped:
            return ""
        text = self._text + piece
        at = self._start
        certain = len(text) if final else self._scan.certain(text, at)
        match = self._scan.pattern.search(text, at)
        if match is None or match.start() >= certain:
            # Most pieces have no match.
            self._keep(text, certain)
            return text[at:certain]
        return self._replaced(text, match, certain)

    def _keep(self, text: str, start: int) -> None:
        """Hold a text from a position on, with one character before it."""
        kept = start - 1 if start else 0
        self._text, self._start = text[kept:], start - kept

    def _replaced(self, text: str, match: re.Match[str] | None, certain: int) -> str:
        """Return a text up to where it is certain, with the matches in it judged."""
        out: list[str] = []
        at = self._start
        while match is not None and match.start() < certain:
            if match.end() == match.start():
                break
            out.append(text[at : match.start()])
            at = match.end()
            out.append(self._judged(match))
            if self.stopped:
                return "".join(out)
            match = self._scan.pattern.search(text, at)
        out.append(text[at:certain])
        self._keep(text, max(at, certain))
        return "".join(out)

    def _judged(self, match: re.Match[str]) -> str:
        self.matches += 1
        verdict = self._on_match(match)
        if isinstance(verdict, StopWith):
            self.stopped = verdict
            return ""
        if isinstance(verdict, Pass):
            return match.group()
        replacement = str(verdict)
        self.changed = self.changed or replacement != match.group()
        return replacement
