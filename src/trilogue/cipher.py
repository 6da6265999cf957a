"""AES-GCM with keys of 32 bytes: what is encrypted can neither be read nor changed without its key.

The library behind it is loaded when it is first needed, or by `load`: that takes longer than a translation, and most
translations have nothing to encrypt.
"""

from __future__ import annotations

from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
NONCE_BYTES = 12


class Changed(ValueError):
    """It was not encrypted like this: another key, other bound data, or changed on its way."""


class Cipher:
    """One key. `bound`: data that is not encrypted, without which nothing can be decrypted."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        self._key = key

    def encrypt(self, nonce: bytes, data: bytes, bound: bytes) -> bytes:
        """The ciphertext. A nonce must never serve for two different texts."""
        return self._aead.encrypt(nonce, data, bound)

    def decrypt(self, nonce: bytes, data: bytes, bound: bytes) -> bytes:
        """The text. Raises Changed."""
        try:
            return self._aead.decrypt(nonce, data, bound)
        except (_invalid_tag(), ValueError):
            raise Changed from None

    @cached_property
    def _aead(self) -> AESGCM:
        return load()(self._key)


@cache
def load() -> type[AESGCM]:
    """Load the library. For servers: before the first request, not in it."""
    aead: type[AESGCM] = import_module("cryptography.hazmat.primitives.ciphers.aead").AESGCM
    return aead


@cache
def _invalid_tag() -> type[Exception]:
    error: type[Exception] = import_module("cryptography.exceptions").InvalidTag
    return error
