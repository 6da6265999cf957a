"""Text as a reader sees it: the form in which policies compare it, with the way back to the original characters.

Characters that cannot be seen are left out: zero-width characters, soft hyphens, byte order marks, control characters,
variation selectors. Accents are left out as well, and compatibility forms (full-width letters, ligatures, letters of
mathematics, typographic spaces, hyphens and quotes) become the plain character. Every character is folded alone, so the
result does not depend on how a text is cut. Letters of different scripts that look alike stay different.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left

from msgspec import Struct

BORDER = "\udfff"
"""stands between two blocks in a text that several blocks make; half of a character, so no text has it by itself"""
SETTLED = "\udffe"
"""stands around a text that a policy has put in place of something, so that it is not judged again"""
is_plain = re.compile(r"[\t\n\r -~]*").fullmatch
"""matches a text that looks like what it is"""
_ACCENTS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LIKE = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\ufe58\ufe63\uff0d", "-"),
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc\uff07", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\uff02", '"'),
    # Fillers that have no glyph.
    **dict.fromkeys("\u115f\u1160\u2800\u3164\uffa0\u1680", " "),
    **dict.fromkeys("\u2028\u2029\x85", "\n"),
}
_MOST_KNOWN = 20_000
_known: dict[str, str] = {}


class Folded(Struct, frozen=True):
    """A folded text. `origins`: for each character the position of the original one; None: they are the same."""

    text: str
    origins: list[int] | None
    length: int

    def original(self, position: int) -> int:
        """Return the position in the original text of a position in this one."""
        if self.origins is None:
            return position
        return self.origins[position] if position < len(self.origins) else self.length

    def behind(self, position: int) -> int:
        """Return the position behind the original character that the one before this position comes from."""
        if self.origins is None or position == 0:
            return position
        return self.origins[position - 1] + 1

    def place(self, original: int) -> int:
        """Return the first position in this text that comes from an original position or one behind it."""
        return original if self.origins is None else bisect_left(self.origins, original)


def folded(text: str) -> Folded:
    """Return a text as a reader sees it. Borders between blocks stay."""
    if text.isascii() and is_plain(text):
        return Folded(text, None, len(text))
    out: list[str] = []
    origins: list[int] = []
    for position, character in enumerate(text):
        seen = character if " " <= character <= "~" else _seen(character)
        if seen:
            out.append(seen)
            origins += [position] * len(seen)
    return Folded("".join(out), origins, len(text))


def unfolded(text: str) -> Folded:
    """Return a text as it is."""
    return Folded(text, None, len(text))


def without_borders(seen: Folded) -> Folded:
    """Return a text with its blocks joined."""
    if BORDER not in seen.text:
        return seen
    kept = [place for place, character in enumerate(seen.text) if character != BORDER]
    origins = seen.origins
    return Folded(
        "".join([seen.text[place] for place in kept]),
        kept if origins is None else [origins[place] for place in kept],
        seen.length,
    )


def fold(text: str) -> str:
    """Return a text as a reader sees it."""
    return folded(text).text


def _seen(character: str) -> str:
    known = _known.get(character)
    if known is None:
        known = _LIKE.get(character)
        if known is None:
            plain = unicodedata.normalize("NFKD", character)
            plain = "".join([_LIKE.get(part, part) for part in plain])
            known = _UNSEEN.sub("", _ACCENTS.sub("", plain))
        if len(_known) < _MOST_KNOWN:
            _known[character] = known
    return known
