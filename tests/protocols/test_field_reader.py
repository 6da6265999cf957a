"""Readers of wire objects: nothing is lost, and a wrong type is the client's error or the upstream's quirk."""

from __future__ import annotations

from typing import Any

import pytest

from trilogue.errors import BadRequest
from trilogue.protocols.fields import Fields, Kept, Kinds, LooseFields, TokenFigure, sort_fields

READERS = ["text", "flag", "integer", "number", "items", "mapping", "fields"]
RIGHT = {"text": "x", "flag": True, "integer": 1, "number": 1.5, "items": [], "mapping": {}, "fields": {}}


@pytest.mark.parametrize("reader", READERS)
def test_wrong_type_names_its_path(reader: str) -> None:
    """The client hears which field it was."""
    wrong = {"odd": "x" if reader != "text" else 5}
    with pytest.raises(BadRequest, match=r"messages\[0\]\.odd must be") as caught:
        getattr(Fields(wrong, "messages[0]"), reader)("odd")
    assert caught.value.path == "messages[0].odd"


@pytest.mark.parametrize("reader", READERS)
def test_wrong_type_in_a_response_stays_in_the_rest(reader: str) -> None:
    """An upstream's quirk is kept for who can read it."""
    wrong = {"odd": "x" if reader != "text" else 5}
    fields = LooseFields(wrong)
    assert getattr(fields, reader)("odd") is None
    assert fields.rest() == wrong


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", [Fields, LooseFields])
def test_null_and_absent_are_the_same(reader: str, kind: type[Fields]) -> None:
    """And neither is left over."""
    fields = kind({"a": None})
    assert getattr(fields, reader)("a") is None
    assert getattr(fields, reader)("b") is None
    assert fields.rest() is None


@pytest.mark.parametrize("reader", READERS)
def test_what_is_taken_is_not_left(reader: str) -> None:
    """The rest is exactly what nobody asked for."""
    fields = Fields({"a": RIGHT[reader], "b": 2})
    getattr(fields, reader)("a")
    assert fields.rest() == {"b": 2}


def test_whole_floats_are_integers() -> None:
    """Some clients write 100.0."""
    assert Fields({"a": 100.0}).integer("a") == 100


def test_the_source_is_not_changed() -> None:
    """Reading does not eat the caller's body."""
    body = {"a": 1}
    Fields(body).integer("a")
    assert body == {"a": 1}


@pytest.mark.parametrize("value", [None, [], "x", 5])
def test_no_object_at_all(value: object) -> None:
    """An error for a client, an empty object for an upstream."""
    with pytest.raises(BadRequest, match="must be an object"):
        Fields(value, "tools[0]")
    assert LooseFields(value).rest() is None


def test_a_table_reads_what_is_there() -> None:
    """By neutral names, in the order of the table; what is absent is not mentioned."""
    fields = Fields({"n": 1, "temperature": 0.5, "odd": 1})
    table = {
        "temperature": ("heat", Fields.number),
        "top_p": ("top_p", Fields.number),
        "n": ("choices", Fields.integer),
    }
    assert list(fields.given(table).items()) == [("heat", 0.5), ("choices", 1)]
    assert fields.rest() == {"odd": 1}


def test_values_are_sorted_in_the_order_asked_for() -> None:
    """Absent ones are None."""
    known, rest = sort_fields({"a": 1, "b": [2], "c": 3}, dict.fromkeys(("b", "x", "a"), object))
    assert list(known.values()) == [[2], None, 1]
    assert rest == {"c": 3}


def test_what_is_no_count_is_not_known() -> None:
    """Nor is a count that is not there."""
    kinds: Kinds = dict.fromkeys("abcdef", TokenFigure)
    known, rest = sort_fields({"a": -1, "b": 7, "c": "x", "e": 3.0, "f": 1e30}, kinds)
    assert known == {"a": None, "b": 7, "c": None, "d": None, "e": 3, "f": None}
    assert rest == {"a": -1, "c": "x", "f": 1e30}


KINDS: Kinds = {"any": object, "tier": {"fast": 1}, "kept": Kept, "text": str, "number": float, "whole": int}


def test_fields_are_sorted_by_their_kinds() -> None:
    """Known ones are by their names, others are the rest; what is null is neither."""
    given: dict[str, Any] = {
        "x": 1,
        "y": None,
        "text": "a",
        "whole": 2.0,
        "number": 3,
        "any": [],
        "tier": "fast",
        "kept": 4,
    }
    known, rest = sort_fields(given, KINDS)
    assert known == {"any": [], "tier": 1, "kept": 4, "text": "a", "number": 3, "whole": 2}
    assert type(known["whole"]) is int
    assert rest == {"x": 1, "kept": 4}


def test_odd_fields_are_at_the_end_of_the_rest() -> None:
    """In the order of their kinds, not in their own."""
    given = {"whole": True, "number": "1", "text": 1, "x": 1, "kept": 4, "tier": "slow", "any": None}
    known, rest = sort_fields(given, KINDS)
    assert known == {**dict.fromkeys(KINDS), "kept": 4}
    assert list(rest.items()) == [
        ("x", 1),
        ("tier", "slow"),
        ("kept", 4),
        ("text", 1),
        ("number", "1"),
        ("whole", True),
    ]


@pytest.mark.parametrize("value", [None, "text", [1], 5])
def test_what_is_no_object_has_no_fields(value: Any) -> None:
    """Answers are read whatever they are."""
    assert sort_fields(value, {"a": object}) == ({"a": None}, {})
