"""Whether a Host or Origin header names this machine."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


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
