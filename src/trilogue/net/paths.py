"""Paths that contain ids: which handler serves them, and which ids they name."""

from __future__ import annotations

from collections.abc import Sequence

_MOST = 200
"""characters of an id"""


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
