"""JSON Schema for tool arguments: the keywords that tool schemas use, and no others.

A schema with any other keyword is refused when the settings are read, so a rule never checks less than it says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from trilogue.model import Json
from trilogue.policies.patterns import Searcher
from trilogue.policies.shipped.action import SettingsProblem, compiled

Check = Callable[[Json, Json, "ArgumentSchema"], bool]

_NOTES = frozenset({"$schema", "$id", "$comment", "title", "description", "default", "examples", "format", "$defs"})
"""keywords that allow everything"""
_DEEPEST = 64


class ArgumentSchema:
    """A schema that was checked when it was made. `allows` never raises."""

    def __init__(self, root: Json, setting: str) -> None:
        self._root = root
        self._patterns: dict[str, Searcher] = {}
        self._depth = 0
        self._check_schema(root, setting)

    def allows(self, value: Json) -> bool:
        """Return whether a value fits the schema."""
        self._depth = 0
        return self.fits(self._root, value)

    def fits(self, schema: Json, value: Json) -> bool:
        """Return whether a value fits a part of the schema. Values that are nested too deeply never do."""
        if isinstance(schema, bool):
            return schema
        if self._depth >= _DEEPEST:
            return False
        self._depth += 1
        try:
            fits = all([_CHECKS[key](wanted, value, self) for key, wanted in schema.items() if key in _CHECKS])
            return fits and self._fits_others(schema, value)
        finally:
            self._depth -= 1

    def _fits_others(self, schema: dict[str, Json], value: Json) -> bool:
        """Return whether the properties that a schema does not name fit `additionalProperties`."""
        others = schema.get("additionalProperties", True)
        if others is True or not isinstance(value, dict):
            return True
        named = schema.get("properties", {})
        return all([self.fits(others, item) for name, item in value.items() if name not in named])

    def fits_pattern(self, pattern: str, text: str) -> bool:
        """Return whether a pattern of the schema is found in a text."""
        return self._patterns[pattern].search(text) is not None

    def resolve(self, reference: str) -> Json:
        """Return the part of the schema that `#/$defs/…` refers to."""
        return self._root["$defs"][reference.removeprefix("#/$defs/")]

    def _check_schema(self, schema: Json, setting: str) -> None:
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            raise SettingsProblem(f"{setting}: a schema must be an object")
        for key, value in schema.items():
            if key not in _KEYWORDS:
                raise SettingsProblem(f"{setting}: the keyword {key} is not supported")
            self._check_keyword(key, value, f"{setting}.{key}")

    def _check_keyword(self, key: str, value: Json, setting: str) -> None:
        expected = _TYPES.get(key)
        if expected and (not isinstance(value, expected) or isinstance(value, bool)):
            raise SettingsProblem(f"{setting}: has the wrong type")
        if key in ("items", "additionalProperties", "not"):
            self._check_schema(value, setting)
        elif key in ("properties", "$defs"):
            for name, inner in value.items():
                self._check_schema(inner, f"{setting}.{name}")
        elif key in ("anyOf", "oneOf", "allOf"):
            for number, inner in enumerate(value):
                self._check_schema(inner, f"{setting}[{number}]")
        elif key == "pattern":
            self._patterns[value] = re.compile(value) if value in ("", ".*") else compiled(value, setting)
        elif key == "$ref" and value.removeprefix("#/$defs/") not in self._root.get("$defs", {}):
            raise SettingsProblem(f"{setting}: only references to #/$defs of the same schema are supported")


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": _is_number,
    "integer": lambda value: _is_number(value) and float(value).is_integer(),
}


def _type(wanted: Json, value: Json, _: ArgumentSchema) -> bool:
    kinds = wanted if isinstance(wanted, list) else [wanted]
    return any([kind in _KINDS and _KINDS[kind](value) for kind in kinds])


def _same(wanted: Json, value: Json) -> bool:
    # In Python True equals 1; in JSON they differ.
    return bool(wanted == value) and isinstance(wanted, bool) is isinstance(value, bool)


def _properties(wanted: Json, value: Json, schema: ArgumentSchema) -> bool:
    return not isinstance(value, dict) or all(
        [schema.fits(inner, value[name]) for name, inner in wanted.items() if name in value]
    )


def _required(wanted: Json, value: Json, _: ArgumentSchema) -> bool:
    return not isinstance(value, dict) or all([name in value for name in wanted])


def _items(wanted: Json, value: Json, schema: ArgumentSchema) -> bool:
    return not isinstance(value, list) or all([schema.fits(wanted, item) for item in value])


def _pattern(wanted: Json, value: Json, schema: ArgumentSchema) -> bool:
    return not isinstance(value, str) or schema.fits_pattern(wanted, value)


def _limit(kind: type | tuple[type, ...], compare: Callable[[Any, Any], bool]) -> Check:
    """Return the check of a limit on the length of a kind of value, or on a number itself."""

    def check(wanted: Json, value: Json, _: ArgumentSchema) -> bool:
        if isinstance(value, bool) or not isinstance(value, kind):
            return True
        measured: Json = value
        return compare(measured if _is_number(measured) else len(measured), wanted)

    return check


_NUMBERS = (int, float)
_CHECKS: dict[str, Check] = {
    "type": _type,
    "enum": lambda wanted, value, _: any([_same(item, value) for item in wanted]),
    "const": lambda wanted, value, _: _same(wanted, value),
    "properties": _properties,
    "required": _required,
    "items": _items,
    "pattern": _pattern,
    "minLength": _limit(str, lambda length, wanted: length >= wanted),
    "maxLength": _limit(str, lambda length, wanted: length <= wanted),
    "minItems": _limit(list, lambda length, wanted: length >= wanted),
    "maxItems": _limit(list, lambda length, wanted: length <= wanted),
    "minimum": _limit(_NUMBERS, lambda number, wanted: number >= wanted),
    "maximum": _limit(_NUMBERS, lambda number, wanted: number <= wanted),
    "exclusiveMinimum": _limit(_NUMBERS, lambda number, wanted: number > wanted),
    "exclusiveMaximum": _limit(_NUMBERS, lambda number, wanted: number < wanted),
    "anyOf": lambda wanted, value, schema: any([schema.fits(inner, value) for inner in wanted]),
    "allOf": lambda wanted, value, schema: all([schema.fits(inner, value) for inner in wanted]),
    "oneOf": lambda wanted, value, schema: sum([schema.fits(inner, value) for inner in wanted]) == 1,
    "not": lambda wanted, value, schema: not schema.fits(wanted, value),
    "$ref": lambda wanted, value, schema: schema.fits(schema.resolve(wanted), value),
}
_KEYWORDS = _CHECKS.keys() | {"additionalProperties"} | _NOTES
_TYPES: dict[str, type | tuple[type, ...]] = {
    "type": (str, list),
    "enum": list,
    "properties": dict,
    "$defs": dict,
    "required": list,
    "pattern": str,
    "anyOf": list,
    "oneOf": list,
    "allOf": list,
    "$ref": str,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), int),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (int, float)),
}
