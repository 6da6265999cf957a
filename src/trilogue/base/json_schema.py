"""Traversal of JSON schemas. What a provider accepts of them is decided in its own package or module."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trilogue.base.json_text import Json

CHILDREN = ("items", "additionalProperties", "not")
LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
NAMED = ("properties", "$defs", "definitions", "patternProperties")


def nodes(schema: Json) -> Iterator[dict[str, Json]]:
    """Yield every subschema of a schema, including the schema itself.

    Iterative: a schema comes from a client and may be nested to any depth.
    """
    # Recursion would end in a RecursionError for a schema of a few hundred levels.
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        yield node
        waiting += [node[name] for name in CHILDREN if name in node]
        waiting += [child for name in LISTS if isinstance(node.get(name), list) for child in node[name]]
        waiting += [child for name in NAMED if isinstance(node.get(name), dict) for child in node[name].values()]


def with_each(node: Json, change: Callable[[dict[str, Json]], dict[str, Json]]) -> Json:
    """Return a schema in which every subschema has been changed. `change` returns a new object."""
    if not isinstance(node, dict):
        return node
    changed = change(node)
    for name in CHILDREN:
        if isinstance(changed.get(name), dict):
            changed[name] = with_each(changed[name], change)
    for name in LISTS:
        if isinstance(changed.get(name), list):
            changed[name] = [with_each(child, change) for child in changed[name]]
    for name in NAMED:
        if isinstance(changed.get(name), dict):
            changed[name] = {key: with_each(child, change) for key, child in changed[name].items()}
    return changed


def is_object(node: dict[str, Json]) -> bool:
    """Return whether a subschema describes objects."""
    kind = node.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in node
