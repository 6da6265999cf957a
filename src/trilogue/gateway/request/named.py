"""What a request names: the models that it may use, and the objects of a vendor that it refers to.

In: the bytes of a body, and where to look, from the tables of the protocols. Out: names and ids. Fields that come twice
count twice: a server may read either.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import parse_qsl

from trilogue.base.json_text import Pairs, at_path, read_pairs
from trilogue.errors import BadRequest, NotAllowed
from trilogue.gateway.conversations.request_fields import ESCAPED

_ECHOED = frozenset({"annotations", "citations", "metadata"})
"""fields of a model's output, which a client only sends back, and notes of the client"""
_ECHOED_TYPES = re.compile(r"\w+_call|\w*tool_use|\w+_tool_result")
"""types of items and blocks that tell what a model or a hosted tool did; not those of a client's own results"""


class NamedObjects(NamedTuple):
    """Ids of objects in a request. `echoed`: in what a model wrote before, where no server looks them up."""

    used: frozenset[str] = frozenset()
    echoed: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.used or self.echoed)


def may_name_others(body: bytes, fields: tuple[str, ...]) -> bool:
    """Return whether a body may name more than one model. Few bodies do, and only those have to be parsed."""
    return body.count(b'"model"') > 1 or any(body.find(mark) >= 0 for mark in _model_marks(fields)) or _escapes(body)


def may_name_objects(body: bytes, fields: frozenset[str]) -> bool:
    """Return whether a body may refer to objects by one of these fields."""
    by_id, others = _object_marks(fields)
    # One look for what most of them have is enough for most bodies.
    if body.find(b"_id") >= 0 and any(body.find(mark) >= 0 for mark in by_id):
        return True
    return any(body.find(mark) >= 0 for mark in others) or _escapes(body)


def _escapes(body: bytes) -> bool:
    """Return whether letters of a body are written as escapes, so that a field's name may not look like itself."""
    return body.find(b"\\u00") >= 0 and ESCAPED.search(body) is not None


@lru_cache
def _model_marks(fields: tuple[str, ...]) -> tuple[bytes, ...]:
    # Of `tools[].models`, the last step is rarer than the first. Every body has a `model`.
    names = {field.rpartition(".")[2].removesuffix("[]") for field in fields} - {"model"}
    return tuple(b'"%b"' % name.encode() for name in sorted(names))


@lru_cache
def _object_marks(fields: frozenset[str]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    marks = {name: b'"%b"' % name.encode() for name in sorted(fields)}
    return (
        tuple(mark for name, mark in marks.items() if "_id" in name),
        tuple(mark for name, mark in marks.items() if "_id" not in name),
    )


def models_of(body: bytes, paths: Iterable[str]) -> list[str]:
    """Return every model that a body names at one of these paths. Raises BadRequest if a place has something else."""
    pairs = read_pairs(body)
    return [name for path in paths for value in at_path(pairs, path) for name in _names(value, path)]


def models_of_query(query: bytes) -> list[str]:
    """Return every model that a query names."""
    return [value for name, value in parse_qsl(query.decode("latin-1")) if name.lower() == "model"]


def objects_of(body: bytes, fields: Collection[str], everyones: tuple[str, ...] = ()) -> NamedObjects:
    """Return the ids of objects that a body names.

    `everyones`: types by which it would ask for what all clients have stored. Raises NotAllowed for one of them.
    """
    used: set[str] = set()
    echoed: set[str] = set()
    # Iterative: a body comes from a client and may be nested to any depth.
    waiting: list[tuple[object, set[str]]] = [(read_pairs(body), used)]
    while waiting:
        node, found = waiting.pop()
        if isinstance(node, list):
            waiting += [(entry, found) for entry in node]
        elif isinstance(node, Pairs):
            kinds = [kind for kind in node.all("type") if isinstance(kind, str)]
            if any(kind in everyones for kind in kinds):
                raise NotAllowed(f"{kinds[0]} asks for what all client keys have stored", code="shared_list")
            if kinds and all(_ECHOED_TYPES.fullmatch(kind) for kind in kinds):
                found = echoed
            waiting += [(value, echoed if name in _ECHOED else found) for name, value in node]
            found.update(_ids(node, kinds, fields))
    return NamedObjects(frozenset(used), frozenset(echoed - used))


def _ids(node: Pairs, kinds: list[str], fields: Collection[str]) -> Iterator[str]:
    """Yield the ids that one object names."""
    # A skill that the vendor offers to everyone.
    offered = "skill_id" if kinds and all(kind == "anthropic" for kind in kinds) else ""
    for name, value in node:
        if name == offered:
            continue
        if name in fields or (name == "id" and "file_id" in kinds):
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, str):
                    yield one
                elif isinstance(one, Pairs):
                    yield from (found for found in one.all("id") if isinstance(found, str))


def _names(value: object, path: str) -> Iterator[str]:
    """Yield the models in a field: a text, a list, an object with `model`, or one with models by what they replace."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for entry in value:
            yield from _names(entry, path)
    elif isinstance(value, Pairs):
        named = list(value.all("model"))
        for one in named or [inner for _, inner in value]:
            yield from _names(one, path)
    elif value is not None:
        raise BadRequest(f"{path} must name models", path=path)


def has_doubles(body: bytes) -> bool:
    """Return whether any object in a body has a field twice. Servers differ in which one they read."""
    waiting: list[object] = [read_pairs(body)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, Pairs):
            if len({name for name, _ in node}) < len(node):
                return True
            waiting += [value for _, value in node]
    return False
