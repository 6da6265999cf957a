"""Regular expressions of settings: they search in linear time, whatever they are and whatever they search in.

Python's `re` tries one way to match after the other, so that a pattern such as `(a|a)*b` takes longer than anyone can
wait for thirty characters. RE2 follows all ways at once. It cannot look around or refer back; a pattern that does is
refused. `google-re2` is only imported when there is a pattern.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any
from typing import Protocol as Interface

_MISSING = "needs the package google-re2, which is not installed"
_UNSUPPORTED = re.compile(r"\(\?(?:<?[=!]|P=|>|\()|\\[1-9]|[*+?}]\+")
_SPECIAL = re.compile(r"([\\.^$|?*+()\[\]{}])")
_NO_LEAST = re.compile(r"(?<!\\)\{,\d")
_HALF = re.compile("[\ud800-\udfff]")


class PatternProblem(ValueError):
    """A pattern that cannot be used. The message is one line."""


class LinearPattern:
    """A regular expression that searches in linear time."""

    __slots__ = ("_finditer", "_search", "groupindex", "groups", "pattern")

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        engine = _engine()
        options = engine.Options()
        options.log_errors = False
        options.case_sensitive = not ignore_case
        try:
            made = engine.compile(pattern, options)
        except engine.error as error:
            raise PatternProblem(_reason(error, pattern)) from None
        _check(pattern)
        self.pattern = pattern
        self.groups: int = made.groups
        self.groupindex: dict[str, int] = made.groupindex
        self._search = made.search
        self._finditer = made.finditer

    def search(self, text: str, position: int = 0, /) -> re.Match[str] | None:
        """Return the first match at or behind a position, or None. It has the interface of a match of `re`."""
        try:
            found: re.Match[str] | None = self._search(text, position)
        except UnicodeEncodeError:
            # RE2 works on UTF-8, in which half of a character cannot be written.
            found = self._search(_HALF.sub("\ufffd", text), position)
        return found

    def finditer(self, text: str, position: int = 0, /) -> Iterator[re.Match[str]]:
        """Yield the matches at or behind a position, one behind the other."""
        # RE2 reads all of the text once for each call, so many calls of `search` would not be linear.
        try:
            text.encode()
        except UnicodeEncodeError:
            text = _HALF.sub("\ufffd", text)
        found: Iterator[re.Match[str]] = self._finditer(text, position)
        return found


class Searcher(Interface):
    """What searches a text: a pattern of `re`, one of RE2, or several."""

    def search(self, text: str, position: int = 0, /) -> re.Match[str] | None:
        """Return the first match at or behind a position, or None."""

    def finditer(self, text: str, position: int = 0, /) -> Iterator[re.Match[str]]:
        """Yield the matches at or behind a position, one behind the other."""


class FirstOf:
    """Several patterns as one: the match that begins first counts, and of those the one of the first pattern."""

    def __init__(self, patterns: Sequence[Searcher]) -> None:
        self._patterns = patterns

    def search(self, text: str, position: int = 0, /) -> re.Match[str] | None:
        """Return the first match at or behind a position, or None."""
        found = [match for one in self._patterns if (match := one.search(text, position)) is not None]
        return min(found, key=lambda match: match.start(), default=None)

    def finditer(self, text: str, position: int = 0, /) -> Iterator[re.Match[str]]:
        """Yield the matches at or behind a position, one behind the other."""
        iterators = [one.finditer(text, position) for one in self._patterns]
        nearest = [next(iterator, None) for iterator in iterators]
        while found := [match for match in nearest if match is not None]:
            first = min(found, key=lambda match: match.start())
            yield first
            for number, match in enumerate(nearest):
                if match is first:
                    nearest[number] = next(iterators[number], None)
                elif match is not None and match.start() < first.end():
                    # What is left of this one may still be a match.
                    iterators[number] = self._patterns[number].finditer(text, first.end())
                    nearest[number] = next(iterators[number], None)


def escaped(text: str) -> str:
    """Return the pattern of a literal text."""
    return _SPECIAL.sub(r"\\\1", text)


def _check(pattern: str) -> None:
    """Raise `PatternProblem` for what only RE2 understands, and Python's `re` does not, or in another way."""
    if _NO_LEAST.search(pattern):
        raise PatternProblem("write {0,n} for {,n}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(f"(?:{pattern})")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise PatternProblem(str(error)) from None


def _reason(error: Exception, pattern: str) -> str:
    said = error.args[0] if error.args else "it is too large"
    reason = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    if _UNSUPPORTED.search(pattern.replace(r"\\", "")):
        return f"{reason} (look-around, back references, possessive and atomic groups are not supported)"
    return reason


def _engine() -> Any:
    try:
        return import_module("re2")
    except ImportError:
        raise PatternProblem(_MISSING) from None
