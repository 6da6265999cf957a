"""The schemas that OpenAI's strict mode takes, for tools and answers of Chat and Responses alike."""

from __future__ import annotations

from trilogue.model import Json

_CHILDREN = ("items", "additionalProperties", "not")
_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_NAMED = ("properties", "$defs", "definitions", "patternProperties")
_REFUSED = frozenset({"allOf", "oneOf", "not", "patternProperties", "if", "then", "else", "dependentRequired"})


def fits_strict(schema: Json) -> bool:
    """Whether every object in a schema lists all its properties as required and allows no others.

    Iterative: a schema comes from a client and may be nested without end.
    """
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, bool) or not isinstance(node, dict):
            continue
        if not _REFUSED.isdisjoint(node) or not _closed(node):
            return False
        waiting += [node[name] for name in _CHILDREN if name in node]
        waiting += [child for name in _LISTS if isinstance(node.get(name), list) for child in node[name]]
        waiting += [child for name in _NAMED if isinstance(node.get(name), dict) for child in node[name].values()]
    return isinstance(schema, dict)


def _closed(node: dict[str, Json]) -> bool:
    kind = node.get("type")
    is_object = kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in node
    if not is_object:
        return True
    properties = node.get("properties")
    names = properties.keys() if isinstance(properties, dict) else set()
    required = node.get("required")
    listed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return node.get("additionalProperties") is False and names <= listed
