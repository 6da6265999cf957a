"""Which fields of a body are read, and by whom."""

from __future__ import annotations

import pytest

from trilogue.errors import BadRequest
from trilogue.protocols.fields import Fields, FieldTable, field


def both(fields: Fields, note: list[str]) -> tuple[str | None, bool | None]:
    note.append("both")
    return fields.text("name"), fields.flag("on")


def nothing(fields: Fields, note: list[str]) -> tuple[()]:
    note.append("nothing")
    return ()


SETTINGS = FieldTable(
    {
        "heat": field(Fields.number, "temperature"),
        ("name", "switch"): (both, ("name", "on")),
        (): (nothing, ("noise",)),
        "limit": field(Fields.integer, "max_tokens"),
    }
)


def test_only_what_is_there_is_read() -> None:
    """A reader runs once if any of its fields is there, and not at all if none is."""
    note: list[str] = []
    fields = Fields({"on": True, "odd": 1, "max_tokens": 5})
    assert SETTINGS.read(fields, note) == {"name": None, "switch": True, "limit": 5}
    assert note == ["both"]
    assert fields.rest() == {"odd": 1}


def test_a_reader_may_give_no_setting() -> None:
    """It only looks after its fields."""
    note: list[str] = []
    assert SETTINGS.read(Fields({"noise": 1}), note) == {}
    assert note == ["nothing"]


def test_the_first_row_with_a_mistake_is_reported() -> None:
    """Whatever the order of the body."""
    with pytest.raises(BadRequest, match="temperature must be"):
        SETTINGS.read(Fields({"max_tokens": "x", "on": "x", "temperature": "x"}), [])
