"""JSON schemas of tools and outputs, changed as little as a provider's subset demands.

Recursive: a body that is nested too deeply to be walked was refused when it was parsed, or is blamed on the client.
"""

from __future__ import annotations

from collections.abc import Callable

from trilogue.model import Json
from trilogue.protocols.openai_schema import fits_strict
from trilogue.protocols.schema import CHILDREN, LISTS, NAMED, is_object, nodes

__all__ = ["close_objects", "fits_closed", "fits_strict", "is_plain_object", "plain_object"]

_LIMITS = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
    }
)
"""what Anthropic's subset cannot say"""
_MAX_STEPS = 8
"""from one reference to the next"""
_COMBINED = ("anyOf", "oneOf", "allOf")
_NOT_AT_THE_TOP = frozenset({*_COMBINED, "enum", "not", "$ref", "const", "if", "then", "else"})


def fits_closed(schema: Json) -> bool:
    """Tell whether a schema has no limits, and no object with properties that it does not name."""
    return all(
        _LIMITS.isdisjoint(node) and (node.get("additionalProperties") is False or not is_object(node))
        for node in nodes(schema)
    )


def close_objects(schema: dict[str, Json]) -> dict[str, Json]:
    """Return a schema whose objects take no other properties, with limits told in descriptions instead."""
    return schema if fits_closed(schema) else _each(schema, _closed)


def _closed(node: dict[str, Json]) -> dict[str, Json]:
    limits = {name: node[name] for name in node if name in _LIMITS}
    kept = {name: value for name, value in node.items() if name not in _LIMITS}
    if limits:
        told = ", ".join(f"{name}: {value}" for name, value in limits.items())
        kept["description"] = f"{kept['description']} ({told})" if kept.get("description") else f"({told})"
    if is_object(kept):
        kept["additionalProperties"] = False
    return kept


def _each(node: Json, change: Callable[[dict[str, Json]], dict[str, Json]]) -> Json:
    """Return a schema in which every node has been changed."""
    if not isinstance(node, dict):
        return node
    changed = change(node)
    for name in CHILDREN:
        if isinstance(changed.get(name), dict):
            changed[name] = _each(changed[name], change)
    for name in LISTS:
        if isinstance(changed.get(name), list):
            changed[name] = [_each(child, change) for child in changed[name]]
    for name in NAMED:
        if isinstance(changed.get(name), dict):
            changed[name] = {key: _each(child, change) for key, child in changed[name].items()}
    return changed


def is_plain_object(schema: dict[str, Json]) -> bool:
    """Tell whether a tool's schema is an object, and says so without alternatives at its top."""
    return _NOT_AT_THE_TOP.isdisjoint(schema) and schema.get("type", "object") == "object"


def plain_object(schema: dict[str, Json]) -> dict[str, Json]:
    """Return a tool's schema as one object: alternatives at its top become optional properties of it."""
    top = _resolved(schema)
    kept = {name: value for name, value in top.items() if name not in _NOT_AT_THE_TOP}
    properties: dict[str, Json] = _dict(top.get("properties"))
    required = _names(top.get("required"))
    for name in _COMBINED:
        branches = [_resolved({**_dict(branch), **_defs(schema)}) for branch in _list(top.get(name))]
        for branch in branches:
            for key, value in _dict(branch.get("properties")).items():
                properties.setdefault(key, value)
        demanded = [set(_names(branch.get("required"))) for branch in branches]
        if demanded:
            common = set.union(*demanded) if name == "allOf" else set.intersection(*demanded)
            required += [key for key in properties if key in common and key not in required]
    result: dict[str, Json] = {**kept, "type": "object", "properties": properties}
    if required:
        result["required"] = [key for key in required if key in properties]
    return {**result, **_defs(schema)}


def _defs(schema: dict[str, Json]) -> dict[str, Json]:
    return {name: schema[name] for name in ("$defs", "definitions") if name in schema}


def _resolved(schema: dict[str, Json]) -> dict[str, Json]:
    """Return what a reference at the top points to inside the schema; one that leads in a circle ends somewhere."""
    top = schema
    for _ in range(_MAX_STEPS):
        reference = top.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        found: Json = schema
        for step in reference[2:].split("/"):
            found = _dict(found).get(step.replace("~1", "/").replace("~0", "~"))
        top = {**{name: value for name, value in top.items() if name != "$ref"}, **_dict(found)}
    return top


def _dict(value: Json) -> dict[str, Json]:
    return dict(value) if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _names(value: Json) -> list[str]:
    return [name for name in _list(value) if isinstance(name, str)]
