"""Extras: request and response fields that only their own protocol has.

For the same protocol, `restore_extras` and `add_extras` write them back into wire objects. For another protocol, a
`FieldPolicy` says what happens to each: dropped, declared as a loss, or refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from trilogue.model import Json


class FieldPolicy(Struct, frozen=True):
    """What happens to a field in another protocol: declared under `loss`, or refused with the reason `refuse`.

    `harmless` values are neither. `place`: the path of the field in the source document, if that is not its own name in
    the object whose extra it is; `..` is the parent of that object.
    """

    loss: str = "param.dropped"
    refuse: str | None = None
    harmless: tuple[Json, ...] = ()
    unanswered: str = ""
    """why an item is refused if nothing has come after it yet: it has what only the user can give"""
    place: str = ""

    def where(self, path: str, name: str) -> str:
        """Return the JSON path of an extra of the object at `path`."""
        place = self.place or name
        if place.startswith(".."):
            return path.rpartition(".")[0] + place[2:].replace("/", ".")
        return f"{path}.{place}" if path else place


DROP = FieldPolicy()
"""the policy for fields that are dropped and declared as param.dropped"""

SILENT = FieldPolicy(loss="")
"""the policy for fields that do not affect the response (transport or telemetry of the client): not a loss"""

FieldPolicies = Mapping[str, FieldPolicy]


def refuse(reason: str, *harmless: Json) -> FieldPolicy:
    """Return the policy for a field that the client relies on and no target has: an error, except for some values.

    `harmless`: values that change nothing, such as the field's default.
    """
    return FieldPolicy(refuse=reason, harmless=harmless)


def restore_extras(wire: dict[str, Json], extras: dict[str, Json], nested: Collection[str] = ()) -> None:
    """Write the extras of a request back. They replace what was written: an extra is the more exact form.

    A dotted name goes into the object that it was read from. `nested`: objects that are created if they are missing.
    """
    for name, value in extras.items():
        # Clients may use dots in their own field names, so a dotted name need not be a path.
        owner, dot, field = name.rpartition(".")
        place = _find(wire, owner, owner in nested) if dot else None
        if place is None:
            wire[name] = value
        else:
            place[field] = value


def _find(wire: dict[str, Json], owner: str, make: bool) -> dict[str, Json] | None:
    """Return the object at a dotted path; None if the name has dots but is not a path."""
    place = wire
    for step in owner.split("."):
        inner = place.setdefault(step, {}) if make else place.get(step)
        if not isinstance(inner, dict):
            return None
        place = inner
    return place


def add_extras(wire: dict[str, Json], extras: dict[str, Json]) -> None:
    """Add the extras of a response to what was written, which wins: an extra may be a field of the wrong type."""
    for name, value in extras.items():
        known = wire.get(name)
        if name not in wire:
            wire[name] = value
        # Both have the object, for example usage details: the fields that only the upstream has are kept.
        elif isinstance(known, dict) and isinstance(value, dict):
            wire[name] = {**value, **known}
