"""Make a small valid value for a JSON Schema, for tool arguments and structured output of the demo model.

The same schema and user text always give the same value. `pattern` is ignored, so such a string may not match it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from trilogue.model import Json

Schema = dict[str, Json]

MAX_DEPTH = 12
"""limit for schemas that contain themselves"""

_FORMATS = {
    "date": "2026-11-15",
    "date-time": "2026-11-15T12:00:00Z",
    "time": "12:00:00Z",
    "email": "demo@example.org",
    "hostname": "example.org",
    "ipv4": "192.0.2.1",
    "uri": "https://example.org/",
    "url": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}

_NAMES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("command", "cmd", "script"), "echo hello from the demo model"),
    (("path", "file", "filename"), "demo-note.txt"),
    (("dir", "directory", "folder", "cwd"), "."),
    (("url", "uri", "link"), "https://example.org/"),
    (("email",), "demo@example.org"),
    (("date", "day"), "2026-11-15"),
    (("language", "lang"), "en"),
    (("unit", "units"), "celsius"),
    (("pattern", "glob"), "*.md"),
)
"""values for strings by a word in their name, harmless if the tool really runs; other strings get the user's text"""

_PLACES = {"city": "Paris", "location": "Paris", "place": "Paris", "town": "Paris", "country": "France"}
"""names of strings that are places, with the value if the user's text names no place"""

_NAMED_PLACE = re.compile(r"\b(?:in|at|for|near|of|to|from)\s+((?:[A-Z][\w'-]*)(?:[\s,]+[A-Z][\w'-]*)*)")
"""a capitalized name after a preposition"""


class Sampler(Struct):
    """Makes values for one schema."""

    root: Schema
    """the whole schema, for references"""
    text: str
    """the user's words"""
    every: bool = False
    """whether to include properties that are not required"""

    def value(self, schema: Json, name: str = "", depth: int = 0) -> Json:
        """Return a value for a part of the schema, which is the property called `name`."""
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return None
        schema = self._resolve(schema)
        for fixed in ("const", "default"):
            if fixed in schema:
                return schema[fixed]
        if isinstance(choices := schema.get("enum"), list) and choices:
            return next((choice for choice in choices if str(choice).lower() in self.text.lower()), choices[0])
        return _MAKERS.get(_kind(schema), Sampler._string)(self, schema, name, depth)

    def _resolve(self, schema: Schema) -> Schema:
        """Follow references, choose the first alternative that is not null, and merge `allOf`."""
        for _ in range(MAX_DEPTH):
            if isinstance(target := schema.get("$ref"), str):
                schema = {**self._target(target), **{key: value for key, value in schema.items() if key != "$ref"}}
            elif (other := _alternative(schema)) is not None:
                schema = {**{key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}, **other}
            elif isinstance(parts := schema.get("allOf"), list):
                schema = _merged({key: value for key, value in schema.items() if key != "allOf"}, parts)
            else:
                break
        return schema

    def _target(self, reference: str) -> Schema:
        """Return the part of the schema that a JSON pointer leads to, or {}."""
        found: Json = self.root
        for step in reference.removeprefix("#").strip("/").split("/"):
            if step:
                found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def _object(self, schema: Schema, _: str, depth: int) -> Json:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        if (self.every and depth < 3) or not (names or depth):
            # A tool without required fields gets its first one, so that the call shows some argument.
            names += [name for name in properties if name not in names][: None if self.every else 1]
        return {name: self.value(properties.get(name, {}), name, depth + 1) for name in names}

    def _array(self, schema: Schema, name: str, depth: int) -> Json:
        prefix = schema.get("prefixItems")
        if isinstance(prefix, list):
            return [self.value(item, name, depth + 1) for item in prefix]
        least = schema.get("minItems")
        count = least if isinstance(least, int) else 1
        if schema.get("maxItems") == 0 or depth >= MAX_DEPTH:
            count = 0
        return [self.value(schema.get("items", {}), name, depth + 1) for _ in range(min(count, 20))]

    def _string(self, schema: Schema, name: str, _: int) -> Json:
        text = _FORMATS.get(str(schema.get("format"))) or _by_name(name, self.text) or self.text or "demo"
        least, most = schema.get("minLength"), schema.get("maxLength")
        if isinstance(least, int) and len(text) < least:
            text = text.ljust(min(least, 10_000), ".")
        return text[:most] if isinstance(most, int) and most >= 0 else text[:200]

    def _integer(self, schema: Schema, _: str, __: int) -> Json:
        return int(_number(schema, 1))

    def _number(self, schema: Schema, _: str, __: int) -> Json:
        return _number(schema, 0.5)

    def _boolean(self, _: Schema, __: str, ___: int) -> Json:
        return True

    def _null(self, _: Schema, __: str, ___: int) -> Json:
        return None


_MAKERS: dict[str, Callable[[Sampler, Schema, str, int], Json]] = {
    "object": Sampler._object,
    "array": Sampler._array,
    "string": Sampler._string,
    "integer": Sampler._integer,
    "number": Sampler._number,
    "boolean": Sampler._boolean,
    "null": Sampler._null,
}


def _kind(schema: Schema) -> str:
    """Return the type of a schema, guessed from its keywords if it names none."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _alternative(schema: Schema) -> Schema | None:
    """Return the first alternative that is not null, or None if the schema has no alternatives."""
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list):
            found = [one for one in options if isinstance(one, dict)]
            return next((one for one in found if one.get("type") != "null"), found[0] if found else {})
    return None


def _merged(schema: Schema, parts: list[Json]) -> Schema:
    """Return the schema merged with the parts of `allOf`."""
    for part in parts:
        if isinstance(part, dict):
            properties = {**schema.get("properties", {}), **part.get("properties", {})}
            required = [*schema.get("required", []), *part.get("required", [])]
            schema = {**schema, **part, "properties": properties, "required": required}
    return schema


def _by_name(name: str, text: str) -> str | None:
    """Return a value for a string by the words of its name, or None."""
    parts = name.lower().replace("-", "_").split("_")
    place = next((_PLACES[part] for part in parts if part in _PLACES), None)
    if place is not None:
        named = _NAMED_PLACE.search(text)
        return place if named is None else named[1]
    return next((value for keys, value in _NAMES if any(key in parts for key in keys)), None)


def _number(schema: Schema, usual: float) -> float:
    """Return the usual number, moved into the range that the schema allows."""
    value = usual
    for key, move in (("minimum", 0), ("exclusiveMinimum", 1)):
        if isinstance(bound := schema.get(key), int | float) and value < bound + move:
            value = bound + move
    for key, move in (("maximum", 0), ("exclusiveMaximum", 1)):
        if isinstance(bound := schema.get(key), int | float) and value > bound - move:
            value = bound - move
    step = schema.get("multipleOf")
    if isinstance(step, int | float) and step > 0:
        value = step * -(-value // step)
    return value
