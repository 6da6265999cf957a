"""Read parsed JSON of unknown shape: return the value if it has the wanted type, and an empty one if not."""

from __future__ import annotations

from typing import TypeGuard

from trilogue.base.json_text import parse
from trilogue.errors import UpstreamProtocolError
from trilogue.model import Json


def obj(value: Json) -> dict[str, Json]:
    """Return the object, or an empty one."""
    return value if isinstance(value, dict) else {}


def arr(value: Json) -> list[Json]:
    """Return the array, or an empty one."""
    return value if isinstance(value, list) else []


def text(value: Json) -> str:
    """Return the string, or an empty one."""
    return value if isinstance(value, str) else ""


def is_int(value: Json) -> TypeGuard[int]:
    """Return whether this is an integer. Booleans are not, unlike in Python."""
    return type(value) is int


def is_number(value: Json) -> TypeGuard[float]:
    """Return whether this is an integer or a float."""
    return type(value) in (int, float)


def is_count(value: Json) -> TypeGuard[int]:
    """Return whether this is a non-negative integer."""
    return type(value) is int and value >= 0


def count(value: Json) -> int:
    """Return the non-negative integer, or 0."""
    return value if is_count(value) else 0


def index(value: Json) -> int:
    """Return the integer as an index, or -1, which no list has."""
    return value if is_int(value) else -1


def one_of(value: Json, names: frozenset[str]) -> TypeGuard[str]:
    """Return whether this is a string of the set. Values of other types may not even be hashable."""
    return isinstance(value, str) and value in names


def objects(value: Json) -> list[dict[str, Json]]:
    """Return the objects of an array, without its other entries."""
    return [entry for entry in arr(value) if isinstance(entry, dict)]


def is_json(value: bytes | str) -> bool:
    """Return whether the text parses as JSON."""
    try:
        parse(value, UpstreamProtocolError)
    except UpstreamProtocolError:
        return False
    return True
