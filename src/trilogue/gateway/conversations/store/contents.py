"""Encrypts what is stored, and binds it to its row.

In: content, its owner, and the names of its row. Out: ciphertext that can only be decrypted under the same owner and
names, so that rows cannot be swapped. Each owner has a key of its own, derived from the gateway's key: AES-GCM with
random nonces is safe for 2**32 texts per key, and a busy gateway may write that many in all.

    1 byte version, 4 bytes key id, 12 bytes nonce, ciphertext with its tag
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from trilogue.base.cipher import KEY_BYTES, NONCE_BYTES, TAG_BYTES, Changed, Cipher
from trilogue.gateway.conversations.store.interface import ContentUnreadable

VERSION = b"\x01"
KEY_ID_BYTES = 4
CACHED_OWNERS = 4_096
_NONCE_AT = len(VERSION) + KEY_ID_BYTES
_TEXT_AT = _NONCE_AT + NONCE_BYTES
OVERHEAD = _TEXT_AT + TAG_BYTES
"""How much longer ciphertext is than what was encrypted."""


class Contents:
    """Encryption for one store. `keys`: 32 bytes each; the first encrypts, and all of them decrypt."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"a store needs keys of {KEY_BYTES} bytes")
        self._keys = {_key_id(key): key for key in reversed(keys)}
        self._newest = _key_id(keys[0])
        self._cipher = lru_cache(CACHED_OWNERS)(self._derive)

    def encrypt(self, data: bytes, owner: str, *names: str | int | None) -> bytes:
        """Return the ciphertext of a row's content."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        text = self._cipher(self._newest, owner).encrypt(nonce, data, _bound(names))
        return b"".join((VERSION, self._newest, nonce, text))

    def decrypt(self, data: bytes, owner: str, *names: str | int | None) -> bytes:
        """Return a row's content. Raise ContentUnreadable."""
        key_id = data[len(VERSION) : _NONCE_AT]
        if data[: len(VERSION)] != VERSION or key_id not in self._keys:
            raise ContentUnreadable("stored content was encrypted with a key that this gateway does not have")
        try:
            return self._cipher(key_id, owner).decrypt(data[_NONCE_AT:_TEXT_AT], data[_TEXT_AT:], _bound(names))
        except Changed:
            raise ContentUnreadable("stored content was changed, or moved from another row") from None

    def _derive(self, key_id: bytes, owner: str) -> Cipher:
        return Cipher(hmac.digest(self._keys[key_id], b"trilogue stored content\0" + owner.encode(), "sha256"))


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"trilogue key id\0" + key).digest()[:KEY_ID_BYTES]


def _bound(names: tuple[str | int | None, ...]) -> bytes:
    # MessagePack and not a separator: upstreams choose ids, and two lists of ids must never look the same.
    return msgspec.msgpack.encode(names)
