"""Check a JSON value against the parameter types of the official SDKs.

The SDKs describe request bodies as TypedDicts. They are stricter than the APIs in a few places, which `OPTIONAL` and
`ACCEPTED` list. Everything else that a type does not have counts as unknown.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

Kind = Literal["unknown", "missing", "type", "value"]

OPTIONAL = frozenset(
    {
        # Codex sends assistant messages and reasoning without ids, and texts without annotations.
        ("ResponseOutputMessageParam", "id"),
        ("ResponseOutputMessageParam", "status"),
        ("ResponseOutputMessageParam", "type"),
        ("ResponseOutputTextParam", "annotations"),
        ("ResponseReasoningItemParam", "id"),
        # The documentation says that a missing `strict` is tried and that a missing `detail` is auto.
        ("FunctionToolParam", "strict"),
        ("FunctionToolParam", "parameters"),
        ("ResponseInputImageParam", "detail"),
    }
)
"""fields that the SDK requires and the API does not"""

ACCEPTED = frozenset(
    {
        # The page on function calling appends the message of the response unchanged, with its annotations.
        ("ChatCompletionAssistantMessageParam", "annotations"),
        # The list of a response's input items gives every message an id and a status.
        ("Message", "id"),
        ("EasyInputMessageParam", "id"),
        ("EasyInputMessageParam", "status"),
    }
)
"""fields that the SDK does not know and the API accepts"""


@dataclass(frozen=True)
class Problem:
    """One place where a value does not have the form of its type."""

    kind: Kind
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


Checker = Callable[[object, str], list[Problem]]


@dataclass(frozen=True)
class Shape:
    """The fields of a TypedDict and which of them are required."""

    name: str
    fields: dict[str, Any]
    required: frozenset[str]

    def tags(self) -> dict[str, tuple[Any, ...]]:
        """Return the values of the fields that distinguish the members of a union."""
        found = {name: literals(self.fields[name]) for name in ("type", "role") if name in self.fields}
        return {name: values for name, values in found.items() if values}

    def fits(self, value: dict[str, Any]) -> bool:
        """Return whether an object has the tags of this type."""
        for name, values in self.tags().items():
            if name not in value and name in self.required:
                return False
            if name in value and value[name] not in values:
                return False
        return True


@cache
def shape(kind: Any) -> Shape:
    """Return the fields of a TypedDict."""
    hints = get_type_hints(kind, include_extras=True)
    name = kind.__name__
    # If annotations are strings, `__required_keys__` lacks the fields that only `Required[...]` marks.
    required = {field for field, hint in hints.items() if _is_required(hint)} | set(kind.__required_keys__)
    needed = frozenset(field for field in required if (name, field) not in OPTIONAL)
    return Shape(name, {field: plain(hint) for field, hint in hints.items()}, needed)


def _is_required(hint: Any) -> bool:
    origin: object = get_origin(hint)
    return origin is Required


def plain(hint: Any) -> Any:
    """Return a type hint without what it says about the field instead of its value."""
    while get_origin(hint) in (Required, NotRequired, Annotated):
        hint = get_args(hint)[0]
    return hint


def literals(hint: Any) -> tuple[Any, ...]:
    """Return the values that a hint lists, or nothing if it also allows others."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    if is_union(hint):
        members = [(None,) if member is type(None) else literals(plain(member)) for member in get_args(hint)]
        return tuple(value for member in members for value in member) if all(members) else ()
    return ()


def is_union(hint: Any) -> bool:
    """Return whether a hint is a union."""
    return get_origin(hint) in (Union, types.UnionType)


def problems(value: object, hint: Any, path: str = "") -> list[Problem]:
    """Return the places where a value does not have the shape of a type."""
    return checker(plain(hint))(value, path)


@cache
def checker(hint: Any) -> Checker:
    """Return the function that checks values of a type."""
    origin = get_origin(hint)
    if is_typeddict(hint):
        return lambda value, path: _object(shape(hint), value, path)
    if is_union(hint):
        members = tuple(plain(member) for member in get_args(hint))
        return lambda value, path: _union(members, value, path)
    if origin is Literal:
        return lambda value, path: _literal(get_args(hint), value, path)
    if origin is dict:
        return lambda value, path: _map(get_args(hint)[1], value, path)
    if origin in SEQUENCES or getattr(origin, "__name__", "") == "SequenceNotStr":
        return lambda value, path: _array(get_args(hint)[0], value, path)
    return lambda value, path: _scalar(hint, value, path)


SEQUENCES = (list, Iterable, Sequence)
SCALARS: dict[Any, tuple[type, ...]] = {str: (str,), int: (int,), float: (int, float), bool: (bool,)}
NAMES = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "an array", dict: "an object"}


def name_of(value: object) -> str:
    """Return the name of the JSON type of a value."""
    return "null" if value is None else NAMES.get(type(value), type(value).__name__)


def _scalar(hint: Any, value: object, path: str) -> list[Problem]:
    if hint is type(None):
        return [] if value is None else [Problem("type", path, f"is {name_of(value)}, not null")]
    allowed = SCALARS.get(hint)
    if allowed is None:  # object, Any, and the file types that the SDK turns into strings
        return []
    if isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool)):
        return []
    return [Problem("type", path, f"is {name_of(value)}, not {NAMES[hint]}")]


def _literal(values: tuple[Any, ...], value: object, path: str) -> list[Problem]:
    if any(value == known and type(value) is type(known) for known in values):
        return []
    kind: Kind = "value" if any(type(value) is type(known) for known in values) else "type"
    return [Problem(kind, path, f"is {value!r}, not one of {', '.join(map(repr, values))}")]


def _array(member: Any, value: object, path: str) -> list[Problem]:
    if not isinstance(value, list):
        return [Problem("type", path, f"is {name_of(value)}, not an array")]
    check = checker(plain(member))
    return [problem for index, item in enumerate(value) for problem in check(item, f"{path}[{index}]")]


def _map(member: Any, value: object, path: str) -> list[Problem]:
    if not isinstance(value, dict):
        return [Problem("type", path, f"is {name_of(value)}, not an object")]
    check = checker(plain(member))
    return [problem for name, item in value.items() for problem in check(item, join(path, name))]


def _object(expected: Shape, value: object, path: str) -> list[Problem]:
    if not isinstance(value, dict):
        return [Problem("type", path, f"is {name_of(value)}, not an object")]
    for tag, known in expected.tags().items():
        if tag in value and value[tag] not in known:  # another kind of object, so its other fields say nothing
            return _literal(known, value[tag], join(path, tag))
    found = [
        Problem("missing", join(path, name), "is missing") for name in sorted(expected.required) if name not in value
    ]
    for name, item in value.items():
        if name in expected.fields:
            found += checker(expected.fields[name])(item, join(path, name))
        elif (expected.name, name) not in ACCEPTED:
            found.append(Problem("unknown", join(path, name), "unknown field"))
    return found


def _union(members: tuple[Any, ...], value: object, path: str) -> list[Problem]:
    if isinstance(value, dict):
        return _tagged(members, value, path)
    tried = [checker(member)(value, path) for member in members if not is_typeddict(member)]
    if not tried:
        return [Problem("type", path, f"is {name_of(value)}, not an object")]
    # A member of the same JSON type as the value gives a better message.
    return min(tried, key=lambda found: (any(each.kind == "type" and each.path == path for each in found), len(found)))


def _tagged(members: tuple[Any, ...], value: dict[str, Any], path: str) -> list[Problem]:
    maps = [member for member in members if get_origin(member) is dict or member in (object, Any)]
    if maps:
        return min((checker(member)(value, path) for member in maps), key=len)
    shapes = [shape(member) for member in members if is_typeddict(member)]
    if not shapes:
        return [Problem("type", path, "is an object")]
    fitting = [each for each in shapes if each.fits(value)]
    if not fitting:
        tag = "type" if any("type" in each.tags() for each in shapes) and not _only_role(shapes) else "role"
        return [Problem("value", join(path, tag), f"is {value.get(tag)!r}, which is not known here")]
    return min((_object(each, value, path) for each in fitting), key=len)


def _only_role(shapes: list[Shape]) -> bool:
    return all("role" in each.tags() and "type" not in each.tags() for each in shapes)


def join(path: str, name: str) -> str:
    """Return the path of a field."""
    return f"{path}.{name}" if path else name
