"""Sealed values: opaque values of one protocol on their way through clients of another.

    trl2.<base64url of key id and ciphertext>          AES-GCM-SIV, what is sealed today
    trl1.<base64url of key id, nonce, ciphertext>      AES-GCM, opened for ever: histories outlive gateways

In: an opaque value and its provenance, and keys. Out: a text that a client can carry, but neither read nor change nor
forge. A sealer can be bound to an audience, which then is the only one that can open its values. The same value always
gets the same seal, which keeps prompt caches warm and output reproducible. AES-GCM-SIV is made for that: its nonce may
repeat, and then shows no more than that two values are equal. The module does not know where in a message sealed values
are, nor whether one may be opened for a target.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from copy import copy
from hashlib import blake2b
from os import urandom
from typing import NamedTuple

import msgspec
from msgspec import Struct

from trilogue.base.cipher import KEY_BYTES, NONCE_BYTES, TAG_BYTES, Cipher, RepeatableCipher
from trilogue.errors import SealError, UpstreamProtocolError
from trilogue.model import SEAL_PREFIX, SEAL_PREFIX_1, SEAL_PREFIXES, Opaque, OpaqueKind, Protocol, Provenance

_ID_BYTES = 4
_LEAST_BYTES = {SEAL_PREFIX: _ID_BYTES + TAG_BYTES, SEAL_PREFIX_1: _ID_BYTES + NONCE_BYTES + 1}
"""A shorter value was not sealed by any gateway."""


class _Envelope(Struct, frozen=True, array_like=True):
    """The content of a sealed value. An array, to keep sealed values short."""

    kind: OpaqueKind
    value: str
    item_id: str | None
    protocol: Protocol
    provider: str
    model: str
    account: str
    parts: tuple[int, ...] = ()


class _BoundEnvelope(_Envelope, frozen=True, array_like=True):
    """The content of a value for one audience. Without one, there is no such field: the same seal as ever."""

    audience: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_BoundEnvelope).decode


class Sealed(Struct, frozen=True):
    """The content of an opened value. `parts`: the length of each part of the visible summary, if several."""

    opaque: Opaque
    origin: Provenance
    parts: tuple[int, ...] = ()


class _Key:
    """One secret, with the id that selects it when a value is opened after a rotation."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise ValueError(f"a seal key has {KEY_BYTES} bytes")
        self.id = blake2b(secret, digest_size=_ID_BYTES, person=b"trilogue-key-id").digest()
        # `trl1.` used the secret itself. No key should serve two ciphers.
        self._repeatable = RepeatableCipher(blake2b(secret, digest_size=KEY_BYTES, person=b"trilogue-gcm-siv").digest())
        self._earlier = Cipher(secret)
        self.storage = blake2b(secret, digest_size=KEY_BYTES, person=b"trilogue-store").digest()

    def seal(self, content: bytes) -> bytes:
        """Return the id and the ciphertext."""
        return self.id + self._repeatable.encrypt(content, self._bound)

    def open(self, prefix: str, sealed: bytes) -> bytes:
        """Return the content, or raise ValueError. `sealed`: what follows the id."""
        if prefix == SEAL_PREFIX:
            return self._repeatable.decrypt(sealed, self._bound)
        return self._earlier.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], self.id)

    @property
    def _bound(self) -> bytes:
        return SEAL_PREFIX.encode() + self.id


class Audience(NamedTuple):
    """Whom sealed values are for. `name`: that of new ones; `accepted`: those of values that may be opened."""

    name: str
    accepted: frozenset[str]


class Sealer:
    """A ring of keys: the first one seals, any of them opens. To rotate, put the new key in front.

    Without an audience, it opens every value, and seals what every audience may open.
    """

    _audience: Audience | None = None

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys:
            raise ValueError("a sealer needs at least one key")
        ring = [_Key(secret) for secret in keys]
        self._primary = ring[0]
        self._ring = {key.id: key for key in ring}

    def __repr__(self) -> str:
        return f"Sealer({len(self._ring)} keys)"

    def bound_to(self, audience: Audience) -> Sealer:
        """Return a sealer with the same keys whose values only this audience can open."""
        bound = copy(self)
        bound._audience = audience
        return bound

    @property
    def storage_keys(self) -> tuple[bytes, ...]:
        """Keys that are derived from these, for what a gateway stores: the first encrypts, all of them decrypt."""
        return tuple(key.storage for key in self._ring.values())

    @classmethod
    def ephemeral(cls) -> Sealer:
        """Return a sealer with a new random key. Only this object can open what it seals."""
        return cls([urandom(KEY_BYTES)])

    def seal(self, opaque: Opaque, origin: Provenance, parts: tuple[int, ...] = ()) -> str:
        """Return the sealed form of a value. Raise UpstreamProtocolError if it is not valid text."""
        provenance = (origin.protocol, origin.provider, origin.model, origin.account)
        content_of = (opaque.kind, opaque.value, opaque.item_id, *provenance, parts)
        audience = self._audience
        envelope = _Envelope(*content_of) if audience is None else _BoundEnvelope(*content_of, audience.name)
        try:
            content = _encode(envelope)
        except UnicodeEncodeError:
            raise UpstreamProtocolError("an opaque value holds half a character") from None
        return SEAL_PREFIX + urlsafe_b64encode(self._primary.seal(content)).rstrip(b"=").decode()

    def of_another(self, value: str) -> bool:
        """Return True if none of these keys sealed a value: a gateway between this one and a provider did."""
        try:
            prefix, raw = _parts(value)
        except SealError:
            return False
        return len(raw) >= _LEAST_BYTES[prefix] and raw[:_ID_BYTES] not in self._ring

    def open(self, value: str) -> Sealed:
        """Return the content of a sealed value. Raise SealError if none of our keys sealed it or it was changed."""
        prefix, raw = _parts(value)
        key = self._ring.get(raw[:_ID_BYTES])
        if key is None:
            raise SealError("sealed with an unknown key")
        try:
            envelope = _decode(key.open(prefix, raw[_ID_BYTES:]))
        except (ValueError, msgspec.DecodeError):
            raise SealError("the sealed value was changed") from None
        if self._audience is not None and envelope.audience and envelope.audience not in self._audience.accepted:
            raise SealError("sealed for another client")
        origin = Provenance(
            protocol=envelope.protocol, provider=envelope.provider, model=envelope.model, account=envelope.account
        )
        opaque = Opaque(kind=envelope.kind, value=envelope.value, item_id=envelope.item_id)
        return Sealed(opaque, origin, envelope.parts)


def _parts(value: str) -> tuple[str, bytes]:
    """Return the prefix and the bytes of a sealed value. Raise SealError if it is not one."""
    if not value.startswith(SEAL_PREFIXES):
        raise SealError("not a sealed value")
    prefix, text = value[: len(SEAL_PREFIX)], value[len(SEAL_PREFIX) :]
    try:
        return prefix, urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise SealError("not a sealed value") from None
