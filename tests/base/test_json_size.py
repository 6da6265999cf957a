"""Count the fields of a JSON text without parsing it."""

from __future__ import annotations

import json
from random import Random

import pytest

from trilogue.base import json_text
from trilogue.base.json_text import LARGE_BYTES, MOST_FIELDS, MOST_ITEMS, has_too_many_fields, parse_request
from trilogue.errors import TooLarge
from trilogue.model import Json


def counted(value: Json) -> tuple[int, int]:
    """Return the number of fields and commas of a value."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    parts = [counted(item) for item in inner]
    fields = len(inner) if isinstance(value, dict) else 0
    return fields + sum(one for one, _ in parts), max(0, len(inner) - 1) + sum(two for _, two in parts)


def made(random: Random, depth: int = 0) -> Json:
    """Return a random value with texts that look like JSON."""
    kind = random.random() if depth < 4 else 1
    text = "".join(random.choice('a,":\\[{}é\n') for _ in range(random.randrange(8)))
    if kind < 0.3:
        return {f"{text}{n}": made(random, depth + 1) for n in range(random.randrange(5))}
    if kind < 0.6:
        return [made(random, depth + 1) for _ in range(random.randrange(5))]
    return text


@pytest.mark.parametrize("window", [3, 7, 64])
def test_counts_are_exact(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    """The count is exact wherever the text is split and whatever its strings contain."""
    monkeypatch.setattr(json_text, "_WINDOW", window)
    random = Random(window)
    for number in range(500):
        value = made(random)
        text = json.dumps(value, ensure_ascii=bool(number % 2))
        fields, items = counted(value)
        for most in ((fields, items), (fields - 1, items), (fields, items - 1)):
            monkeypatch.setattr(json_text, "MOST_FIELDS", most[0])
            monkeypatch.setattr(json_text, "MOST_ITEMS", most[1])
            assert has_too_many_fields(text.encode()) is (most != (fields, items)), text
            assert has_too_many_fields(text) is (most != (fields, items))


@pytest.mark.parametrize(
    "crowded",
    [
        b'{"a":{' + b",".join([b'"x":1'] * (MOST_FIELDS + 1)) + b"}}",
        b'{"a":[' + b",".join([b"1"] * (MOST_ITEMS + 2)) + b"]}",
    ],
    ids=["fields", "items"],
)
def test_a_crowd_is_not_parsed(crowded: bytes) -> None:
    """Too many fields are not parsed, because that would block all requests."""
    with pytest.raises(TooLarge) as caught:
        parse_request(crowded)
    assert (caught.value.status, caught.value.code) == (413, "request_too_large")


def test_long_texts_are_parsed() -> None:
    """Long texts are parsed, because they cost little."""
    text = '","x":[1,2],\\"' * LARGE_BYTES
    assert parse_request(json.dumps({"a": text})) == {"a": text}
