"""Find what a vendor refuses in a JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.vendors.reading import Found, items, mapping

BY_NAME = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")

TOP_COMBINERS = ("anyOf", "oneOf", "allOf")
STRICT_UNKNOWN = ("allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas")
"""keywords that OpenAI's strict mode does not accept"""

LIMITS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties", "uniqueItems", "minContains", "maxContains",
)  # fmt: skip
"""keywords that limit numbers, lengths and counts"""


def subschemas(schema: object, path: str) -> Iterator[Found]:
    """Yield a schema and every schema inside it, each with its path."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for keyword in BY_NAME:
        for name, inner in mapping(schema.get(keyword)).items():
            yield from subschemas(inner, f"{path}.{keyword}.{name}")
    for keyword in SINGLE:
        yield from subschemas(schema.get(keyword), f"{path}.{keyword}")
    for keyword in LISTED:
        for index, inner in enumerate(items(schema.get(keyword))):
            yield from subschemas(inner, f"{path}.{keyword}[{index}]")


def describes_object(schema: dict[str, Any]) -> bool:
    """Return whether a schema describes objects."""
    kind = schema.get("type")
    return kind == "object" or "object" in items(kind) or isinstance(schema.get("properties"), dict)


def open_objects(schema: object, path: str) -> Iterator[str]:
    """Yield a reason for every object that does not forbid further properties."""
    for place, found in subschemas(schema, path):
        if describes_object(found) and found.get("additionalProperties") is not False:
            yield f"{place}: additionalProperties is not false"


def optional_properties(schema: object, path: str) -> Iterator[str]:
    """Yield a reason for every object whose required list is not exactly the list of its properties."""
    for place, found in subschemas(schema, path):
        if not describes_object(found):
            continue
        names = set(mapping(found.get("properties")))
        required = {name for name in items(found.get("required")) if isinstance(name, str)}
        for name in sorted(names - required):
            yield f"{place}.required: lacks {name!r}"
        for name in sorted(required - names):
            yield f"{place}.required: {name!r} is not a property"


def limits(schema: object, path: str) -> Iterator[str]:
    """Yield a reason for every limit of numbers, lengths and counts.

    Anthropic's page allows `minItems` of 0 and 1.
    """
    for place, found in subschemas(schema, path):
        for keyword in LIMITS:
            if keyword in found and not (keyword == "minItems" and found[keyword] in (0, 1)):
                yield f"{place}.{keyword}: not supported"


def unsupported(schema: object, path: str, keywords: tuple[str, ...]) -> Iterator[str]:
    """Yield a reason for every use of the keywords, at any depth."""
    for place, found in subschemas(schema, path):
        for keyword in keywords:
            if keyword in found:
                yield f"{place}.{keyword}: not supported"


def top(schema: object, path: str, forbidden: tuple[str, ...]) -> Iterator[str]:
    """Yield the reasons why a schema is not a plain object schema at the top level."""
    found = mapping(schema)
    if found.get("type") != "object":
        yield f"{path}.type: is {found.get('type')!r}, not 'object'"
    for keyword in forbidden:
        if keyword in found:
            yield f"{path}.{keyword}: not supported at the top"


def references(schema: object, path: str) -> Iterator[str]:
    """Yield a reason for every reference that leaves the schema, has no target, or leads back to itself."""
    for place, found in subschemas(schema, path):
        target = found.get("$ref")
        if not isinstance(target, str):
            continue
        if resolve(schema, target) is None:
            yield f"{place}.$ref: {target!r} leads nowhere in this schema"
        elif _comes_back(schema, target):
            yield f"{place}.$ref: {target!r} is recursive"


def resolve(schema: object, target: str) -> object:
    """Return the part of the schema that a reference points at, or None."""
    if not target.startswith("#"):
        return None
    found: object = schema
    for step in target[1:].strip("/").split("/"):
        if step:
            found = mapping(found).get(step)
    return found


def _comes_back(schema: object, target: str) -> bool:
    seen: set[str] = set()
    waiting = [target]
    while waiting:
        for _, found in subschemas(resolve(schema, waiting.pop()), ""):
            inner = found.get("$ref")
            if inner == target:
                return True
            if isinstance(inner, str) and inner not in seen:
                seen.add(inner)
                waiting.append(inner)
    return False
