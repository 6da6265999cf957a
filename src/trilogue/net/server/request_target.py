"""What a request is addressed to: a path with ids in it, and a host that may be this machine."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

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


def is_local_host(host: str) -> bool:
    """Return whether a Host header names this machine."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or name.endswith(".localhost") or _is_loopback(name)


def is_local_origin(origin: str) -> bool:
    """Return whether an Origin header names a page that this machine serves."""
    try:
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and is_local_host(parts.netloc)
    except ValueError:
        return False


def _is_loopback(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
