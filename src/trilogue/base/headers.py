"""What both sides of the gateway need to know about HTTP headers: names, and which belong to one connection."""

from __future__ import annotations

import re
from functools import lru_cache

OF_CONNECTION = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers about one connection and its framing. They are written for each connection, never passed on."""

_ABOUT_CONNECTION = OF_CONNECTION | {"close"}

LEGAL_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A legal header name, a "token" in RFC 9110."""


@lru_cache(1000)
def header_name(raw: bytes) -> str:
    """Return a header name in lower case. Cached: the same few names come with every message."""
    return raw.lower().decode("latin-1")


def named_by_connection(value: str) -> frozenset[str]:
    """Return the further headers that a `connection` header names: they are for the next hop only (RFC 9110 §7.6.1)."""
    return frozenset(name.strip().lower() for name in value.split(",")) - _ABOUT_CONNECTION - {""}


def size_of(headers: dict[str, str]) -> int:
    """Return the number of characters in names and values, without separators."""
    return sum(len(name) + len(value) for name, value in headers.items())
