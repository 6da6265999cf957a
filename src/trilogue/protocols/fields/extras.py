"""Giving wire objects of the same protocol their extras back.

What becomes of a request field that only its own protocol has, when the request goes to another one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from trilogue.model import Json


class FieldPolicy(Struct, frozen=True):
    """Dropped and declared under `loss`, or refused with the reason `refuse`. `harmless` values need neither.

    `place`: where the field stands in the source document, if that is not under its own name in the object whose extra
    it is; `..` is the object around that one.
    """

    loss: str = "param.dropped"
    refuse: str | None = None
    harmless: tuple[Json, ...] = ()
    place: str = ""

    def where(self, path: str, name: str) -> str:
        """The JSON path of an extra of the object at `path`."""
        place = self.place or name
        if place.startswith(".."):
            return path.rpartition(".")[0] + place[2:].replace("/", ".")
        return f"{path}.{place}" if path else place


DROP = FieldPolicy()
"""dropped and declared as param.dropped"""

SILENT = FieldPolicy(loss="")
"""says nothing about the answer (transport or telemetry of the client): not a loss"""

FieldPolicies = Mapping[str, FieldPolicy]


def refuse(reason: str, *harmless: Json) -> FieldPolicy:
    """The user relies on it and no target can do it: an error, except for the values that change nothing."""
    return FieldPolicy(refuse=reason, harmless=harmless)


def restore_extras(wire: dict[str, Json], extras: dict[str, Json], nested: Collection[str] = ()) -> None:
    """Put the extras of a request back. They win over what was written: a field that stayed an extra is more exact.

    A dotted name goes into the object it was left over from; `nested` are the objects that are made if there are none.
    """
    for name, value in extras.items():
        owner, dot, field = name.rpartition(".")
        place = _find(wire, owner, owner in nested) if dot else None
        if place is None:
            wire[name] = value
        else:
            place[field] = value


def _find(wire: dict[str, Json], owner: str, make: bool) -> dict[str, Json] | None:
    """The object at a dotted path; None if the name only looks like one."""
    place = wire
    for step in owner.split("."):
        inner = place.setdefault(step, {}) if make else place.get(step)
        if not isinstance(inner, dict):
            return None
        place = inner
    return place


def add_extras(wire: dict[str, Json], extras: dict[str, Json]) -> None:
    """Put the extras of an answer beside what was written, which wins: an extra may be a field of the wrong type."""
    for name, value in extras.items():
        known = wire.get(name)
        if name not in wire:
            wire[name] = value
        elif isinstance(known, dict) and isinstance(value, dict):
            wire[name] = {**value, **known}
