"""Authenticated encryption, for sealed values and stored keys: without the key, data can be neither read nor changed.

Keys have 32 bytes.

In: a key, data, and data that is bound to it. Out: ciphertext, or the data again. `Cipher` is AES-GCM and needs a fresh
nonce each time. `RepeatableCipher` is AES-GCM-SIV (RFC 8452), which encrypts the same data to the same ciphertext. The
module knows nothing of what is encrypted, nor where keys come from.

`cryptography` is loaded on first use, or by `load`: loading it takes longer than a translation, and most translations
have nothing to encrypt.
"""

from __future__ import annotations

from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trilogue.errors import CipherUnavailable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESGCMSIV

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
_ONE_NONCE = bytes(NONCE_BYTES)
"""The nonce of every `RepeatableCipher`. GCM-SIV stays secure: a repeated nonce only shows that two texts are equal."""


class Changed(ValueError):
    """Data that cannot be decrypted: the key or the bound data differ, or the ciphertext was changed."""


class _CheckedKey:
    """A key whose size has been checked."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        self._key = key


class Cipher(_CheckedKey):
    """AES-GCM with one key. `bound` is authenticated but not encrypted, and has to be given again to decrypt."""

    def encrypt(self, nonce: bytes, data: bytes, bound: bytes) -> bytes:
        """Return the ciphertext. Never use a nonce for two different texts: that gives the key stream away."""
        return self._aead.encrypt(nonce, data, bound)

    def decrypt(self, nonce: bytes, data: bytes, bound: bytes) -> bytes:
        """Return the data, or raise Changed."""
        try:
            return self._aead.decrypt(nonce, data, bound)
        except (_invalid_tag(), ValueError):
            raise Changed from None

    @cached_property
    def _aead(self) -> AESGCM:
        aead: AESGCM = _library().AESGCM(self._key)
        return aead


class RepeatableCipher(_CheckedKey):
    """AES-GCM-SIV with one key and one nonce: the same data gives the same ciphertext. Use its key for nothing else."""

    def encrypt(self, data: bytes, bound: bytes) -> bytes:
        """Return the ciphertext. Raise CipherUnavailable if this OpenSSL has no AES-GCM-SIV."""
        return self._aead.encrypt(_ONE_NONCE, data, bound)

    def decrypt(self, data: bytes, bound: bytes) -> bytes:
        """Return the data, or raise Changed. Raise CipherUnavailable if this OpenSSL has no AES-GCM-SIV."""
        try:
            return self._aead.decrypt(_ONE_NONCE, data, bound)
        except (_invalid_tag(), ValueError):
            raise Changed from None

    @cached_property
    def _aead(self) -> AESGCMSIV:
        return load()(self._key)


@cache
def load() -> type[AESGCMSIV]:
    """Load the library. Servers do this before the first request. Raise CipherUnavailable if AES-GCM-SIV is missing."""
    unsupported: type[Exception] = import_module("cryptography.exceptions").UnsupportedAlgorithm
    try:
        siv: type[AESGCMSIV] = _library().AESGCMSIV
        siv(bytes(KEY_BYTES))
    except (AttributeError, unsupported):
        # The wheels on PyPI bring their own OpenSSL. Builds against LibreSSL, or an OpenSSL before 3.2, lack it.
        raise CipherUnavailable(
            "sealed values need AES-GCM-SIV, which this build of the package `cryptography` does not have: it needs "
            "version 42 or newer, built with OpenSSL 3.2 or newer. The wheels on PyPI have it."
        ) from None
    return siv


@cache
def _library() -> Any:
    return import_module("cryptography.hazmat.primitives.ciphers.aead")


@cache
def _invalid_tag() -> type[Exception]:
    error: type[Exception] = import_module("cryptography.exceptions").InvalidTag
    return error
