"""Paths that contain ids: which handler serves them, and which ids they name."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from trilogue.gateway.request.admission import Handler

_MOST = 200
"""characters of an id"""


class PathRoute(Struct, frozen=True):
    """One operation on stored objects. `path`: below the path of its kind, with `{…}` for ids."""

    method: str
    path: str
    handler: Handler

    def match(self, parts: Sequence[str]) -> tuple[str, ...] | None:
        """Return the ids in a path that was split at its slashes; None if it is another path."""
        pattern = self.path.split("/") if self.path else []
        if len(pattern) != len(parts):
            return None
        found = []
        for wanted, part in zip(pattern, parts, strict=True):
            if wanted.startswith("{"):
                if not 0 < len(part) <= _MOST:
                    return None
                found.append(part)
            elif wanted != part:
                return None
        return tuple(found)


def find_route(
    routes: Sequence[PathRoute], method: str, parts: Sequence[str]
) -> tuple[Handler | None, tuple[str, ...], list[str]]:
    """Return the handler and the ids for a path, and the methods that the path has."""
    methods: list[str] = []
    for route in routes:
        found = route.match(parts)
        if found is None:
            continue
        if route.method == method:
            return route.handler, found, [method]
        methods.append(route.method)
    return None, (), methods
