"""Signatures and encrypted values of the strict upstreams. Each is unique, and bound to what the real ones are bound
to."""

from __future__ import annotations

import base64
import hmac
import itertools
import json
from typing import Any

_SECRET = b"strict upstream"
_serials = itertools.count(1)
MAC_BYTES = 32


def seal(kind: str, *bound: Any) -> str:
    """Return a value that `is_sealed` accepts for the same kind and the same bound values only."""
    nonce = next(_serials).to_bytes(8, "big")
    return base64.b64encode(kind.encode() + nonce + _mac(kind, nonce, bound)).decode("ascii")


def is_sealed(value: Any, kind: str, *bound: Any) -> bool:
    """Return whether the value was made here, for these."""
    try:
        data = base64.b64decode(value, validate=True)
    except (ValueError, TypeError):
        return False
    head = len(kind.encode())
    if len(data) != head + 8 + MAC_BYTES or data[:head] != kind.encode():
        return False
    return hmac.compare_digest(data[-MAC_BYTES:], _mac(kind, data[head : head + 8], bound))


def _mac(kind: str, nonce: bytes, bound: tuple[Any, ...]) -> bytes:
    text = json.dumps([kind, *bound], sort_keys=True, separators=(",", ":")).encode()
    return hmac.digest(_SECRET, nonce + text, "sha256")
