"""The differences between two trees of plain data: dicts, lists, texts, numbers.

In: two trees. Out: one `Difference` per place, with its path and both values. Lists are aligned, so that one element
more at the front is one difference and not one per element.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from enum import Enum

from msgspec import Struct

from trilogue.base.json_text import dumps
from trilogue.model import Json

MOST_ALIGNED = 400
"""longer lists are compared element by element, because aligning them takes quadratic time"""


class Absent(Enum):
    """The value of a place that only the other tree has."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent.ABSENT


class Difference(Struct, frozen=True):
    """One place in which two trees differ. A value is `ABSENT` if only the other tree has the place."""

    path: str
    a: Json
    b: Json


def differences(a: Json, b: Json, path: str = "", *, loose: bool = False) -> Iterator[Difference]:
    """Yield every difference between two trees. `loose`: white space in texts does not count."""
    if isinstance(a, dict) and isinstance(b, dict) and _kind(a) == _kind(b):
        yield from _of_objects(a, b, path, loose)
    elif isinstance(a, list) and isinstance(b, list):
        yield from _of_lists(a, b, path, loose)
    elif not _same(a, b, loose):
        yield Difference(path, a, b)


def _kind(value: dict[str, Json]) -> str:
    """Return the kind of a neutral value. Values of two kinds differ as a whole, not field by field."""
    kind = value.get("is")
    return kind if isinstance(kind, str) and kind.isidentifier() else ""


def _of_objects(a: dict[str, Json], b: dict[str, Json], path: str, loose: bool) -> Iterator[Difference]:
    for name in [*a, *(name for name in b if name not in a)]:
        place = f"{path}.{name}" if path else name
        yield from differences(a.get(name, ABSENT), b.get(name, ABSENT), place, loose=loose)


def _of_lists(a: list[Json], b: list[Json], path: str, loose: bool) -> Iterator[Difference]:
    for a_from, a_to, b_from, b_to in _unequal_runs(a, b):
        for offset in range(max(a_to - a_from, b_to - b_from)):
            left, right = a_from + offset, b_from + offset
            place = f"{path}[{left if left < a_to else right}]"
            a_value = a[left] if left < a_to else ABSENT
            b_value = b[right] if right < b_to else ABSENT
            yield from differences(a_value, b_value, place, loose=loose)


def _unequal_runs(a: list[Json], b: list[Json]) -> list[tuple[int, int, int, int]]:
    """Return the parts in which two lists differ: from and to in the first list, from and to in the second one."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    a_to, b_to = len(a) - end, len(b) - end
    if a_to - start == b_to - start or max(a_to, b_to) - start > MOST_ALIGNED:
        return [(start, a_to, start, b_to)]
    matcher = SequenceMatcher(None, _keys(a[start:a_to]), _keys(b[start:b_to]), autojunk=False)
    return [
        (start + a_from, start + a_end, start + b_from, start + b_end)
        for tag, a_from, a_end, b_from, b_end in matcher.get_opcodes()
        if tag != "equal"
    ]


def _keys(values: list[Json]) -> list[bytes]:
    return [dumps(value) for value in values]


def _same(a: Json, b: Json, loose: bool) -> bool:
    if loose and isinstance(a, str) and isinstance(b, str):
        return a == b or a.split() == b.split() or "".join(a.split()) == "".join(b.split())
    # True equals 1 in Python.
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)
