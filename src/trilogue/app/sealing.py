"""The keys that seal reasoning and encrypt what is stored: from the configuration, a file, or the shared database.

Gateways on several machines must have the same. If the configuration has none and the store is a PostgreSQL database,
the first gateway makes one there. Each machine keeps a copy in its state folder, so that it can start while the
database is away.
"""

from __future__ import annotations

import os
import re
import secrets
from hashlib import sha256
from pathlib import Path

from trilogue.base.cipher import KEY_BYTES
from trilogue.base.secrets import Secret
from trilogue.config.config import Config
from trilogue.errors import TrilogueError
from trilogue.storage.database import Database, StoreAway, StoreError
from trilogue.storage.engines import database_of
from trilogue.storage.locations import state_directory
from trilogue.storage.postgresql import PostgresqlDatabase
from trilogue.storage.private_files import MAKE_SECONDS, make_once, set_aside, write_private
from trilogue.storage.shared_secret import shared_secret
from trilogue.translate.reasoning.seal import Sealer

SEAL_FILE = "seal.key"
SHARED_NAME = "seal"
_DIGEST_CHARACTERS = 12
_SECRET = re.compile(r"[\w-]{43}", re.ASCII)
"""what `shared_secret` makes"""


class NoSealKey(TrilogueError):
    """The key that gateways share cannot be read, so that nothing may be sealed or stored."""


def stored_sealer(config: Config) -> tuple[Sealer, str]:
    """Return a sealer with the configured keys, or with a key that is created on the first run and kept.

    The text says why the key cannot be kept; "" if it can. Raises NoSealKey.
    """
    if config.seal_keys:
        return Sealer([key.derive() for key in config.seal_keys]), ""
    path = state_directory(os.environ) / SEAL_FILE
    database = _shared_database(config)
    if database is not None:
        # The machine may have stored something before it shared a database.
        return Sealer([_shared_key(database), *_key_in(path)]), ""
    try:
        set_aside(path, lambda: path.is_dir() or len(path.read_bytes()) != KEY_BYTES, MAKE_SECONDS)
        make_once(path, path.exists, lambda: secrets.token_bytes(KEY_BYTES))
        return Sealer([path.read_bytes()]), ""
    except (OSError, ValueError) as error:
        return Sealer.ephemeral(), f"cannot store the seal key in {path}: {_reason(error)}"


def known_keys(config: Config) -> tuple[bytes, ...]:
    """Return the keys that stored content is decrypted with; none if there are none yet. Raises NoSealKey."""
    path = state_directory(os.environ) / SEAL_FILE
    if not config.seal_keys and _shared_database(config) is None and not _key_in(path):
        return ()
    return stored_sealer(config)[0].storage_keys


def has_keys_here(config: Config) -> bool:
    """Return whether the keys are known without a database: configured, of this machine alone, or a copy of them."""
    database = None if config.seal_keys else _shared_database(config)
    return database is None or bool(_text_in(_copy_of(database)))


def _shared_database(config: Config) -> Database | None:
    """Return the database that gateways on several machines share; None if there is none."""
    if config.state.store is None:
        return None
    database = database_of(config.state.store.reveal())
    return database if isinstance(database, PostgresqlDatabase) else None


def _shared_key(database: Database) -> bytes:
    """Return the key that all gateways with this database use. Raises NoSealKey."""
    copy = _copy_of(database)
    try:
        secret = shared_secret(database, SHARED_NAME)
    except StoreAway as error:
        secret = _text_in(copy)
        if not secret:
            raise NoSealKey(
                f"{error}. The key that gateways share is there, so the first start on a machine needs the database. "
                "Start again when it is reachable, or set seal_keys"
            ) from None
    except StoreError as error:
        raise NoSealKey(str(error)) from None
    else:
        _keep_copy(copy, secret)
    return Secret(secret).derive()


def _copy_of(database: Database) -> Path:
    digest = sha256(database.name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return state_directory(os.environ) / f"seal-{digest}.key"


def _keep_copy(path: Path, secret: str) -> None:
    """Keep a copy of the shared secret, if that is possible. Without one, a start needs the database."""
    if _text_in(path) == secret:
        return
    try:
        write_private(path, secret.encode())
    except OSError:
        return


def _key_in(path: Path) -> list[bytes]:
    try:
        key = path.read_bytes()
    except OSError:
        return []
    return [key] if len(key) == KEY_BYTES else []


def _text_in(path: Path) -> str:
    """Return the copy of a shared secret; "" if there is none that could be one: nothing may be sealed with garbage."""
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return text if _SECRET.fullmatch(text) else ""


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "it is not a key"
