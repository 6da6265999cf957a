"""Ids and opaque values of the scripted upstream: the same for the same request, and recognized when they come back."""

from __future__ import annotations

import base64
import hashlib
import hmac

_SECRET = b"scripted upstream"


class Ids:
    """Ids for one response."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._count = 0

    def make(self, prefix: str) -> str:
        """Return the next id with this prefix."""
        self._count += 1
        text = f"{self._number}/{self._count}/{prefix}"
        return prefix + hashlib.sha256(text.encode()).hexdigest()[:24]


def sign(text: str) -> str:
    """Return the signature of a thinking text."""
    mac = hmac.digest(_SECRET, text.encode(), "sha256")
    return "Eo4B" + base64.b64encode(mac * 2).decode("ascii")


def is_signed(text: str, signature: str) -> bool:
    """Return whether this signature was made here for this text."""
    return hmac.compare_digest(sign(text).encode(), signature.encode())


def encrypt(item_id: str, serial: str) -> str:
    """Return encrypted reasoning. The value differs every time, as OpenAI's does."""
    plain = f"{item_id}/{serial}".encode()
    return "gAAAAA" + base64.urlsafe_b64encode(plain + hmac.digest(_SECRET, plain, "sha256")).decode("ascii")


def is_encrypted(value: str) -> bool:
    """Return whether the value was made by `encrypt`."""
    try:
        data = base64.urlsafe_b64decode(value.removeprefix("gAAAAA"))
    except ValueError:
        return False
    plain, mac = data[:-32], data[-32:]
    return hmac.compare_digest(hmac.digest(_SECRET, plain, "sha256"), mac)
