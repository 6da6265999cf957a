"""Extras go back where they came from."""

from typing import Any

import pytest

from trilogue.protocols.fields import Fields, add_extras, restore_extras


@pytest.mark.parametrize(
    ("wire", "extras", "expected"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"x": 1}}, {"a.y": 2}, {"a": {"x": 1, "y": 2}}),
        ({}, {"a.y": 2}, {"a": {"y": 2}}),
        ({}, {"a.b.y": 2}, {"a": {"b": {"y": 2}}}),
        ({}, {"c.y": 2}, {"c.y": 2}),
        ({"c": 1}, {"c.y": 2}, {"c": 1, "c.y": 2}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
    ],
)
def test_restore(wire: dict[str, Any], extras: dict[str, Any], expected: dict[str, Any]) -> None:
    """A dotted name is the rest of a nested object, but only where there is or may be one."""
    restore_extras(wire, extras, {"a", "a.b"})
    assert wire == expected


def test_keep_and_restore() -> None:
    """What Fields leaves of nested objects is what restore_extras puts back."""
    body = {"a": {"b": {"x": 1, "y": 2}, "z": 3}, "c": 4}
    fields = Fields(body)
    outer = fields.fields("a")
    assert outer is not None
    inner = outer.fields("b")
    assert inner is not None
    inner.any("x")
    outer.keep("b", inner)
    fields.keep("a", outer)
    extras = fields.rest()
    assert extras == {"c": 4, "a.z": 3, "a.b.y": 2}
    wire: dict[str, Any] = {"a": {"b": {"x": 1}}}
    restore_extras(wire, extras)
    assert wire == body


def test_add() -> None:
    """In answers what was written wins, whatever an upstream sent under that name."""
    wire = {"id": "msg_1", "usage": {"input_tokens": 1}}
    add_extras(wire, {"id": 5, "usage": {"input_tokens": 2, "x": 3}, "container": None})
    assert wire == {"id": "msg_1", "usage": {"input_tokens": 1, "x": 3}, "container": None}
