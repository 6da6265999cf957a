"""JSON that arrives in pieces: completeness is seen at once, and characters that were cut are put together."""

from __future__ import annotations

import json
import random

import pytest

from trilogue.protocols.jsonpieces import HalfMender, JsonProgress

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


def test_halves_of_characters_are_put_together() -> None:
    """Across texts; a half that stays alone is shown as such, and escaped backslashes are none of it."""
    mender = HalfMender()
    assert mender.mend(rb'{"a":"x\ud83d"}') == b'{"a":"x"}'
    assert mender.mend(rb'{"a":"\uDE00 \\ud83d \ud83d\ude01"}') == rb'{"a":"\ud83d\uDE00 \\ud83d \ud83d\ude01"}'
    assert mender.mend(rb'{"a":"\ude00"}') == rb'{"a":"\ufffd"}'
    assert mender.mend(rb'{"a":"\n \u00e9 \ud83d\ude01"}') is None
