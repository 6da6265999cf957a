"""JSON with every field of an object, also those that come twice.

Of two fields with the same name, one server reads the first and another one the last. What must not be avoided by a
second field is looked for in here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from trilogue.base.json.text import LARGE_BYTES, parse_request
from trilogue.errors import BadRequest


class Pairs(tuple[tuple[str, Any], ...]):
    """The fields of an object, in order."""

    __slots__ = ()

    def all(self, name: str) -> Iterator[Any]:
        """Yield the value of every field with this name."""
        return (value for key, value in self if key == name)


def read_pairs(body: bytes) -> Pairs:
    """Return the object of a request body. Raises BadRequest, and TooLarge as `parse_request` does."""
    if len(body) > LARGE_BYTES:
        parse_request(body)
    try:
        found = json.loads(body, object_pairs_hook=Pairs)
    except (ValueError, RecursionError):
        # The generic parser says what is wrong.
        parse_request(body)
        raise BadRequest("the request body cannot be read") from None
    if not isinstance(found, Pairs):
        raise BadRequest("the request body must be a JSON object")
    return found


def at_path(value: object, path: str) -> Iterator[object]:
    """Yield every value at a path such as `requests[].params.model`. A step with `[]` goes into each entry of a list.

    Objects are `Pairs` or dictionaries.
    """
    values: list[object] = [value]
    for step in path.split("."):
        name = step.removesuffix("[]")
        values = [found for one in values for found in _fields(one, name)]
        if step.endswith("[]"):
            values = [entry for one in values if isinstance(one, list) for entry in one]
    yield from values


def _fields(value: object, name: str) -> Iterator[object]:
    if isinstance(value, Pairs):
        yield from value.all(name)
    elif isinstance(value, dict) and name in value:
        yield value[name]
