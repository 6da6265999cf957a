"""Documents from the official SDKs' parameter types: every field that they know, one at a time, with a plausible value.

`fields(kind)` yields, for each field of a type at any depth, a minimal valid value that has it and the path to it.
"""

import types
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, NamedTuple, Union

from typing_extensions import get_type_hints, is_typeddict

Path = tuple[str | int, ...]


class Variant(NamedTuple):
    """A value in which one field is in focus; without it the rest is valid too, unless the field is required."""

    value: Any
    path: Path
    required: bool


# What a string of that name must look like to be taken; everything else is a unique word.
_STRINGS = {
    "url": "https://example.com/marker-{n}",
    "image_url": "https://example.com/marker-{n}.png",
    "file_url": "https://example.com/marker-{n}.pdf",
    "server_url": "https://example.com/marker-{n}",
    "file_data": "data:application/pdf;base64,bWFya2Vy{n:04d}",
    "data": "bWFya2Vy{n:04d}",
    "arguments": '{{"marker": "marker-{n}"}}',
    "call_id": "call_1",
    "tool_call_id": "call_1",
    "tool_use_id": "call_1",
}
_count = iter(range(100, 10**9))


@cache
def hints(kind: Any) -> dict[str, tuple[Any, bool]]:
    """The fields of a typed dict: their types, and whether they are required."""
    found = get_type_hints(kind, include_extras=True)
    return {key: (hint, _required(hint, kind)) for key, hint in sorted(found.items())}


def _required(hint: Any, kind: Any) -> bool:
    # The SDKs' annotations are strings, so that `__required_keys__` does not know of Required.
    origin = typing.get_origin(hint)
    return origin is typing.Required or (bool(kind.__total__) and origin is not typing.NotRequired)


def is_alias(kind: Any) -> bool:
    """Whether a type is a named alias."""
    return hasattr(kind, "__value__")


def unwrap(kind: Any) -> Any:
    """A type without what only annotates it."""
    while True:
        origin = typing.get_origin(kind)
        if origin in (typing.Annotated, typing.Required, typing.NotRequired):
            kind = typing.get_args(kind)[0]
        elif is_alias(kind):
            kind = kind.__value__
        else:
            return kind


def members(kind: Any) -> list[Any]:
    """The types that a value may have, without None."""
    kind = unwrap(kind)
    if typing.get_origin(kind) in (Union, types.UnionType):
        return [inner for arg in typing.get_args(kind) for inner in members(arg)]
    return [] if kind is type(None) else [kind]


def minimal(kind: Any, name: str = "") -> Any:
    """The least value of a type."""
    found = members(kind)
    return _minimal(found[0], name) if found else None


def _minimal(kind: Any, name: str) -> Any:
    if is_typeddict(kind):
        return {key: minimal(hint, key) for key, (hint, required) in hints(kind).items() if required}
    origin = typing.get_origin(kind)
    if origin is Literal:
        return typing.get_args(kind)[-1]
    if element(kind) is not None:
        return [minimal(element(kind), name)]
    if origin is dict or kind is dict:
        return {"marker": f"marker-{next(_count)}"}
    return _plain(kind, name)


def _plain(kind: Any, name: str) -> Any:
    number = next(_count)
    if kind is bool:
        return True
    if kind is int:
        return 1000 + number
    if kind is float:
        return round(0.1 + number / 10**6, 6)
    if kind is object:
        return {"marker": f"marker-{number}"}
    return _STRINGS.get(name, "marker-{n}").format(n=number)


def element(kind: Any) -> Any:
    """The type of the elements of a list; None if it is no list."""
    origin = typing.get_origin(kind)
    named = getattr(origin, "__name__", "")
    if named in ("list", "Iterable", "SequenceNotStr", "Sequence", "List"):
        return typing.get_args(kind)[0]
    return None


def fields(kind: Any, name: str = "", inside: tuple[Any, ...] = ()) -> Iterator[Variant]:
    """Every field of a type, at any depth; a type inside itself is not entered again."""
    for member in members(kind):
        if is_typeddict(member):
            if member not in inside:
                yield from _of_dict(member, (*inside, member))
        elif element(member) is not None:
            for variant in fields(element(member), name, inside):
                yield Variant([variant.value], (0, *variant.path), variant.required)
        else:
            yield Variant(_minimal(member, name), (), False)


def _of_dict(kind: Any, inside: tuple[Any, ...]) -> Iterator[Variant]:
    for key, (hint, required) in hints(kind).items():
        for variant in fields(hint, key, inside):
            base = _minimal(kind, "")
            yield Variant(
                {**base, key: variant.value}, (key, *variant.path), required if not variant.path else variant.required
            )


def written(path: Path) -> str:
    """A path as losses write it."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def without(value: Any, path: Path) -> Any:
    """A value without the field at a path."""
    step, *rest = path
    if not rest:
        if isinstance(value, dict):
            return {key: inner for key, inner in value.items() if key != step}
        return [inner for index, inner in enumerate(value) if index != step]
    inner = without(value[step], tuple(rest))
    if isinstance(value, dict):
        return {**value, step: inner}
    return [inner if index == step else other for index, other in enumerate(value)]


def get(value: Any, path: Path) -> Any:
    """The value at a path."""
    for step in path:
        value = value[step]
    return value
