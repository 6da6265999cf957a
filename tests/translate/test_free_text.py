"""Free text out of {"input": …}, in whatever pieces the JSON comes."""

from __future__ import annotations

import json
import random

import pytest

from trilogue.translate.tools.names import InputUnwrapper

TEXTS = ["", "plain", 'quotes " and \\ and \n\t', "ünïcödé 🎉 \u2028", "a\\u0041", "*** Begin Patch\n+x\n*** End", "\\"]


def unwrap(pieces: list[str]) -> str:
    unwrapper = InputUnwrapper()
    return "".join(unwrapper.feed(piece) for piece in pieces) + unwrapper.close()


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("indent", [None, 1])
def test_any_cut_gives_the_text(text: str, ascii_only: bool, indent: int | None) -> None:
    """Escapes, surrogate pairs and the head may be cut anywhere."""
    wrapped = json.dumps({"input": text}, ensure_ascii=ascii_only, indent=indent)
    assert unwrap([wrapped]) == text
    assert unwrap(list(wrapped)) == text
    rng = random.Random(1)
    for _ in range(50):
        cuts = sorted(rng.sample(range(len(wrapped) + 1), k=3))
        pieces = [wrapped[a:b] for a, b in zip([0, *cuts], [*cuts, len(wrapped)], strict=True)]
        assert unwrap(pieces) == text


def test_text_flows_before_the_end() -> None:
    """A patch of many lines is shown as it is written, not at the end."""
    unwrapper = InputUnwrapper()
    assert unwrapper.feed('{"input": "one ') == "one "
    assert unwrapper.feed("two\\") == "two"
    assert unwrapper.feed("n") == "\n"


@pytest.mark.parametrize("other", ['{"content": "x"}', "[1]", "not json", '{"input": 5}', ""])
def test_other_shapes_come_whole(other: str) -> None:
    """A model that ignores the schema is not silenced."""
    assert unwrap(list(other)) == other


def test_second_property_before_the_input_is_understood() -> None:
    """The right property in the wrong place still gives the text."""
    assert unwrap(['{"reason": "r", "input": "x"}']) == "x"


def test_raw_line_breaks_inside_the_string() -> None:
    """Not legal JSON, but models write it."""
    assert unwrap(['{"input": "a\nb"}']) == "a\nb"


def test_cut_inside_an_escape_is_not_swallowed() -> None:
    """When the token limit ends the call, what was written is given out."""
    assert unwrap(['{"input": "a\\u00']) == "a\\u00"


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (r'{"input": "match(\d+) in C:\Users\new"}', "match(\\d+) in C:\\Users\new"),
        (r'{"input": "C:\users\u12 x"}', "C:\\users\\u12 x"),
        (r'{"input": "half \ud83d, other half \ude00"}', "half \ufffd, other half \ufffd"),
        (r'{"input": "\ud83d\u0041"}', "\ufffdA"),
    ],
)
def test_escapes_that_are_none(wrong: str, text: str) -> None:
    """Models write patterns and paths into JSON as they are; a call is not lost for that, however it is cut."""
    assert unwrap([wrong]) == unwrap(list(wrong)) == text
