"""JSON that arrives in pieces: when it is complete, and what is certain if it is truncated."""

from __future__ import annotations

import json
import random

import pytest

from trilogue.base.partial_json import JsonProgress, closing, complete_object, is_cut

VALUES = [{}, {"a": [1, {"b": '}"\\'}]}, {"x": "\\\\"}, {"y": '"'}, [[]], {"z": "{[{["}]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_completeness_is_seen_at_the_last_character(value: object) -> None:
    """Completeness is detected at the last character, not before and not after, however the text is split."""
    text = json.dumps(value)
    rng = random.Random(3)
    for _ in range(200):
        progress, position = JsonProgress(), 0
        while position < len(text):
            step = rng.randint(1, 4)
            progress.feed(text[position : position + step])
            position += step
            assert progress.complete is (position >= len(text))


def test_white_space_changes_nothing() -> None:
    """White space before or after the text changes nothing."""
    progress = JsonProgress()
    progress.feed(" \n")
    assert not progress.complete
    progress.feed("{}")
    progress.feed(" \n")
    assert progress.complete


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1', {}),
        ('{"a":1,', {"a": 1}),
        ('{"a":"x, {","b":[1,{"c":2', {"a": "x, {", "b": [1, {}]}),
        ('{"a":"x\\"y', {}),
        ('{"a":{"b":[1,2]}', {"a": {"b": [1, 2]}}),
        ("", None),
        ("[1,", None),
    ],
)
def test_what_is_certain_of_a_cut_object(text: str, expected: object) -> None:
    """A value that may continue is not certain."""
    assert complete_object(text) == expected


@pytest.mark.parametrize(
    ("text", "rest", "cut"),
    [
        ('{"a":1}', "", False),
        ('{"a":"x"', "}", False),
        ('{"a":{"b":[true', "]}}", False),
        ('{"a":"x"}}', None, False),
        ('{"a":1', None, True),
        ('{"a":"x', None, True),
        ('{"a":"', None, True),
        ('{"a"', None, True),
        ('{"a":"x",', None, True),
        ("{", None, True),
        ("{'a': 1}", None, False),
        ("words", None, False),
        ("", None, False),
    ],
)
def test_what_only_lacks_its_last_brackets(text: str, rest: str | None, cut: bool) -> None:
    """Only missing closing brackets are added. If more is missing, the object was truncated."""
    assert closing(text) == rest
    assert is_cut(text) is cut
