"""JSON that arrives in pieces: completeness is seen at once, and so is what a cut object holds for certain."""

from __future__ import annotations

import json
import random

import pytest

from trilogue.protocols.jsonpieces import JsonProgress, complete_object

VALUES = [{}, {"a": [1, {"b": '}"\\'}]}, {"x": "\\\\"}, {"y": '"'}, [[]], {"z": "{[{["}]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_completeness_is_seen_at_the_last_character(value: object) -> None:
    """Neither before nor after, however the text is cut."""
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
    """Before or after."""
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
    """A value that may go on is not certain."""
    assert complete_object(text) == expected
