"""Who may use the gateway: client keys, and what holds when there are none.

Keys are compared as keyed digests in constant time, so neither the comparison nor anything kept in memory tells a key.
Without keys only programs on this machine may call: the Host header and the Origin of browsers must be local, which
keeps web pages and rebound DNS names out.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct


class ClientKey(Struct, frozen=True):
    """A key that was recognised, by its name."""

    name: str
    mode: str | None = None


class KeyRing:
    """The client keys of one configuration."""

    def __init__(self, keys: Sequence[tuple[ClientKey, str]]) -> None:
        self._pepper = secrets.token_bytes(32)
        self._digests = [(self._digest(secret), key) for key, secret in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def find(self, presented: Sequence[str]) -> ClientKey | None:
        """The key that is among these. Every key is compared, whichever matches."""
        found = None
        for digest in map(self._digest, presented):
            for known, key in self._digests:
                if hmac.compare_digest(known, digest):
                    found = key
        return found

    def _digest(self, secret: str) -> bytes:
        return hmac.digest(self._pepper, secret.encode("utf-8", "surrogateescape"), "sha256")


def presented_keys(headers: Mapping[str, str]) -> list[str]:
    """The keys that the client shows. Some fill one header with a placeholder and put the key into another."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return [key for key in (bearer, headers.get("x-api-key", ""), headers.get("api-key", "")) if key]


def is_local_host(host: str) -> bool:
    """A Host header that names this machine."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or name.endswith(".localhost") or _is_loopback(name)


def is_local_origin(origin: str) -> bool:
    """An Origin of a page that this machine serves."""
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
