"""Walking through JSON schemas. What a provider takes of them is said by its own package or module."""

from __future__ import annotations

from collections.abc import Iterator

from trilogue.model import Json

CHILDREN = ("items", "additionalProperties", "not")
LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
NAMED = ("properties", "$defs", "definitions", "patternProperties")


def nodes(schema: Json) -> Iterator[dict[str, Json]]:
    """Every object of a schema that says something about values.

    Iterative: a schema comes from a client and may be nested without end.
    """
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        yield node
        waiting += [node[name] for name in CHILDREN if name in node]
        waiting += [child for name in LISTS if isinstance(node.get(name), list) for child in node[name]]
        waiting += [child for name in NAMED if isinstance(node.get(name), dict) for child in node[name].values()]


def is_object(node: dict[str, Json]) -> bool:
    """Whether a node is about objects."""
    kind = node.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in node
