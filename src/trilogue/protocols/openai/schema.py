"""Schemas of tools and answers, and which of them OpenAI's strict mode takes: for Chat and Responses alike."""

from __future__ import annotations

from trilogue.jsontext.schema import is_object, nodes
from trilogue.model import FormatKind, Json, Ledger, OutputFormat

FORMATS = {"text": FormatKind.TEXT, "json_object": FormatKind.JSON, "json_schema": FormatKind.SCHEMA}
FORMAT_NAMES = {kind: name for name, kind in FORMATS.items()}
FORMAT_NAME = "structured_output"
"""of a schema that Messages, where schemas have no name, asked for"""

_REFUSED = frozenset({"allOf", "oneOf", "not", "patternProperties", "if", "then", "else", "dependentRequired"})


def parameters_of(schema: dict[str, Json]) -> dict[str, Json]:
    """The schema of a function. OpenAI refuses one that is no object, or an object without `properties`."""
    whole = schema if "type" in schema else {"type": "object", **schema}
    return whole if whole["type"] != "object" or "properties" in whole else {**whole, "properties": {}}


def fits_strict(schema: Json) -> bool:
    """Whether every object in a schema lists all its properties as required and allows no others."""
    if not isinstance(schema, dict):
        return False
    return all(_REFUSED.isdisjoint(node) and _closed(node) for node in nodes(schema))


def can_be_strict(form: OutputFormat, ledger: Ledger) -> bool:
    """Whether an answer can be held to its schema, as Messages always does; if not, that is declared."""
    strict = fits_strict(form.schema)
    if not strict:
        ledger.add("format.details", form.path, "sent as not strict")
    return strict


def _closed(node: dict[str, Json]) -> bool:
    if not is_object(node):
        return True
    properties = node.get("properties")
    names = properties.keys() if isinstance(properties, dict) else set()
    required = node.get("required")
    listed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return node.get("additionalProperties") is False and names <= listed
