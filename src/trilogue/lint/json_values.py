"""Reading parsed JSON that may be anything: the value if it has the type, something empty of that type if not."""

from __future__ import annotations

from typing import TypeGuard

from trilogue.errors import UpstreamProtocolError
from trilogue.jsontext.text import parse
from trilogue.model import Json


def obj(value: Json) -> dict[str, Json]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def arr(value: Json) -> list[Json]:
    """The array, or an empty one."""
    return value if isinstance(value, list) else []


def text(value: Json) -> str:
    """The string, or an empty one."""
    return value if isinstance(value, str) else ""


def is_int(value: Json) -> TypeGuard[int]:
    """An integer; true and false are none."""
    return type(value) is int


def is_number(value: Json) -> TypeGuard[float]:
    """An integer or a float."""
    return type(value) in (int, float)


def is_count(value: Json) -> TypeGuard[int]:
    """A non-negative integer."""
    return type(value) is int and value >= 0


def count(value: Json) -> int:
    """The non-negative integer, or 0."""
    return value if is_count(value) else 0


def index(value: Json) -> int:
    """The integer as an index, or -1, which no list has."""
    return value if is_int(value) else -1


def one_of(value: Json, names: frozenset[str]) -> TypeGuard[str]:
    """A string of the set. Other types, also unhashable ones, are not."""
    return isinstance(value, str) and value in names


def objects(value: Json) -> list[dict[str, Json]]:
    """The objects of an array."""
    return [entry for entry in arr(value) if isinstance(entry, dict)]


def is_json(value: bytes | str) -> bool:
    """A JSON text."""
    try:
        parse(value, UpstreamProtocolError)
    except UpstreamProtocolError:
        return False
    return True
