"""Schemas of tools and outputs for OpenAI's APIs, and which of them strict mode accepts."""

from __future__ import annotations

from trilogue.base.json_schema import is_object, nodes
from trilogue.model import FormatKind, Json, Ledger, OutputFormat

FORMATS = {"text": FormatKind.TEXT, "json_object": FormatKind.JSON, "json_schema": FormatKind.SCHEMA}
FORMAT_NAMES = {kind: name for name, kind in FORMATS.items()}
FORMAT_NAME = "structured_output"
"""the name for a schema from Messages, where schemas have none; OpenAI requires one"""

# Keywords that OpenAI's strict mode does not support.
_REFUSED = frozenset({"allOf", "oneOf", "not", "patternProperties", "if", "then", "else", "dependentRequired"})


def parameters_of(schema: dict[str, Json]) -> dict[str, Json]:
    """Return the schema of a function as an object with `properties`; OpenAI refuses any other."""
    # MCP servers describe tools without parameters as `{}` or `{"type": "object"}`.
    whole = schema if "type" in schema else {"type": "object", **schema}
    return whole if whole["type"] != "object" or "properties" in whole else {**whole, "properties": {}}


def fits_strict(schema: Json) -> bool:
    """Return whether every object in a schema requires all its properties and allows no others."""
    if not isinstance(schema, dict):
        return False
    return all(_REFUSED.isdisjoint(node) and _closed(node) for node in nodes(schema))


def can_be_strict(form: OutputFormat, ledger: Ledger) -> bool:
    """Return whether strict mode accepts a schema from Messages, which always enforces it. Declares it if not."""
    # Never make a schema fit by changing `required`: that would change which values it allows.
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
