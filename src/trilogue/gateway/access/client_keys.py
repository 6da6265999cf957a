"""Who may use the gateway: client keys, the rules for a gateway without keys, and cross-origin headers.

Keys are looked up by a keyed digest whose secret is new at every start, so the time of a lookup reveals nothing.
Without keys, only programs on this machine may call: the Host header, and the Origin of browsers, must be local. This
keeps out web pages and rebound DNS names. Across origins, any page may call a gateway with keys, and only local pages
one without. Credentials (cookies) are never allowed: the gateway has none.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b, sha256
from typing import NamedTuple

from msgspec import Struct

from trilogue.gateway.access.settings import KeyOptions
from trilogue.net.server.request_target import is_local_origin
from trilogue.net.server.responder import Headers

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


_PLACE = re.compile(r"(key-\d+)?")
"""the name of a key that was given none"""


class ClientKey(Struct, frozen=True):
    """A client key that was recognised. `mode`: its own translation mode, if it has one.

    `owner`: whose stored responses and conversations it can use. It depends on the text of the key and not on its name,
    so that a new key never gets what an old key of the same name has stored.
    """

    name: str
    mode: str | None = None
    owner: str = ""
    id: str = ""
    """of a key that was made at run time"""
    options: KeyOptions = KeyOptions()
    restricted: bool = False
    """whether its options limit what its requests may do or take"""
    since: float = 0.0
    """when it was made, if it was made at run time"""

    @property
    def is_unnamed(self) -> bool:
        """Whether it is named after its place in the configuration, which may have been that of another key."""
        return bool(self.name) and not self.id and _PLACE.fullmatch(self.name) is not None


def owner_of(name: str, secret: str) -> str:
    """Return the owner for a client key: its name, for people, and a digest of its text.

    A key that is named after its place in the configuration gets a name from the digest, because places change.
    """
    digest = blake2b(secret.encode("utf-8", "surrogateescape"), digest_size=12, person=b"trilogue-owner").hexdigest()
    shown = f"unnamed-{digest[:6]}" if _PLACE.fullmatch(name) else name
    return f"{shown}:{digest}"


class ConfiguredKey(NamedTuple):
    """A key with its text, as a configuration has it. `expires`: in seconds since the epoch."""

    key: ClientKey
    text: str
    expires: float | None = None


class KeyRing:
    """The client keys that work, without their texts: those of the configuration and those made at run time.

    `required`: keys are needed even if there are none.
    """

    def __init__(self, keys: Sequence[ConfiguredKey] = (), *, required: bool = False) -> None:
        self._pepper = secrets.token_bytes(32)
        self._configured = [(one.key, key_digest(one.text), one.expires) for one in keys]
        self._always_required = self._required = required or bool(keys)
        self._keys: dict[bytes, ClientKey] = {}
        self.next_change: float | None = None
        """when the next key stops working by itself"""
        self.is_shared = False
        """whether several clients have or had keys, so that what is stored may belong to another one"""
        self.version = 0
        """grows with every update"""
        self.update((), 0.0)

    def __bool__(self) -> bool:
        return self._required

    def update(self, managed: Sequence[ManagedKey], now: float, *, needed: bool = False) -> None:
        """Take the keys that work now. `needed`: requests need a key, whether or not one works."""
        found = {
            self._peppered(digest): key for key, digest, expires in self._configured if expires is None or expires > now
        }
        for one in managed:
            options = one.options
            key = ClientKey(
                one.name, options.mode, f"{one.name}:{one.id}", one.id, options, options.restricts, one.created
            )
            found |= {self._peppered(digest): key for digest in one.valid_digests(now)}
        self._keys = found
        self.version += 1
        owners = {key.owner for key, _, _ in self._configured} | {f"{one.name}:{one.id}" for one in managed}
        # Keys that cannot be read, or are gone, may have made what is stored.
        self.is_shared = len(owners) > 1 or (needed and not managed)
        self._required = self._always_required or bool(managed) or needed
        ends = [*(expires for _, _, expires in self._configured), *(one.next_change(now) for one in managed)]
        self.next_change = min((end for end in ends if end is not None and end > now), default=None)

    def find(self, presented: Sequence[str]) -> ClientKey | None:
        """Return the first of the presented keys that is known, or None."""
        for text in presented:
            found = self._keys.get(self._peppered(key_digest(text)))
            if found is not None:
                return found
        return None

    def knows(self, text: str) -> bool:
        """Return whether a text is one of the keys."""
        return bool(self._keys) and self.find([text]) is not None

    @property
    def names(self) -> set[str]:
        """The names of the keys that work."""
        return {key.name for key in self._keys.values()}

    def shares_name(self, key: ClientKey) -> bool:
        """Return whether another key has the same name: one of the configuration, and one made at run time."""
        return any(one.name == key.name and one.owner != key.owner for one in self._keys.values())

    def _peppered(self, digest: str) -> bytes:
        return blake2b(digest.encode(), key=self._pepper, digest_size=32).digest()


_METHODS = b"GET, POST, PUT, DELETE, OPTIONS"
_ALLOWED = b"content-type, authorization, x-api-key, anthropic-version, anthropic-beta, openai-beta, trilogue-mode"
_EXPOSED = b"trilogue-loss, x-request-id, request-id, retry-after"


def cors_headers(headers: Mapping[str, str], *, keys_required: bool) -> Headers:
    """Return the cross-origin headers of a response; none for clients that are not browsers."""
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
    """Return the headers of a response to OPTIONS. All headers that a page asks for are allowed: SDKs add many."""
    common = cors_headers(headers, keys_required=keys_required)
    if not common:
        return []
    requested = headers.get("access-control-request-headers", "").encode("latin-1")
    return [
        *common,
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", requested or _ALLOWED),
        (b"access-control-max-age", b"600"),
    ]
