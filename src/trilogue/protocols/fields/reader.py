"""Which fields of a request body are read, and by whom.

A body has a handful of the forty fields that there could be, so it is asked once which are there, not forty times
whether one is. Readers run in the order of their table: of two mistakes in a body the same one is always reported.

Reading wire objects without losing anything.

A reader hands out the fields of one JSON object by name and type and knows which ones nobody took: `rest()` is what
becomes the block's extras. Null and absent are the same. `Fields` is for requests, where a wrong type is the client's
mistake and an error; `LooseFields` for answers, where it is one more quirk and stays in the rest. `sort_fields` reads
whole objects, above all those of answers: nearly all of their fields are there, and a call for each costs more than
a look at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trilogue.errors import BadRequest
from trilogue.model import Extras, Json

Readers = Mapping[str, tuple[str, Callable[[Any, str], Any]]]
"""wire name of a field → its neutral name, and the method of `Fields` (or the like) that reads it"""


class Fields:
    """Strict: a field of the wrong type raises `BadRequest` with its path."""

    __slots__ = ("left", "path")

    left: dict[str, Json]
    """what nobody took yet"""

    def __init__(self, value: Json, path: str = "") -> None:
        if not isinstance(value, dict):
            raise BadRequest(f"{path or 'the body'} must be an object", path=path)
        self.left = value.copy()
        self.path = path

    def at(self, name: str) -> str:
        """The JSON path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def any(self, name: str) -> Json:
        """The value as it is."""
        return self.left.pop(name, None)

    def text(self, name: str) -> str | None:
        """A string."""
        value = self.left.pop(name, None)
        return value if value is None or type(value) is str else self._wrong(name, "a string", value)

    def flag(self, name: str) -> bool | None:
        """A boolean."""
        value = self.left.pop(name, None)
        return value if value is None or type(value) is bool else self._wrong(name, "a boolean", value)

    def integer(self, name: str) -> int | None:
        """An integer; 1.0 counts as one."""
        value = self.left.pop(name, None)
        if type(value) is float and value.is_integer():
            value = int(value)
        return value if value is None or type(value) is int else self._wrong(name, "an integer", value)

    def number(self, name: str) -> float | None:
        """A number; integers stay integers so that they are written back as they came."""
        value: float | None = self.left.pop(name, None)
        return value if value is None or type(value) in (int, float) else self._wrong(name, "a number", value)

    def items(self, name: str) -> list[Json] | None:
        """An array."""
        value = self.left.pop(name, None)
        return value if value is None or type(value) is list else self._wrong(name, "an array", value)

    def mapping(self, name: str) -> dict[str, Json] | None:
        """An object, as it is."""
        value = self.left.pop(name, None)
        return value if value is None or type(value) is dict else self._wrong(name, "an object", value)

    def fields(self, name: str) -> Fields | None:
        """An object, to be read field by field."""
        value = self.mapping(name)
        return None if value is None else type(self)(value, self.at(name))

    def required(self, name: str) -> str:
        """A string that must be there."""
        value = self.text(name)
        return self._absent(name) if value is None else value

    def filled(self, name: str) -> str:
        """A string that must be there and not be empty."""
        return self.text(name) or self._absent(name)

    def given(self, readers: Readers) -> dict[str, Any]:
        """The fields of a table that are there, read in its order, by their neutral names."""
        left = self.left
        return {name: read(self, wire) for wire, (name, read) in readers.items() if wire in left}

    def put_back(self, name: str, value: Json) -> None:
        """Return a field, or what was not understood of it, to the rest."""
        self.left[name] = value

    def keep(self, name: str, nested: Fields | None) -> None:
        """Leave what nobody took of a nested object in the rest, by dotted names."""
        if nested is not None:
            for field, value in nested.left.items():
                self.left[f"{name}.{field}"] = value

    def keep_each(self, name: str, nested: Iterable[Fields]) -> None:
        """The same for the objects of an array."""
        for index, each in enumerate(nested):
            self.keep(f"{name}[{index}]", each)

    def rest(self) -> Extras:
        """What nobody took; None if that is nothing."""
        if not self.left:
            return None
        return {name: value for name, value in self.left.items() if value is not None} or None

    def missing(self, name: str) -> BadRequest:
        """The error for a required field that is missing."""
        return BadRequest(f"{self.at(name)} is required", path=self.at(name))

    def _absent(self, name: str) -> str:
        raise self.missing(name)

    def _wrong(self, name: str, expected: str, value: Json) -> Any:
        raise BadRequest(f"{self.at(name)} must be {expected}", path=self.at(name))


class LooseFields(Fields):
    """Tolerant: a field of the wrong type reads as absent and stays in the rest."""

    __slots__ = ()

    def __init__(self, value: Json, path: str = "") -> None:
        self.left = value.copy() if isinstance(value, dict) else {}
        self.path = path

    def _absent(self, name: str) -> str:
        return ""

    def _wrong(self, name: str, expected: str, value: Json) -> Any:
        self.left[name] = value
        return None


class NonNegative(int):
    """The kind of a field that is a number of things; fewer than none are none."""


class Kept:
    """The kind of a field that is read as it is and yet stays in the rest."""


Kinds = Mapping[str, type | Mapping[str, Any]]
"""names of fields, in the order in which the odd ones stay in the rest, and what they must be: a type, `object` for
anything, or a table of what they may say and what that means"""


def sort_fields(value: Json, kinds: Kinds) -> tuple[dict[str, Json], dict[str, Json]]:
    """The fields of these kinds, None where there is none; and the rest, which has those that are odd at its end."""
    known: dict[str, Json] = dict.fromkeys(kinds)
    rest: dict[str, Json] = {}
    odd = False
    if type(value) is not dict and not isinstance(value, dict):
        return known, rest
    for name, item in value.items():
        if item is None:
            continue
        if name not in kinds:
            rest[name] = item
            continue
        kind = kinds[name]
        if type(item) is kind or kind is object:
            known[name] = item
        elif kind is NonNegative and type(item) is int:
            known[name] = item if item > 0 else 0
        else:
            known[name] = _converted(item, kind)
            odd = odd or known[name] is None or kind is Kept
    if odd:
        left = {name: value.get(name) for name in kinds if known[name] is None or kinds[name] is Kept}
        rest |= {name: item for name, item in left.items() if item is not None}
    return known, rest


def _converted(item: Json, kind: type | Mapping[str, Any]) -> Json:
    """The item as one of a kind that it is not by type; None if it is no such thing."""
    if kind is Kept:
        return item
    if kind is float:
        return item if type(item) is int else None
    if isinstance(kind, Mapping):
        return kind.get(item) if type(item) is str else None
    if kind in (int, NonNegative) and type(item) is float and item.is_integer():
        return int(item) if kind is int or item > 0 else 0
    return None


Row = tuple[Callable[..., Any], tuple[str, ...]]
"""a reader, which takes the fields and whatever else `Settings.read` is given, and the fields that it looks at"""


def field(read: Callable[[Any, str], Any], name: str) -> Row:
    """The row of a setting that is one field: `read` is a method of `Fields`."""
    return (lambda fields, *_: read(fields, name)), (name,)


class FieldTable:
    """A table of neutral settings: who reads each, from which fields. Some readers give several at once."""

    def __init__(self, rows: dict[str | tuple[str, ...], Row]) -> None:
        self._readers = tuple((names, reader) for names, (reader, _) in rows.items())
        self._names_of = {wire: names for names, (_, wires) in rows.items() for wire in wires}

    def read(self, fields: Fields, *context: Any) -> dict[str, Any]:
        """The settings that have a field in the body."""
        if not fields.left:
            return {}
        names_of = self._names_of
        found = {names_of[wire] for wire in fields.left if wire in names_of}
        settings: dict[str, Any] = {}
        for names, read in self._readers:
            if names not in found:
                continue
            if type(names) is str:
                settings[names] = read(fields, *context)
            else:
                settings.update(zip(names, read(fields, *context), strict=True))
        return settings
