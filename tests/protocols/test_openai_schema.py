"""The subset of JSON Schema that OpenAI's strict mode takes."""

from typing import Any

import pytest

from trilogue.protocols.openai_schema import fits_strict

CLOSED: dict[str, Any] = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        (CLOSED, True),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "properties": {"a": {"type": "object"}}}, False),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": {"properties": {}}}}}, False),
        ({**CLOSED, "properties": {"a": {"anyOf": [CLOSED, {"type": "null"}]}}}, True),
        ({**CLOSED, "properties": {"a": {"oneOf": [CLOSED]}}}, False),
        ({"$defs": {"x": {"type": "object"}}, **CLOSED}, False),
        ({"type": ["object", "null"]}, False),
        (None, False),
    ],
)
def test_subset(schema: Any, fits: bool) -> None:
    """Every object closed, every property required, at any depth."""
    assert fits_strict(schema) is fits


def test_deep_schema() -> None:
    """A client may nest without end; the check must not."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(50_000):
        schema = {"type": "array", "items": schema}
    assert fits_strict(schema)
