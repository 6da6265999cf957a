"""The paths of all settings, from the types of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from msgspec import inspect

from trilogue.config.types import Config


def settings() -> list[str]:
    """Return the path of every setting: `server.port`, `providers.NAME.accounts[].key`, …"""
    return list(_paths(inspect.type_info(Config), ""))


@cache
def settings_named(name: str) -> tuple[str, ...]:
    """Return the paths of all settings that end with this name, those with the fewest steps first."""
    found = [path for path in settings() if path.rpartition(".")[2] == name]
    return tuple(sorted(found, key=lambda path: path.count(".")))


def inner_types(kind: inspect.Type) -> Iterator[tuple[str, inspect.Type]]:
    """Yield the types directly inside a type, each with the step that a path takes to it."""
    match kind:
        case inspect.StructType():
            yield from ((f".{field.name}", field.type) for field in kind.fields)
        case inspect.DictType():
            yield ".NAME", kind.value_type
        case inspect.VarTupleType():
            yield "[]", kind.item_type
        case inspect.UnionType():
            yield from (("", member) for member in kind.types)
        case inspect.Metadata():
            yield "", kind.type


def _paths(kind: inspect.Type, path: str) -> Iterator[str]:
    for step, inner in inner_types(kind):
        here = f"{path}{step}".removeprefix(".")
        if isinstance(kind, inspect.StructType):
            yield here
        yield from _paths(inner, here)
