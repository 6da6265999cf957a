"""Convert plain data to the types of the configuration, guided by the types, and collect all problems.

An invalid value is reported and replaced by its default or a placeholder, so that later checks can still run. Problems
never show a value, because it may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeGuard

from msgspec import NODEFAULT, inspect

from trilogue.base.problems import join, quote_key, suggest
from trilogue.base.secrets import Secret
from trilogue.config.config import settings_named, short_form
from trilogue.config.references import resolve
from trilogue.model import Protocol
from trilogue.routing.routes import RouteTarget
from trilogue.upstreams.sources import BadReference, ClientSource, CommandSource, MissingSecret

_ACCOUNT_KEY = re.compile(r"providers\..+\.accounts\[\d+\](\.key)?")

INVALID = object()
"""returned in place of a value that could not be read"""

REQUIRED = "is required"
MOST_SUGGESTED = 3
"""settings that are named to somebody who has written one in the wrong place"""


class Reader:
    """A reader for one document, which collects what is wrong with it."""

    def __init__(self, environ: Mapping[str, str], folder: Path, *, secrets: bool = True) -> None:
        self.problems: list[tuple[str, str]] = []
        """pairs of path and text"""
        self.failed: set[str] = set()
        """paths whose value is a default or a placeholder because it could not be read"""
        self.locations: dict[tuple[str, str], str] = {}
        """path whose line to show for a problem, if that is not the path of the problem"""
        self.optional: set[str] = set()
        """paths of accounts, below which a secret may be missing"""
        self.hints: dict[str, str] = {}
        """what to add to the problem if the secret at a path is missing"""
        self._environ = environ
        self._folder = folder
        self._secrets = secrets
        """whether a secret that cannot be found is a problem"""

    def read(self, kind: inspect.Type, value: Any, path: str) -> Any:
        """Return the value as this type, or note a problem and return INVALID."""
        return _READERS[type(kind)](self, kind, value, path)

    def fail(self, path: str, text: str) -> Any:
        """Note a problem and return INVALID."""
        self.problems.append((path, text))
        self.failed.add(path)
        return INVALID

    def secret(self, _: inspect.CustomType, value: Any, path: str) -> Any:
        """Return the secret that a reference leads to, or note a problem and return INVALID."""
        if not isinstance(value, str) or not value:
            return self.fail(path, "must be text: env:NAME, file:path, or the value itself in quotes")
        try:
            secret = resolve(value, self._environ, self._folder)
            if isinstance(secret.source, CommandSource | ClientSource) and not _ACCOUNT_KEY.fullmatch(path):
                raise BadReference(f"{value.partition(':')[0]} is possible for the keys of accounts only")
            return secret
        except MissingSecret as error:
            if path.startswith(tuple(self.optional)):
                return Secret("", missing=str(error))
            return self._not_found(path, str(error) + self.hints.get(path, ""))
        except BadReference as error:
            return self._not_found(path, str(error))

    def _not_found(self, path: str, text: str) -> Any:
        if self._secrets:
            return self.fail(path, text)
        self.failed.add(path)
        return Secret("")


def _read_struct(reader: Reader, kind: inspect.StructType, value: Any, path: str) -> Any:
    """Return the struct with the fields that could be read; the others have their defaults."""
    short = short_form(kind.cls)
    if short and isinstance(value, str):
        return _read_short(reader, kind, value, path)
    if not isinstance(value, dict):
        return reader.fail(path, "must be settings (key: value)" + (" or text" if short else ""))
    fields = {field.name: field for field in kind.fields}
    meant = _unknown_keys(reader, value, fields, path)
    given = {name: _read_field(reader, field, value, path, name in meant) for name, field in fields.items()}
    return kind.cls(**{name: item for name, item in given.items() if item is not INVALID})


def _read_short(reader: Reader, kind: inspect.StructType, value: str, path: str) -> Any:
    """Return the struct that a plain string is short for."""
    if kind.cls is RouteTarget:
        return RouteTarget.parse(value)
    name = short_form(kind.cls)
    field = next(field for field in kind.fields if field.name == name)
    item = reader.read(field.type, value, path)
    return kind.cls(**{name: _placeholder(field) if item is INVALID else item})


def _unknown_keys(reader: Reader, value: dict[Any, Any], known: Mapping[str, Any], path: str) -> set[str]:
    """Note a problem for every unknown key, and return the known keys that were probably meant."""
    meant = set()
    for key in value:
        if key not in known:
            elsewhere = settings_named(str(key))[:MOST_SUGGESTED]
            close = None if elsewhere else suggest(str(key), known)
            meant.add(close or "")
            likely = " or ".join(f'"{one}"' for one in elsewhere or (close,) if one)
            hint = f" (did you mean {likely}?)" if likely else ""
            problem = (path, f"unknown key {quote_key(key)}{hint}")
            reader.problems.append(problem)
            reader.locations[problem] = join(path, str(key))
    return meant


def _read_field(reader: Reader, field: inspect.Field, value: dict[Any, Any], path: str, misspelt: bool) -> Any:
    """Return the field's value, or INVALID if it is to have its default.

    A required field that was only misspelt is not reported as missing too: the unknown key already is.
    """
    inner = join(path, field.name)
    given = value.get(field.name)
    if given is None:
        if field.required and misspelt:
            reader.failed.add(inner)
        elif field.required:
            reader.fail(inner, REQUIRED)
        return _placeholder(field) if field.required else INVALID
    item = reader.read(field.type, given, inner)
    return _placeholder(field) if item is INVALID and field.required else item


def _placeholder(field: inspect.Field) -> Any:
    """Return some value of the right type for a required field that cannot be read."""
    kind = field.type
    if field.default is not NODEFAULT:
        return field.default
    if _is_enum(kind):
        return next(iter(kind.cls))
    return Secret("") if isinstance(kind, inspect.CustomType) else ""


def _read_union(reader: Reader, kind: inspect.UnionType, value: Any, path: str) -> Any:
    """Read the one member that is not None, where null means absent; or a flag that may be one of some words, too."""
    inner, *words = (member for member in kind.types if not isinstance(member, inspect.NoneType))
    if not words:
        return reader.read(inner, value, path)
    known = tuple(word for member in kind.types if isinstance(member, inspect.LiteralType) for word in member.values)
    return value if isinstance(value, bool) else _read_word(reader, known, value, path)


def _read_word(reader: Reader, known: tuple[Any, ...], value: Any, path: str) -> Any:
    return value if value in known else _not_one_of(reader, path, value, (*known, "true", "false"))


def _read_dict(reader: Reader, kind: inspect.DictType, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        return reader.fail(path, "must be settings (name: value)")
    out = {}
    for key, item in value.items():
        if not isinstance(key, str):
            reader.fail(path, f"the name {quote_key(key)} must be text; put it in quotes")
            continue
        inner = join(path, key)
        name = reader.read(kind.key_type, key, inner)
        if name is INVALID:
            continue
        read = reader.fail(inner, "is empty") if item is None else reader.read(kind.value_type, item, inner)
        out[name] = _placeholder_entry(kind.value_type) if read is INVALID else read
    return out


def _placeholder_entry(kind: inspect.Type) -> Any:
    """Return a placeholder for an entry that cannot be read, because later checks must still find its name."""
    if isinstance(kind, inspect.StructType):
        return kind.cls(**{field.name: _placeholder(field) for field in kind.fields if field.required})
    return Secret("") if isinstance(kind, inspect.CustomType) else ""


def _read_items(reader: Reader, kind: inspect.VarTupleType, value: Any, path: str) -> Any:
    if not isinstance(value, list):
        return reader.fail(path, "must be a list")
    read = [reader.read(kind.item_type, item, f"{path}[{index}]") for index, item in enumerate(value)]
    return tuple(_placeholder_entry(kind.item_type) if item is INVALID else item for item in read)


def _read_text(reader: Reader, _: inspect.StrType, value: Any, path: str) -> Any:
    return value if isinstance(value, str) else reader.fail(path, "must be text; put it in quotes")


def _read_flag(reader: Reader, _: inspect.BoolType, value: Any, path: str) -> Any:
    return value if isinstance(value, bool) else reader.fail(path, "must be true or false")


def _read_integer(reader: Reader, kind: inspect.IntType, value: Any, path: str) -> Any:
    if type(value) is int and _within(kind, value):
        return value
    return reader.fail(path, f"must be a whole number{_limits(kind)}")


def _read_number(reader: Reader, kind: inspect.FloatType, value: Any, path: str) -> Any:
    if type(value) in (int, float) and _within(kind, value):
        return float(value)
    return reader.fail(path, f"must be a number{_limits(kind)}")


def _within(kind: inspect.IntType | inspect.FloatType, value: float) -> bool:
    """Return whether a number is within its limits. The comparisons are such that NaN is outside of all limits."""
    above = (kind.ge is None or value >= kind.ge) and (kind.gt is None or value > kind.gt)
    return above and (kind.le is None or value <= kind.le)


def _limits(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.gt is not None:
        return f" above {kind.gt:g} and at most {kind.le}"
    if kind.ge is None:
        return ""
    return f", at least {kind.ge}" if kind.le is None else f" from {kind.ge} to {kind.le}"


def _read_literal(reader: Reader, kind: inspect.LiteralType, value: Any, path: str) -> Any:
    return value if value in kind.values else _not_one_of(reader, path, value, kind.values)


def _read_enum(reader: Reader, kind: inspect.EnumType, value: Any, path: str) -> Any:
    known: dict[str, Any] = {str(member.value): member for member in kind.cls}
    if kind.cls is Protocol:
        if isinstance(value, str) and value in Protocol.names():
            return Protocol.parse(value)
        known = {member.short: member for member in Protocol} | known
    if isinstance(value, str) and value in known:
        return known[value]
    return _not_one_of(reader, path, value, tuple(known))


def _is_enum(kind: inspect.Type) -> TypeGuard[inspect.EnumType]:
    # `Protocol`, which can have more members than it was defined with, is a custom type to msgspec.
    return isinstance(kind, inspect.EnumType | inspect.CustomType) and issubclass(kind.cls, Enum)


def _read_custom(reader: Reader, kind: inspect.CustomType, value: Any, path: str) -> Any:
    return _read_enum(reader, kind, value, path) if _is_enum(kind) else reader.secret(kind, value, path)


def _not_one_of(reader: Reader, path: str, value: Any, known: tuple[Any, ...]) -> Any:
    names = [str(name) for name in known]
    close = suggest(value, names) if isinstance(value, str) else None
    hint = f' (did you mean "{close}"?)' if close else ""
    return reader.fail(path, f"must be one of {', '.join(names)}{hint}")


def _read_metadata(reader: Reader, kind: inspect.Metadata, value: Any, path: str) -> Any:
    return reader.read(kind.type, value, path)


def _read_any(_: Reader, __: inspect.AnyType, value: Any, ___: str) -> Any:
    """Return a value that the reader knows nothing about."""
    return value


_READERS: dict[type[inspect.Type], Callable[[Reader, Any, Any, str], Any]] = {
    inspect.AnyType: _read_any,
    inspect.StructType: _read_struct,
    inspect.UnionType: _read_union,
    inspect.DictType: _read_dict,
    inspect.VarTupleType: _read_items,
    inspect.StrType: _read_text,
    inspect.BoolType: _read_flag,
    inspect.IntType: _read_integer,
    inspect.FloatType: _read_number,
    inspect.LiteralType: _read_literal,
    inspect.EnumType: _read_enum,
    inspect.CustomType: _read_custom,
    inspect.Metadata: _read_metadata,
}
