"""Giving wire objects of the same protocol their extras back."""

from __future__ import annotations

from collections.abc import Collection

from trilogue.model import Json


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
