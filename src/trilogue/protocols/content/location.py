"""Where the user is, for searches: the same four fields in every protocol."""

from __future__ import annotations

from trilogue.model import Json, UserLocation
from trilogue.protocols.fields.reader import Fields

_NAMES = UserLocation.__struct_fields__


def read_location(fields: Fields) -> UserLocation | None:
    """The place, if any of it is known."""
    known = {name: fields.text(name) for name in _NAMES}
    return UserLocation(**known) if any(known.values()) else None


def write_location(location: UserLocation) -> dict[str, Json]:
    """What is known of the place."""
    return {name: value for name in _NAMES if (value := getattr(location, name)) is not None}
