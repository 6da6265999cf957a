"""Paths that contain ids: which handler serves them, and which ids they name."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from trilogue.gateway.request.admission import Handler
from trilogue.net.server.request_target import match_path


class PathRoute(Struct, frozen=True):
    """One operation on stored objects. `path`: below the path of its kind, with `{…}` for ids."""

    method: str
    path: str
    handler: Handler

    def match(self, parts: Sequence[str]) -> tuple[str, ...] | None:
        """Return the ids in a path that was split at its slashes; None if it is another path."""
        return match_path(self.path, parts)


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
