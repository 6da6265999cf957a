"""Cross-origin rules: any page may call a gateway that asks for a key, none but local ones may call one that does not.

Credentials (cookies) are never allowed: the gateway has none.

Who may use the gateway: client keys, and what holds when there are none.

Keys are found by a keyed digest whose secret is made anew at every start, so the time it takes tells nothing of a key.
Without keys only programs on this machine may call: the Host header and the Origin of browsers must be local, which
keeps web pages and rebound DNS names out.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from trilogue.serving import Headers


class ClientKey(Struct, frozen=True):
    """A key that was recognised, by its name."""

    name: str
    mode: str | None = None


class KeyRing:
    """The client keys of one configuration."""

    def __init__(self, keys: Sequence[tuple[ClientKey, str]]) -> None:
        self._pepper = secrets.token_bytes(32)
        self._keys = {self._digest(secret): key for key, secret in keys}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, presented: Sequence[str]) -> ClientKey | None:
        """The key that is among these."""
        for secret in presented:
            found = self._keys.get(self._digest(secret))
            if found is not None:
                return found
        return None

    def _digest(self, secret: str) -> bytes:
        return blake2b(secret.encode("utf-8", "surrogateescape"), key=self._pepper, digest_size=32).digest()


def presented_keys(headers: Mapping[str, str]) -> list[str]:
    """The keys that the client shows. Some fill one header with a placeholder and put the key into another."""
    authorization = headers.get("authorization", "")
    if authorization.startswith("Bearer ") and "x-api-key" not in headers and "api-key" not in headers:
        return [authorization[7:].strip()]
    scheme, _, token = authorization.partition(" ")
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


_METHODS = b"GET, POST, PUT, DELETE, OPTIONS"
_ALLOWED = b"content-type, authorization, x-api-key, anthropic-version, anthropic-beta, openai-beta, trilogue-mode"
_EXPOSED = b"trilogue-loss, x-request-id, request-id, retry-after"


def cors_headers(headers: Mapping[str, str], *, keys_required: bool) -> Headers:
    """What to tell a browser; nothing for other clients."""
    origin = headers.get("origin")
    if origin is None:
        return []
    if keys_required:
        allowed = b"*"
    elif is_local_origin(origin):
        allowed = origin.encode("latin-1")
    else:
        return []
    return [
        (b"access-control-allow-origin", allowed),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"origin"),
    ]


def preflight_headers(headers: Mapping[str, str], *, keys_required: bool) -> Headers:
    """The answer to OPTIONS. Headers that the page asks for are allowed: SDKs send many of their own."""
    common = cors_headers(headers, keys_required=keys_required)
    if not common:
        return []
    asked = headers.get("access-control-request-headers", "").encode("latin-1")
    return [
        *common,
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", asked or _ALLOWED),
        (b"access-control-max-age", b"600"),
    ]
