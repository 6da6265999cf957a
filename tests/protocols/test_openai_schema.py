"""The subset of JSON Schema that OpenAI's strict mode takes."""

from typing import Any

import pytest

from trilogue.protocols.openai.schema import fits_strict, parameters_of

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


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "object", "properties": {"a": {"type": "object"}}},) * 2,
        ({"type": ["object"]},) * 2,
    ],
)
def test_parameters_of_functions(given: dict[str, Any], sent: dict[str, Any]) -> None:
    """Tools without parameters, as MCP servers describe them."""
    assert parameters_of(given) == sent
