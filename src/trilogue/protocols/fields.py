"""The fields of wire objects: each is read once, unknown ones are kept, and their fate in another protocol is decided.

A reader returns the fields of one JSON object by name and type, and knows which ones were not read: `rest()` becomes
the extras of a block. Null and absent are the same.

`Fields` is for requests: a wrong type is the client's mistake and raises. `LooseFields` is for responses: a wrong type
is one more quirk and stays in the rest. `sort_fields` reads whole objects at once; it is for responses, which have
nearly all of their fields, so that one call per field would cost more. `FieldTable` is for request bodies, which have a
handful of forty possible fields; it looks up the ones that are present. Its readers run in table order, so that of two
mistakes in a body always the same one is reported.

Extras are fields that only their own protocol has. For the same protocol, `restore_extras` and `add_extras` write them
back into wire objects. For another protocol, a `FieldPolicy` says what happens to each: dropped, declared as a loss, or
refused. Nothing here knows which fields a protocol has; each protocol package has its own tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct

from trilogue.errors import BadRequest
from trilogue.model import MOST_TOKENS, Extras, Json

Readers = Mapping[str, tuple[str, Callable[[Any, str], Any]]]
"""wire name of a field → its neutral name, and the function that reads it, such as a method of `Fields`"""


class Fields:
    """A strict reader: a field of the wrong type raises `BadRequest` with its path."""

    __slots__ = ("left", "path")

    left: dict[str, Json]
    """the fields that have not been read yet"""

    def __init__(self, value: Json, path: str = "") -> None:
        if not isinstance(value, dict):
            raise BadRequest(f"{path or 'the body'} must be an object", path=path)
        # Fields are removed as they are read, and the caller's document must not change.
        self.left = value.copy()
        self.path = path

    def at(self, name: str) -> str:
        """Return the JSON path of a field of this object."""
        return f"{self.path}.{name}" if self.path else name

    def any(self, name: str) -> Json:
        """Return the unchanged value of a field, or None if it is absent."""
        return self.left.pop(name, None)

    def text(self, name: str) -> str | None:
        """Return a string field, or None if it is absent."""
        value = self.left.pop(name, None)
        return value if value is None or type(value) is str else self._wrong(name, "a string", value)

    def flag(self, name: str) -> bool | None:
        """Return a boolean field, or None if it is absent."""
        value = self.left.pop(name, None)
        # `type(...) is` and not `isinstance`: True is an int in Python. It is also faster.
        return value if value is None or type(value) is bool else self._wrong(name, "a boolean", value)

    def integer(self, name: str) -> int | None:
        """Return an integer field, or None if it is absent; 1.0 counts as an integer."""
        value = self.left.pop(name, None)
        # JSON does not distinguish 1 and 1.0, and some serialisers write the latter.
        if type(value) is float and value.is_integer():
            value = int(value)
        return value if value is None or type(value) is int else self._wrong(name, "an integer", value)

    def number(self, name: str) -> float | None:
        """Return a number field, or None if it is absent.

        Integers stay integers, so that they are written back unchanged.
        """
        value: float | None = self.left.pop(name, None)
        return value if value is None or type(value) in (int, float) else self._wrong(name, "a number", value)

    def items(self, name: str) -> list[Json] | None:
        """Return an array field, or None if it is absent."""
        value = self.left.pop(name, None)
        return value if value is None or type(value) is list else self._wrong(name, "an array", value)

    def mapping(self, name: str) -> dict[str, Json] | None:
        """Return an object field as a dict, or None if it is absent."""
        value = self.left.pop(name, None)
        return value if value is None or type(value) is dict else self._wrong(name, "an object", value)

    def fields(self, name: str) -> Fields | None:
        """Return a reader for an object field, or None if it is absent."""
        value = self.mapping(name)
        return None if value is None else type(self)(value, self.at(name))

    def required(self, name: str) -> str:
        """Return a string field that must be present. Raises `BadRequest` if it is missing."""
        value = self.text(name)
        return self._absent(name) if value is None else value

    def filled(self, name: str) -> str:
        """Return a string field that must be present and not empty. Raises `BadRequest` otherwise."""
        return self.text(name) or self._absent(name)

    def given(self, readers: Readers) -> dict[str, Any]:
        """Read the fields of a table that are present, in its order. Returns the values by their neutral names."""
        left = self.left
        # Test for presence first: a call for each of forty absent fields costs more.
        return {name: read(self, wire) for wire, (name, read) in readers.items() if wire in left}

    def put_back(self, name: str, value: Json) -> None:
        """Return a field, or the part of it that was not understood, to the rest."""
        self.left[name] = value

    def keep(self, name: str, nested: Fields | None) -> None:
        """Leave the unread fields of a nested object in the rest, by dotted names."""
        if nested is not None:
            for field, value in nested.left.items():
                self.left[f"{name}.{field}"] = value

    def keep_each(self, name: str, nested: Iterable[Fields]) -> None:
        """Leave the unread fields of each object of an array in the rest."""
        for index, each in enumerate(nested):
            self.keep(f"{name}[{index}]", each)

    def rest(self) -> Extras:
        """Return the fields that were not read and are not null, or None if there are none."""
        if not self.left:
            return None
        return {name: value for name, value in self.left.items() if value is not None} or None

    def missing(self, name: str) -> BadRequest:
        """Return the error for a required field that is missing."""
        return BadRequest(f"{self.at(name)} is required", path=self.at(name))

    def _absent(self, name: str) -> str:
        raise self.missing(name)

    def _wrong(self, name: str, expected: str, value: Json) -> Any:
        raise BadRequest(f"{self.at(name)} must be {expected}", path=self.at(name))


class LooseFields(Fields):
    """A tolerant reader: a field of the wrong type reads as absent and stays in the rest."""

    __slots__ = ()

    def __init__(self, value: Json, path: str = "") -> None:
        self.left = value.copy() if isinstance(value, dict) else {}
        self.path = path

    def _absent(self, name: str) -> str:
        return ""

    def _wrong(self, name: str, expected: str, value: Json) -> Any:
        self.left[name] = value
        return None


class TokenFigure(int):
    """The kind of a field that is a count of tokens; see `token_count`."""


def token_count(value: Json) -> int | None:
    """Return a count of tokens; None for what is none: fractions, texts, negative numbers and absurdly large ones."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


class Kept:
    """The kind of a field that is returned unchanged and stays in the rest as well."""


Kinds = Mapping[str, type | Mapping[str, Any]]
"""the names of fields, in the order in which unexpected ones stay in the rest, and what they must be: a type, `object`
for anything, or a table of accepted strings and their meanings"""


def sort_fields(value: Json, kinds: Kinds) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the fields of these kinds, None for absent ones, and the rest, with unexpected values at its end."""
    known: dict[str, Json] = dict.fromkeys(kinds)
    rest: dict[str, Json] = {}
    unexpected = False
    if type(value) is not dict and not isinstance(value, dict):
        return known, rest
    for name, item in value.items():
        if item is None:
            continue
        # Unknown fields come first in the rest; unexpected values of known fields are added at its end.
        if name not in kinds:
            rest[name] = item
            continue
        kind = kinds[name]
        if (
            type(item) is kind
            or kind is object
            or (kind is TokenFigure and type(item) is int and 0 <= item <= MOST_TOKENS)
        ):
            known[name] = item
        else:
            known[name] = _converted(item, kind)
            unexpected = unexpected or known[name] is None or kind is Kept
    if unexpected:
        left = {name: value.get(name) for name in kinds if known[name] is None or kinds[name] is Kept}
        rest |= {name: item for name, item in left.items() if item is not None}
    return known, rest


def _converted(item: Json, kind: type | Mapping[str, Any]) -> Json:
    """Return a value that does not have the type of its kind as one that does; None if it cannot be converted."""
    if kind is Kept:
        return item
    if kind is float:
        return item if type(item) is int else None
    if isinstance(kind, Mapping):
        return kind.get(item) if type(item) is str else None
    if kind is TokenFigure:
        return token_count(item)
    if kind is int and type(item) is float and item.is_integer():
        return int(item)
    return None


Row = tuple[Callable[..., Any], tuple[str, ...]]
"""a reader, which gets the fields and the context of `FieldTable.read`, and the names of the fields that it reads"""


def field(read: Callable[[Any, str], Any], name: str) -> Row:
    """Return the table row of a setting that is one field: `read` is a method of `Fields`."""
    return (lambda fields, *_: read(fields, name)), (name,)


class FieldTable:
    """A table of neutral settings and the readers for them. Some readers return several settings at once."""

    def __init__(self, rows: dict[str | tuple[str, ...], Row]) -> None:
        self._readers = tuple((names, reader) for names, (reader, _) in rows.items())
        self._names_of = {wire: names for names, (_, wires) in rows.items() for wire in wires}

    def read(self, fields: Fields, *context: Any) -> dict[str, Any]:
        """Return the settings whose fields are present in the body, by their neutral names."""
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


class FieldPolicy(Struct, frozen=True):
    """What happens to a field in another protocol: declared under `loss`, or refused with the reason `refuse`.

    `harmless` values are neither. `place`: the path of the field in the source document, if that is not its own name in
    the object whose extra it is; `..` is the parent of that object.
    """

    loss: str = "param.dropped"
    refuse: str | None = None
    harmless: tuple[Json, ...] = ()
    unanswered: str = ""
    """why an item is refused if nothing has come after it yet: it has what only the user can give"""
    place: str = ""

    def where(self, path: str, name: str) -> str:
        """Return the JSON path of an extra of the object at `path`."""
        place = self.place or name
        if place.startswith(".."):
            return path.rpartition(".")[0] + place[2:].replace("/", ".")
        return f"{path}.{place}" if path else place


DROP = FieldPolicy()
"""the policy for fields that are dropped and declared as param.dropped"""
SILENT = FieldPolicy(loss="")
"""the policy for fields that do not affect the response (transport or telemetry of the client): not a loss"""
FieldPolicies = Mapping[str, FieldPolicy]


def refuse(reason: str, *harmless: Json) -> FieldPolicy:
    """Return the policy for a field that the client relies on and no target has: an error, except for some values.

    `harmless`: values that change nothing, such as the field's default.
    """
    return FieldPolicy(refuse=reason, harmless=harmless)


def restore_extras(wire: dict[str, Json], extras: dict[str, Json], nested: Collection[str] = ()) -> None:
    """Write the extras of a request back. They replace what was written: an extra is the more exact form.

    A dotted name goes into the object that it was read from. `nested`: objects that are created if they are missing.
    """
    for name, value in extras.items():
        # Clients may use dots in their own field names, so a dotted name need not be a path.
        owner, dot, field = name.rpartition(".")
        place = _find(wire, owner, owner in nested) if dot else None
        if place is None:
            wire[name] = value
        else:
            place[field] = value


def _find(wire: dict[str, Json], owner: str, make: bool) -> dict[str, Json] | None:
    """Return the object at a dotted path; None if the name has dots but is not a path."""
    place = wire
    for step in owner.split("."):
        inner = place.setdefault(step, {}) if make else place.get(step)
        if not isinstance(inner, dict):
            return None
        place = inner
    return place


def add_extras(wire: dict[str, Json], extras: dict[str, Json]) -> None:
    """Add the extras of a response to what was written, which wins: an extra may be a field of the wrong type."""
    for name, value in extras.items():
        known = wire.get(name)
        if name not in wire:
            wire[name] = value
        # Both have the object, for example usage details: the fields that only the upstream has are kept.
        elif isinstance(known, dict) and isinstance(value, dict):
            wire[name] = {**value, **known}
