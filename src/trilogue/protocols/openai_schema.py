"""The schemas that OpenAI's strict mode takes, for tools and answers of Chat and Responses alike."""

from __future__ import annotations

from trilogue.model import Json
from trilogue.protocols.schema import is_object, nodes

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


def _closed(node: dict[str, Json]) -> bool:
    if not is_object(node):
        return True
    properties = node.get("properties")
    names = properties.keys() if isinstance(properties, dict) else set()
    required = node.get("required")
    listed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return node.get("additionalProperties") is False and names <= listed
