"""What becomes of a request field that only its own protocol has, when the request goes to another one."""

from __future__ import annotations

from collections.abc import Mapping

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
