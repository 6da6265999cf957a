"""Sealed values: opaque values of one protocol on their way through clients of another.

    trl1.<base64url of key id, nonce, ciphertext>

The ciphertext is AES-GCM over the value and its provenance, so a client can neither read nor change nor forge one.
The nonce is a keyed digest of the content: the same value is always sealed alike, which keeps prompt caches warm and
output reproducible, and two different contents share a nonce only if a 96-bit digest collides.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import blake2b
from os import urandom

import msgspec
from msgspec import Struct

from trilogue.cipher import KEY_BYTES, NONCE_BYTES, Cipher
from trilogue.errors import SealError, UpstreamProtocolError
from trilogue.model import SEAL_PREFIX, Opaque, OpaqueKind, Protocol, Provenance

_ID_BYTES = 4


class _Envelope(Struct, frozen=True, array_like=True):
    """What is inside. An array, to keep sealed values short."""

    kind: OpaqueKind
    value: str
    item_id: str | None
    protocol: Protocol
    provider: str
    model: str
    account: str
    parts: tuple[int, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Envelope).decode


class Sealed(Struct, frozen=True):
    """An opened envelope. `parts`: how long each part of the visible summary was, if there were several."""

    opaque: Opaque
    origin: Provenance
    parts: tuple[int, ...] = ()


class _Key:
    """One key with the id that tells envelopes apart after a rotation."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise ValueError(f"a seal key has {KEY_BYTES} bytes")
        self.id = blake2b(secret, digest_size=_ID_BYTES, person=b"trilogue-key-id").digest()
        self._nonce_key = blake2b(secret, digest_size=KEY_BYTES, person=b"trilogue-nonce").digest()
        self.cipher = Cipher(secret)

    def nonce(self, content: bytes) -> bytes:
        return blake2b(content, digest_size=NONCE_BYTES, key=self._nonce_key).digest()


class Sealer:
    """Seals with the first key, opens with any of them. Rotation: put the new key in front."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys:
            raise ValueError("a sealer needs at least one key")
        ring = [_Key(secret) for secret in keys]
        self._primary = ring[0]
        self._ring = {key.id: key for key in ring}

    def __repr__(self) -> str:
        return f"Sealer({len(self._ring)} keys)"

    @classmethod
    def ephemeral(cls) -> Sealer:
        """A sealer with a new random key: what it seals can only be opened by this object."""
        return cls([urandom(KEY_BYTES)])

    def seal(self, opaque: Opaque, origin: Provenance, parts: tuple[int, ...] = ()) -> str:
        """The sealed form of a value."""
        envelope = _Envelope(
            opaque.kind,
            opaque.value,
            opaque.item_id,
            origin.protocol,
            origin.provider,
            origin.model,
            origin.account,
            parts,
        )
        try:
            content = _encode(envelope)
        except UnicodeEncodeError:
            raise UpstreamProtocolError("an opaque value holds half a character") from None
        key = self._primary
        nonce = key.nonce(content)
        sealed = key.id + nonce + key.cipher.encrypt(nonce, content, key.id)
        return SEAL_PREFIX + urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def of_another(self, value: str) -> bool:
        """Whether a sealed value was made with none of these keys: by a gateway that stands behind this one."""
        try:
            raw = _raw_bytes(value)
        except SealError:
            return False
        return len(raw) > _ID_BYTES + NONCE_BYTES and raw[:_ID_BYTES] not in self._ring

    def open(self, value: str) -> Sealed:
        """What is inside a sealed value; SealError if it is not ours or was changed."""
        raw = _raw_bytes(value)
        key = self._ring.get(raw[:_ID_BYTES])
        if key is None:
            raise SealError("sealed with an unknown key")
        nonce, ciphertext = raw[_ID_BYTES : _ID_BYTES + NONCE_BYTES], raw[_ID_BYTES + NONCE_BYTES :]
        try:
            envelope = _decode(key.cipher.decrypt(nonce, ciphertext, key.id))
        except (ValueError, msgspec.DecodeError):
            raise SealError("the sealed value was changed") from None
        origin = Provenance(
            protocol=envelope.protocol, provider=envelope.provider, model=envelope.model, account=envelope.account
        )
        opaque = Opaque(kind=envelope.kind, value=envelope.value, item_id=envelope.item_id)
        return Sealed(opaque, origin, envelope.parts)


def _raw_bytes(value: str) -> bytes:
    if not value.startswith(SEAL_PREFIX):
        raise SealError("not a sealed value")
    text = value[len(SEAL_PREFIX) :]
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise SealError("not a sealed value") from None
