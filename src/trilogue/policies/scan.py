"""Patterns in text that arrives in pieces. The result is the same as on the whole text, however it is split.

A `Scan` is a pattern together with what is needed to search a text that is not complete: either `partial`, which
finds where an incomplete match may begin, or `reach`, the longest match. `ScanFilter` applies one to the text of one
block, piece by piece, and holds back only what a match could still need. `JoinFilter` applies it to what the texts of
several blocks make together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from msgspec import Struct

from trilogue.policies.folding import BORDER, SETTLED, Folded, fold, folded, is_plain, unfolded, without_borders
from trilogue.policies.patterns import LinearPattern, Searcher
from trilogue.policies.verdicts import PASS, Pass, StopWith

MARGIN = 2
"""characters that `$` and `\\b` may look at after a match"""
LONGEST_REACH = 4096
"""a match that may be longer is only searched for in whole blocks"""
MOST_SEARCHED = 10_000
"""characters that may be held back and searched once more with every piece; with more, only when there are half as many
new ones, so that a text which could be a match for ever does not take a time that grows with its square"""
MOST_JOINED = 1_000
"""the same for what several blocks make together, of which each brings a border that must be folded"""
LONGEST_PHRASE = 200
"""characters of a literal phrase; the pattern for its beginnings is nested that deep"""
NEVER = r"(?!)"
"""a pattern that matches nowhere"""
_LOOKS = re.compile(r"\(\?<?[=!]")
_BETWEEN = f"{BORDER}*+"
_SPACE = rf"[\s{BORDER}]++"

_BLANK = "\ufffe"
"""no character, but something that can be written in UTF-8"""

OnMatch = Callable[[re.Match[str]], object]


class Scan(Struct, frozen=True, kw_only=True):
    """What to find in a text. `partial` matches at a position from which the text may be an incomplete match.

    `reach`: the length of the longest match; None if there is no limit, so that without `partial` all of the text is
    held back until the response ends. `folds`: the text is searched as a reader sees it (see `folding`). `borders`: the
    patterns take borders between blocks into account themselves; otherwise blocks are joined without anything between.
    """

    pattern: Searcher
    reach: int | None
    partial: re.Pattern[str] | None = None
    folds: bool = False
    borders: bool = False

    @property
    def endless(self) -> bool:
        """Whether a match may be of any length, so that only a complete text can be searched."""
        return self.reach is None and self.partial is None

    def certain(self, text: str, start: int) -> int:
        """Return the position up to which more text cannot change what is found."""
        horizon = start if self.reach is None else max(start, len(text) - self.reach - MARGIN)
        if self.partial is None:
            return horizon
        found = self.partial.search(text, horizon)
        return found.start() if found else len(text)

    def view(self, text: str) -> Folded:
        """Return a text in the form in which it is searched."""
        return folded(text) if self.folds else unfolded(text)

    def finds(self, text: str) -> bool:
        """Return whether there is a match in a complete text."""
        return self.pattern.search(self.view(text).text) is not None

    def replaced(self, text: str, judge: Callable[[re.Match[str]], str | None]) -> str:
        """Return a complete text with its matches replaced; None as a replacement leaves one as it is."""
        if len(text) > MOST_SEARCHED and not self.endless:
            # The same in pieces: several patterns that overlap all the time would read all of it for each match.
            whole = ScanFilter(self, lambda match: PASS if (said := judge(match)) is None else said)
            return whole.feed(text, final=True).replace(SETTLED, "")
        seen, out, at = self.view(text), [], 0
        for match in self.pattern.finditer(seen.text):
            if match.end() == match.start():
                break
            replacement = judge(match)
            if replacement is not None:
                out += [text[at : seen.original(match.start())], replacement]
                at = seen.behind(match.end())
        return "".join([*out, text[at:]]) if out else text


def longest_match(pattern: re.Pattern[str] | LinearPattern) -> int | None:
    """Return the length of the longest match of a pattern, or None if it is unlimited or looks further around."""
    if _LOOKS.search(pattern.pattern):
        return None
    flags = pattern.flags if isinstance(pattern, re.Pattern) else re.NOFLAG
    # There is no public way to ask for the width, and every interpreter from 3.11 on has this module.
    parsed: Any = import_module("re._parser").parse(pattern.pattern, flags)
    longest: int = parsed.getwidth()[1]
    return longest if longest <= LONGEST_REACH else None


def scan_of(pattern: re.Pattern[str] | LinearPattern) -> Scan | None:
    """Return the scan of any pattern; None if its matches have no limit, so that only a whole text can be searched."""
    longest = longest_match(pattern)
    return None if longest is None else Scan(pattern=pattern, reach=longest)


def phrase_scan(phrases: Iterable[str], *, ignore_case: bool = False) -> Scan:
    """Return the scan of literal phrases, which holds back nothing but the beginning of a phrase.

    The text is searched as a reader sees it. A space in a phrase is any number of spaces and line breaks, or the border
    between two blocks.
    """
    # The longest first: of two phrases that begin alike, the regular expression takes the first that matches.
    ordered = sorted({spaced(phrase) for phrase in phrases} - {""}, key=lambda phrase: (-len(phrase), phrase))
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    cut_off = "|".join([_cut_off(phrase) for phrase in ordered])
    return Scan(
        pattern=re.compile("|".join(map(_phrase_pattern, ordered)) or NEVER, flags),
        reach=None,
        partial=re.compile(rf"(?:{cut_off})\Z" if cut_off else NEVER, flags),
        folds=True,
        borders=True,
    )


def literal_scan(texts: Iterable[str], *, ignore_case: bool = False) -> Scan:
    """Return the scan of literal texts, which must occur exactly as they are."""
    ordered = sorted(set(texts), key=lambda text: (-len(text), text))
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    cut_off = "|".join([_begun(list(map(re.escape, text))) for text in ordered if len(text) > 1])
    return Scan(
        pattern=re.compile("|".join(map(re.escape, ordered)), flags),
        reach=max(map(len, ordered), default=0),
        partial=re.compile(rf"(?:{cut_off})\Z" if cut_off else NEVER, flags),
    )


def spaced(phrase: str) -> str:
    """Return a phrase as a reader sees it, with one space for any number of them."""
    return re.sub(r"\s+", " ", fold(phrase))


def _phrase_pattern(phrase: str) -> str:
    return "".join(_units(phrase))


def _units(phrase: str) -> list[str]:
    """Return a pattern for each character of a phrase, with what may stand behind it."""
    last = len(phrase) - 1
    units = []
    for place, character in enumerate(phrase):
        if character == " ":
            # At the edge of a phrase one is enough: more would make a search through many spaces slow.
            units.append(_SPACE if 0 < place < last else rf"[\s{BORDER}]")
        else:
            # A border alone also counts as the space that follows.
            units.append(re.escape(character) + (_BETWEEN if place < last and phrase[place + 1] != " " else ""))
    return units


def _cut_off(phrase: str) -> str:
    """Return a pattern for every beginning of a phrase, with borders behind it or inside of it."""
    units = _units(phrase)
    if len(units) == 1:
        return NEVER
    return _begun(units)


def _begun(units: list[str]) -> str:
    """Return a pattern for every proper beginning of these units."""
    pattern = ""
    for unit in reversed(units[1:-1]):
        pattern = f"(?:{unit}{pattern})?"
    return units[0] + pattern


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


class _Filter:
    """One scan over a text that arrives in pieces. The text that can go on may have `SETTLED` in it."""

    _most = MOST_SEARCHED
    __slots__ = ("_judge", "_kept", "_parts", "_scan", "_start", "_text", "changed", "matches", "stopped")

    def __init__(self, scan: Scan, on_match: OnMatch) -> None:
        self._scan = scan
        self._judge = on_match
        self._text = ""
        # One character that has gone on is kept in front, because `\b` looks at it.
        self._start = 0
        self._parts: list[str] = []
        """text that was not searched: more is waited for, or the end if only a complete text can be searched"""
        self._kept = 0
        """its characters"""
        self.matches = 0
        self.changed = False
        self.stopped: StopWith | None = None
        """the verdict that ended the response; the filter takes no more text then"""

    @property
    def held(self) -> int:
        """The number of characters that are held back."""
        return len(self._text) - self._start + self._kept

    def _keeps(self, piece: str) -> bool:
        """Return whether a piece, which is kept, waits for more before it is searched."""
        self._parts.append(piece)
        self._kept += len(piece)
        return self._scan.endless or (len(self._text) > self._most and self._kept * 2 < len(self._text))

    def _taken(self) -> str:
        """Return the text that was kept, which is searched now."""
        parts, self._parts, self._kept = self._parts, [], 0
        return "".join(parts)

    def _judged(self, match: re.Match[str]) -> str | None:
        """Return what takes the place of a match, or None if it stays."""
        self.matches += 1
        verdict = self._judge(match)
        if isinstance(verdict, StopWith):
            self.stopped = verdict
            return ""
        if isinstance(verdict, Pass):
            return None
        return str(verdict)


class ScanFilter(_Filter):
    """One scan over the text of one block. After a final piece, the next one begins another block."""

    __slots__ = ()

    @property
    def before(self) -> str:
        """The character before what is held, if that is known."""
        return self._text[: self._start][-1:]

    def feed(self, piece: str, *, final: bool = False) -> str:
        """Return the text that can go on now. `final`: no more text follows."""
        if self.stopped:
            return ""
        scan = self._scan
        if len(piece) > MOST_SEARCHED and not scan.endless:
            ends = range(MOST_SEARCHED, len(piece) + MOST_SEARCHED, MOST_SEARCHED)
            parts = [self.feed(piece[end - MOST_SEARCHED : end], final=final and end >= len(piece)) for end in ends]
            return "".join(parts)
        if scan.endless or self._parts or len(self._text) > MOST_SEARCHED:
            if self._keeps(piece) and not final:
                return ""
            piece = self._taken()
        text = self._text + piece
        if scan.folds and not (text.isascii() and is_plain(text)):
            return self._searched(text, folded(text), final)
        at = self._start
        certain = len(text) if final else scan.certain(text, at)
        match = scan.pattern.search(text, at)
        if match is not None and match.start() < certain:
            return self._replaced(text, unfolded(text), match, certain, final)
        # Most pieces have no match.
        kept = certain if final else max(certain - 1, 0)
        self._text, self._start = text[kept:], certain - kept
        return text[at:certain]

    def _searched(self, text: str, seen: Folded, final: bool) -> str:
        """Do the same for a text that looks different from what it is."""
        first = seen.place(self._start)
        certain = len(seen.text) if final else self._scan.certain(seen.text, first)
        match = self._scan.pattern.search(seen.text, first)
        return self._replaced(text, seen, match, certain, final)

    def _keep(self, text: str, seen: Folded, start: int, final: bool) -> None:
        """Hold a text from a position on, with one character before it that can be seen."""
        if final:
            self._text, self._start = "", 0
            return
        before = start if seen.origins is None else seen.place(start)
        kept = seen.original(before - 1) if before else 0
        self._text, self._start = text[kept:], start - kept

    def _replaced(self, text: str, seen: Folded, match: re.Match[str] | None, certain: int, final: bool) -> str:
        """Return a text up to where it is certain, with the matches in it judged."""
        out: list[str] = []
        at = self._start
        others = None if match is None else self._scan.pattern.finditer(seen.text, match.end())
        while match is not None and match.start() < certain:
            if match.end() == match.start():
                break
            begin, end = seen.original(match.start()), seen.behind(match.end())
            out.append(text[at:begin])
            at = end
            replacement = self._judged(match)
            if self.stopped:
                return "".join(out)
            if replacement is None:
                out.append(text[begin:end])
            else:
                self.changed = self.changed or replacement != text[begin:end]
                out += [SETTLED, replacement, SETTLED]
            match = None if others is None else next(others, None)
        limit = max(at, seen.original(certain))
        out.append(text[at:limit])
        self._keep(text, seen, limit, final)
        return "".join(out)


class JoinFilter(_Filter):
    """One scan over what several blocks make together: only matches with a border between two blocks in them count.

    It gets the end of each block that may be the beginning of a match, and what follows until that is decided.
    `before`: the character before that, because `\\b` looks at it.
    """

    _most = MOST_JOINED
    __slots__ = ()

    def __init__(self, scan: Scan, on_match: OnMatch, before: str = "") -> None:
        super().__init__(scan, on_match)
        self._text, self._start = before, len(before)

    def feed(self, piece: str, *, final: bool = False) -> str:
        """Return the text that can go on now, with its borders."""
        if self.stopped:
            return ""
        if self._keeps(piece) and not final:
            return ""
        text = self._text + self._taken()
        seen = self._scan.view(_opaque(text))
        if not self._scan.borders:
            seen = without_borders(seen)
        first = seen.place(self._start)
        certain = len(seen.text) if final else self._scan.certain(seen.text, first)
        out, at = self._replaced(text, seen, first, certain)
        limit = at if self.stopped else max(at, seen.original(certain))
        out.append(text[at:limit])
        place = seen.place(limit)
        before = seen.text[place - 1] if place else ""
        self._text = "" if self.stopped or final else before + text[limit:]
        self._start = len(before) if self._text else 0
        return "".join(out)

    def _replaced(self, text: str, seen: Folded, place: int, certain: int) -> tuple[list[str], int]:
        """Return the text up to the last match, with the matches in it judged, and where that one ends."""
        out: list[str] = []
        at, last = self._start, text.rfind(BORDER)
        pattern, endless = self._scan.pattern, self._scan.endless
        found = pattern.finditer(seen.text, place)
        while (match := next(found, None)) is not None and match.start() < certain:
            begin, end = seen.original(match.start()), seen.behind(match.end())
            if match.end() == match.start() or begin > last:
                break
            borders = text.count(BORDER, begin, end)
            if not endless:
                # Behind a match without a limit, another start would only find what it has found, once more.
                found = pattern.finditer(seen.text, match.start() + 1)
            if not borders or SETTLED in text[begin:end]:
                # What is inside of one block was judged there.
                continue
            replacement = self._judged(match)
            if self.stopped:
                return [*out, text[at:begin]], begin
            if replacement is not None:
                self.changed = True
                out += [text[at:begin], SETTLED, replacement, SETTLED, BORDER * borders]
                at, found = end, pattern.finditer(seen.text, match.end())
        return out, at


def _opaque(text: str) -> str:
    """Return a text in which nothing can be found inside of what policies have put there."""
    if SETTLED not in text:
        return text
    parts = text.split(SETTLED)
    return "".join([part if number % 2 == 0 else _BLANK * (len(part) + 2) for number, part in enumerate(parts)])
