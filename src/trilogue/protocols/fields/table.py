"""Which fields of a request body are read, and by whom.

A body has a handful of the forty fields that there could be, so it is asked once which are there, not forty times
whether one is. Readers run in the order of their table: of two mistakes in a body the same one is always reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilogue.protocols.fields.reader import Fields

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
