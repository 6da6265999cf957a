"""A second translator in the same state, so that one stream can be ended at every place and still go on.

`copy.deepcopy` takes ten times as long and cannot copy keys. What cannot change is shared here. Should that ever be too
much, then what is done to a twin shows in what the original says later: whoever uses this must compare.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct, structs

from trilogue.model import Loss
from trilogue.protocols.fields import FieldPolicy
from trilogue.translate.reasoning.seal import Sealer

T = TypeVar("T")
_Seen = dict[int, Any]
"""the twins so far, by the ids of their originals: what two parts share, their twins share too"""
_Copier = Callable[[Any, _Seen], Any]

# Functions written in C belong to nobody who changes.
_SHARED = (str, bytes, int, float, type(None), type, enum.Enum, types.FunctionType, types.BuiltinFunctionType)
_VALUES = (frozenset, FieldPolicy, Loss, Sealer)


def twin(thing: T) -> T:
    """A copy that shares nothing with the original that can change."""
    copied: T = _twin(thing, {})
    return copied


def _twin(thing: Any, seen: _Seen) -> Any:
    copier = _COPIERS[type(thing)]
    if copier is None:
        return thing
    copied = seen.get(id(thing))
    return copier(thing, seen) if copied is None else copied


def _list(thing: list[Any], seen: _Seen) -> list[Any]:
    copied = seen[id(thing)] = thing.copy()
    # Pieces of text, mostly, and many of them.
    if any(_COPIERS[kind] for kind in set(map(type, copied))):
        copied[:] = [_twin(part, seen) for part in copied]
    return copied


def _dict(thing: dict[Any, Any], seen: _Seen) -> dict[Any, Any]:
    copied = seen[id(thing)] = thing.copy()
    for name, value in thing.items():
        if _COPIERS[type(value)]:
            copied[name] = _twin(value, seen)
    return copied


def _tuple(thing: tuple[Any, ...], seen: _Seen) -> tuple[Any, ...]:
    return tuple([_twin(part, seen) for part in thing])


def _flat(thing: Any, seen: _Seen) -> Any:
    """Bytes, and sets, whose members cannot change."""
    copied = seen[id(thing)] = thing.copy()
    return copied


def _method(thing: Any, seen: _Seen) -> Any:
    """The same method of its object's twin."""
    return types.MethodType(thing.__func__, _twin(thing.__self__, seen))


def _struct(thing: Any, seen: _Seen) -> Any:
    parts = {name: getattr(thing, name) for name in thing.__struct_fields__}
    changed = {name: _twin(part, seen) for name, part in parts.items() if _COPIERS[type(part)]}
    copied = seen[id(thing)] = structs.replace(thing, **changed)
    return copied


def _object(thing: Any, seen: _Seen) -> Any:
    kind: Any = type(thing)
    copied = seen[id(thing)] = kind.__new__(kind)
    for name in (name for base in kind.__mro__ for name in vars(base).get("__slots__", ())):
        value = getattr(thing, name)
        setattr(copied, name, _twin(value, seen) if _COPIERS[type(value)] else value)
    if hasattr(thing, "__dict__"):
        copied.__dict__.update(thing.__dict__)
        for name, value in thing.__dict__.items():
            if _COPIERS[type(value)]:
                copied.__dict__[name] = _twin(value, seen)
    return copied


class _Copiers(dict[type, _Copier | None]):
    """How to copy what is of a kind; None if it is shared."""

    def __missing__(self, kind: type) -> _Copier | None:
        shared = issubclass(kind, (*_SHARED, *_VALUES))
        if not (shared or kind.__module__.startswith("trilogue.")):
            raise TypeError(f"what is in a {kind.__name__}, and can it change?")
        self[kind] = None if shared else _struct if issubclass(kind, Struct) else _object
        return self[kind]


_COPIERS = _Copiers({list: _list, dict: _dict, tuple: _tuple, set: _flat, bytearray: _flat, types.MethodType: _method})
