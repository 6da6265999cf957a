"""Patterns in text that arrives in pieces: the same result as on the whole text, and little is held back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import pytest

from trilogue.policies.folding import SETTLED
from trilogue.policies.patterns import FirstOf, LinearPattern, Searcher
from trilogue.policies.scan import (
    MARGIN,
    MOST_SEARCHED,
    Scan,
    ScanFilter,
    Step,
    longest,
    longest_match,
    partly_written,
    phrase_scan,
    scan_of,
    steps_of,
    written,
)
from trilogue.policies.shipped.redact import DETECTORS, scan_for
from trilogue.policies.verdicts import PASS, StopWith

SEEDS = 300


def patterns() -> dict[str, Scan]:
    """Return scans of every form."""
    steps = [*steps_of("ab"), Step("[ab]", 0, 3), Step("c", 1, 2)]
    made = Scan(pattern=re.compile(written(steps)), partial=re.compile(partly_written(steps)), reach=longest(steps))
    found = {
        "phrases": phrase_scan(["ab", "abc", "cab", "b b"]),
        "any case": phrase_scan(["aB", "ABC"], ignore_case=True),
        "one character": phrase_scan(["a"]),
        "steps": made,
    }
    for pattern in (r"a[bc]{1,3}", r"\bab\b", r"a.{0,4}c", r"^ab", r"c$", r"a\n?b", r"(?:ab|a)c?"):
        scan = scan_of(re.compile(pattern))
        assert scan is not None
        found[pattern] = scan
    return found


def fed(scan: Scan, text: str, rng: Random) -> tuple[str, int]:
    """Return the text after the filter, with a mark around each match, and the most that was held back."""
    found = ScanFilter(scan, lambda match: f"<{match.group()}>")
    out, held = [], 0
    while text:
        size = rng.choice([1, 1, 2, 5, 30])
        out.append(found.feed(text[:size]))
        held = max(held, found.held)
        text = text[size:]
    out.append(found.feed("", final=True))
    assert found.held == 0
    return "".join(out).replace(SETTLED, ""), held


def marked(scan: Scan, text: str) -> tuple[str, int]:
    """Return a whole text with a mark around each match, and the number of matches."""
    found: list[str] = []

    def mark(match: re.Match[str]) -> str:
        found.append(match.group())
        return f"<{match.group()}>"

    return scan.replaced(text, mark), len(found)


@pytest.mark.parametrize("name", patterns())
def test_pieces_give_what_the_whole_gives(name: str) -> None:
    """However the text is split, the same matches are found, and the number of characters held back is limited."""
    scan = patterns()[name]
    matches = 0
    for seed in range(SEEDS):
        rng = Random(f"{name} {seed}")
        text = "".join(rng.choices("aaabbbcc \nAB", k=rng.randrange(60)))
        out, held = fed(scan, text, rng)
        expected, number = marked(scan, text)
        assert out == expected, repr(text)
        assert held <= (scan.reach or len(text)) + MARGIN
        matches += number
    assert matches > 10


VALUES = [
    "jane.doe@example.org",
    "sk-test00000000000000000000",
    "AKIA" + "Z" * 16,
    "4111 1111 1111 1111",
    "DE89 3704 0044 0532 0130 00",
    "+49 (30) 1234-5678",
    "078-05-1120",
    "gh" + "p_" + "a" * 36,
    "-----BEGIN RSA PRIVATE KEY-----\nAAAA\nBBBB\n-----END RSA PRIVATE KEY-----",
    "eyJ" + "a" * 20 + "." + "b" * 20 + "." + "c" * 20,
    "<<EMAIL_1>>",
]


def test_detectors_find_the_same_in_pieces() -> None:
    """Values among words, beginnings of values, and values that touch."""
    scan = scan_for(DETECTORS, placeholders=True)
    matches = 0
    for seed in range(SEEDS):
        rng = Random(seed)
        parts = []
        for _ in range(rng.randrange(8)):
            value = rng.choice(VALUES)
            parts.append(rng.choice([value, value[: rng.randrange(len(value))], "some words", "a@b", "12-34"]))
            parts.append(rng.choice([" ", "", ", ", "\n"]))
        text = "".join(parts)
        out, _ = fed(scan, text, rng)
        expected, number = marked(scan, text)
        assert out == expected, repr(text)
        matches += number
    assert matches > SEEDS / 2


@pytest.mark.parametrize("value", VALUES)
def test_each_value_is_found(value: str) -> None:
    """Every kind of value is found as a whole."""
    match = scan_for(DETECTORS, placeholders=True).pattern.search(f"x {value} y")
    assert match is not None
    assert match.group() == value


def test_text_that_cannot_match_is_not_held() -> None:
    """Only the beginning of a phrase is held back."""
    found = ScanFilter(phrase_scan(["forbidden words"]), lambda match: "")
    assert found.feed("all of this goes on at once, for") == "all of this goes on at once, "
    assert found.held == 3
    assert found.feed("tune") == "fortune"


def test_stop_ends_before_the_match() -> None:
    """What came before goes on, the match does not, and nothing after it."""
    found = ScanFilter(phrase_scan(["bad"]), lambda match: StopWith("no"))
    assert found.feed("good b") == "good "
    assert found.feed("ad and more") == ""
    assert found.stopped == StopWith("no")
    assert found.feed("even more", final=True) == ""


def test_pass_leaves_a_match() -> None:
    """A match that the policy does not mind is not a change."""
    found = ScanFilter(phrase_scan(["bad"]), lambda match: PASS)
    assert found.feed("not bad", final=True) == "not bad"
    assert (found.matches, found.changed) == (1, False)


@pytest.mark.parametrize(("pattern", "width"), [("a{2,5}", 5), ("a|bcd", 3), ("a+", None), ("a(?=b)", None)])
def test_width_of_a_pattern(pattern: str, width: int | None) -> None:
    """Only patterns with a limit can be searched for while text flows."""
    assert longest_match(re.compile(pattern)) == width


def test_long_phrases_compile() -> None:
    """The longest phrase that settings allow is not too deep for the regular expression parser."""
    phrase = "x" * 199 + "y"
    assert fed(phrase_scan([phrase]), f"a{phrase}b", Random(1))[0] == f"a<{phrase}>b"


class Counting:
    """A pattern that counts the characters that it is given to search."""

    def __init__(self, pattern: Searcher) -> None:
        self._pattern = pattern
        self.characters = 0

    def search(self, text: str, position: int = 0, /) -> re.Match[str] | None:
        self.characters += len(text)
        return self._pattern.search(text, position)

    def finditer(self, text: str, position: int = 0, /) -> Iterator[re.Match[str]]:
        self.characters += len(text)
        return self._pattern.finditer(text, position)


@pytest.mark.parametrize("filler", [" ", "\u200b"])
def test_a_text_that_could_be_a_match_for_ever_is_not_searched_again_with_every_piece(filler: str) -> None:
    scan = phrase_scan(["internal only"])
    pattern = Counting(scan.pattern)
    held = ScanFilter(Scan(pattern=pattern, reach=None, partial=scan.partial, folds=True), lambda match: "X")
    out = held.feed("internal")
    pieces = 2 * MOST_SEARCHED // 10
    for _ in range(pieces):
        out += held.feed(filler * 10)
    assert out == ""
    assert pattern.characters < pieces * 10 * MOST_SEARCHED / 10
    assert held.feed(" only.", final=True).replace(SETTLED, "") == "X."


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in one piece"])
def test_many_matches_are_found_in_one_pass(whole: bool) -> None:
    pattern = Counting(FirstOf([LinearPattern("b@x"), LinearPattern("[a-z]+@[a-z]+")]))
    scan = Scan(pattern=pattern, reach=40)
    text = "aab@x a " * 5000
    if whole:
        made = scan.replaced(text, lambda match: "X")
    else:
        made = ScanFilter(scan, lambda match: "X").feed(text, final=True).replace(SETTLED, "")
    assert made == "X a " * 5000
    assert pattern.characters < 3 * len(text)


def test_what_is_left_of_an_overlapping_match_is_found() -> None:
    scan = Scan(pattern=FirstOf([LinearPattern("ab+"), re.compile("[bc]{2}")]), reach=9)
    assert scan.replaced("abbcb bcc", lambda match: f"[{match.group()}]") == "[abb][cb] [bc]c"
