"""Keys that are made while the gateway runs. Their texts are shown once; only digests are kept.

A text has 256 random bits, so a plain digest is enough: nobody can guess texts until one fits.
"""

from __future__ import annotations

import secrets
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from trilogue.gateway.access.settings import KeyOptions

PREFIX = "sk-trl-"
_SHOWN = 4


class KeyStatus(StrEnum):
    """Whether a key works."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class ManagedKey(Struct, frozen=True, kw_only=True):
    """A key as it is kept. Times are seconds since the epoch.

    `digests`: those of its texts, and until when each is valid: after a rotation, the old text works for a while.
    `shown`: the end of the newest text, for people who look for the key that they have.
    """

    id: str
    name: str
    options: KeyOptions
    digests: tuple[tuple[str, float | None], ...]
    shown: str
    created: float
    expires: float | None = None
    revoked: float | None = None
    stops_streams: bool = False
    """whether requests that were running when it was revoked were to be ended"""

    def status(self, now: float) -> KeyStatus:
        """Return whether the key works now."""
        if self.revoked is not None:
            return KeyStatus.REVOKED
        return KeyStatus.EXPIRED if self.expires is not None and self.expires <= now else KeyStatus.ACTIVE

    def valid_digests(self, now: float) -> list[str]:
        """Return the digests of the texts that work now."""
        if self.status(now) is not KeyStatus.ACTIVE:
            return []
        return [digest for digest, until in self.digests if until is None or until > now]

    def next_change(self, now: float) -> float | None:
        """Return when the next of its texts stops working by itself, or None."""
        ends = [end for end in (self.expires, *(until for _, until in self.digests)) if end is not None and end > now]
        return min(ends, default=None)


def new_key_text() -> str:
    """Return the text of a new key."""
    return PREFIX + secrets.token_urlsafe(32)


def may_be_managed(text: str) -> bool:
    """Return whether a text has the form of those that `new_key_text` makes."""
    return text.startswith(PREFIX)


def new_key_id() -> str:
    """Return an id for a new key. It is not secret."""
    return f"key_{secrets.token_hex(8)}"


def key_digest(text: str) -> str:
    """Return the digest of a key's text."""
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def shown_end(text: str) -> str:
    """Return the part of a text that people may see."""
    return f"…{text[-_SHOWN:]}"
