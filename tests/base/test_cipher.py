"""Encrypted data is decrypted unchanged, or refused."""

import pytest

from trilogue.base.cipher import KEY_BYTES, NONCE_BYTES, Changed, Cipher, RepeatableCipher

KEY, NONCE = b"k" * KEY_BYTES, b"n" * NONCE_BYTES
SEALED = Cipher(KEY).encrypt(NONCE, b"text", b"bound")


def test_there_and_back() -> None:
    assert b"text" not in SEALED
    assert Cipher(KEY).decrypt(NONCE, SEALED, b"bound") == b"text"


@pytest.mark.parametrize(
    ("key", "nonce", "data", "bound"),
    [
        (b"o" * KEY_BYTES, NONCE, SEALED, b"bound"),
        (KEY, b"o" * NONCE_BYTES, SEALED, b"bound"),
        (KEY, b"", SEALED, b"bound"),
        (KEY, NONCE, SEALED[:-1], b"bound"),
        (KEY, NONCE, b"", b"bound"),
        (KEY, NONCE, SEALED, b"other"),
    ],
)
def test_changes_are_noticed(key: bytes, nonce: bytes, data: bytes, bound: bytes) -> None:
    with pytest.raises(Changed):
        Cipher(key).decrypt(nonce, data, bound)


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_keys_of_another_size_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Cipher(bytes(size))


REPEATED = RepeatableCipher(KEY).encrypt(b"text", b"bound")


def test_the_same_text_is_encrypted_alike() -> None:
    assert RepeatableCipher(KEY).encrypt(b"text", b"bound") == REPEATED
    assert (
        len({REPEATED, *(RepeatableCipher(KEY).encrypt(*other) for other in ((b"text", b""), (b"test", b"bound")))})
        == 3
    )
    assert RepeatableCipher(KEY).decrypt(REPEATED, b"bound") == b"text"


@pytest.mark.parametrize(
    ("key", "data", "bound"),
    [
        (b"o" * KEY_BYTES, REPEATED, b"bound"),
        (KEY, REPEATED[:-1], b"bound"),
        (KEY, b"", b"bound"),
        (KEY, REPEATED, b"other"),
    ],
)
def test_changes_are_noticed_without_a_nonce_too(key: bytes, data: bytes, bound: bytes) -> None:
    with pytest.raises(Changed):
        RepeatableCipher(key).decrypt(data, bound)
