"""The store for keys of accounts: `trilogue accounts add` fills it, `store:NAME` in a configuration refers to it.

`accounts.vault` in the state folder maps names to keys, each encrypted with AES-GCM and bound to its name. `vault.key`
holds the 32 bytes that decrypt them. Only the user can read the two files. A backup of the vault without `vault.key`
shows the names and nothing else.
"""

from __future__ import annotations

import os
import secrets
from base64 import b64decode, b64encode
from pathlib import Path

import msgspec

from trilogue.cipher import KEY_BYTES, NONCE_BYTES, Cipher
from trilogue.config.problems import NAME, NAME_RULE
from trilogue.errors import TrilogueError

FILE = "accounts.vault"
KEY_FILE = "vault.key"


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
        held = self._read()
        nonce = secrets.token_bytes(NONCE_BYTES)
        try:
            self._make_key()
            held[name] = b64encode(nonce + self._cipher().encrypt(nonce, key.encode(), name.encode())).decode()
            self._write(held)
        except OSError as error:
            raise VaultError(f"cannot write to {self._folder}: {error.strerror}") from None

    def remove(self, name: str) -> bool:
        """Remove a key. Return False if there was none. Raise VaultError."""
        held = self._read()
        if held.pop(name, None) is None:
            return False
        self._write(held)
        return True

    def _read(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise VaultError(f"cannot read {self._file}: {error.strerror}") from None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise VaultError(f"{self._file} is damaged") from None

    def _write(self, held: dict[str, str]) -> None:
        draft = self._folder / f".{FILE}.{secrets.token_hex(4)}"
        _write_private(draft, msgspec.json.encode(held))
        draft.replace(self._file)

    def _make_key(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._key_file.exists():
            _write_private(self._key_file, secrets.token_bytes(KEY_BYTES))

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


def _write_private(path: Path, data: bytes) -> None:
    """Write a new file that only its owner can read, also while it is being written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
