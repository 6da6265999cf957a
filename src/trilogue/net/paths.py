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
        return match_path(self.path, parts)


def match_path(pattern: str, parts: Sequence[str]) -> tuple[str, ...] | None:
    """Return what the placeholders of a pattern stand for in a path that was split at its slashes, or None.

    `{…}` stands for one part, `{…*}` for one or more; a pattern has at most one of those.
    """
    wanted = pattern.split("/") if pattern else []
    many = next((number for number, one in enumerate(wanted) if one.endswith("*}")), None)
    if many is not None and len(parts) > len(wanted):
        end = many + 1 + len(parts) - len(wanted)
        parts = [*parts[:many], "/".join(parts[many:end]), *parts[end:]]
    if len(wanted) != len(parts):
        return None
    found = []
    for one, part in zip(wanted, parts, strict=True):
        if one.startswith("{"):
            if not 0 < len(part) <= _MOST:
                return None
            found.append(part)
        elif one != part:
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
