"""Names of HTTP headers, as both sides of the gateway read them."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(1000)
def header_name(raw: bytes) -> str:
    """In lower case. The same few come with every message, so they are kept; strange ones drop out again."""
    return raw.lower().decode("latin-1")
