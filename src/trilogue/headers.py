"""HTTP headers, as both sides of the gateway read them."""

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
"""about one connection and its framing: only who holds that connection writes them, nobody passes them on"""

LEGAL_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""of a header: RFC 9110 calls it a token"""


@lru_cache(1000)
def header_name(raw: bytes) -> str:
    """In lower case. The same few come with every message, so they are kept; strange ones drop out again."""
    return raw.lower().decode("latin-1")


def size_of(headers: dict[str, str]) -> int:
    """What headers take, without what separates them."""
    return sum(len(name) + len(value) for name, value in headers.items())


def is_framed(headers: dict[str, str]) -> bool:
    """Whether there is a body."""
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
