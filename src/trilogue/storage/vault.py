"""The store for keys of accounts: `trilogue accounts add` fills it, `store:NAME` in a configuration refers to it.

`accounts.vault` in the state folder maps names to keys, each encrypted with AES-GCM and bound to its name. `vault.key`
holds the 32 bytes that decrypt them. Only the user can read the two files. A backup of the vault without `vault.key`
shows the names and nothing else.
"""

from __future__ import annotations

import secrets
from base64 import b64decode, b64encode
from pathlib import Path

import msgspec

from trilogue.base.cipher import KEY_BYTES, NONCE_BYTES, Cipher
from trilogue.base.problems import NAME, NAME_RULE
from trilogue.errors import TrilogueError
from trilogue.storage.private_files import locked, make_once, write_private

FILE = "accounts.vault"
KEY_FILE = "vault.key"
LOCK_SECONDS = 5.0


class VaultError(TrilogueError):
    """The store cannot be read or written. The text names files and accounts, never a key."""


class Vault:
    """The store of one state folder. Its files are created by the first `put`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / FILE
        self._key_file = folder / KEY_FILE

    def names(self) -> list[str]:
        """Return the names of the stored keys, sorted. Raise VaultError."""
        return sorted(self._read())

    def get(self, name: str) -> str:
        """Return the key of an account. Raise VaultError if there is none or it cannot be decrypted."""
        sealed = self._read().get(name)
        if sealed is None:
            raise VaultError(f"the store has no key named {name}; `trilogue accounts add {name}` adds one")
        try:
            raw = b64decode(sealed)
            return self._cipher().decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], name.encode()).decode()
        except ValueError:
            raise VaultError(
                f"the key named {name} cannot be decrypted: {self._key_file} is not the file that it was encrypted with"
            ) from None

    def put(self, name: str, key: str) -> None:
        """Store the key of an account, or replace it. Raise VaultError."""
        check_name(name)
        nonce = secrets.token_bytes(NONCE_BYTES)
        try:
            make_once(self._key_file, self._key_file.exists, lambda: secrets.token_bytes(KEY_BYTES))
            # Commands that run at the same time must not undo each other's changes.
            with locked(self._file, LOCK_SECONDS):
                held = self._read()
                held[name] = b64encode(nonce + self._cipher().encrypt(nonce, key.encode(), name.encode())).decode()
                write_private(self._file, msgspec.json.encode(held))
        except OSError as error:
            raise VaultError(f"cannot write to {self._folder}: {error.strerror}") from None

    def remove(self, name: str) -> bool:
        """Remove a key. Return False if there was none. Raise VaultError."""
        if name not in self._read():
            return False
        try:
            with locked(self._file, LOCK_SECONDS):
                held = self._read()
                found = held.pop(name, None) is not None
                write_private(self._file, msgspec.json.encode(held))
        except OSError as error:
            raise VaultError(f"cannot write to {self._folder}: {error.strerror}") from None
        return found

    def _read(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise VaultError(f"cannot read {self._file}: {error.strerror}") from None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise VaultError(f"{self._file} is damaged") from None

    def _cipher(self) -> Cipher:
        try:
            return Cipher(self._key_file.read_bytes())
        except OSError as error:
            raise VaultError(f"cannot read {self._key_file}: {error.strerror}") from None
        except ValueError:
            raise VaultError(f"{self._key_file} is damaged") from None


def check_name(name: str) -> None:
    """Raise VaultError unless a stored key can have this name."""
    if not NAME.fullmatch(name):
        raise VaultError(f"a name {NAME_RULE}")
