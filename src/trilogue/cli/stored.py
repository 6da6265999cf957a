"""The store of responses, for commands: where it is, whether it can be used, and the keys that encrypt its content."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click

from trilogue import Sealer
from trilogue.cipher import KEY_BYTES
from trilogue.config import Config, StateSettings, state_directory
from trilogue.gateway.setup.response_store import FILE_NAME, MEMORY, limits_of, place_of
from trilogue.state.responses import ResponseStore, SqliteDatabase, StoreAway, StoreError, database_of

SEAL_FILE = "seal.key"


def default_file() -> Path:
    """Return the file that is used if the configuration names no store."""
    return state_directory(os.environ) / FILE_NAME


def sealer(config: Config) -> Sealer:
    """Return a sealer with the configured keys, or with a key that is created on the first run and kept."""
    if config.seal_keys:
        return Sealer([key.derive() for key in config.seal_keys])
    path = state_directory(os.environ) / SEAL_FILE
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
            path.write_bytes(secrets.token_bytes(KEY_BYTES))
        return Sealer([path.read_bytes()])
    except (OSError, ValueError) as error:
        click.echo(f"trilogue: cannot store the seal key in {path}: {error}", err=True)
        click.echo("trilogue: what is sealed or stored now cannot be read after a restart", err=True)
        return Sealer.ephemeral()


def open_store(config: Config) -> ResponseStore | None:
    """Return the store of a configuration, for commands; None if it is a file that does not exist yet.

    Raises UsageError if the configuration keeps nothing that a command could read.
    """
    settings = config.state
    where = place_of(settings, default_file())
    if not settings.kept:
        raise click.UsageError("with `state: none`, the gateway keeps no responses and conversations")
    if where == MEMORY:
        raise click.UsageError("with `state: memory`, only the running gateway knows what it keeps")
    if not where or not all(config.seal_keys):
        name = "seal_keys" if where else "state.store"
        raise click.UsageError(f"{name}: the secret that the configuration refers to cannot be found")
    if where.startswith("/") and not Path(where).exists():
        return None
    return ResponseStore(database_of(where), _known_keys(config), limits_of(settings))


def _known_keys(config: Config) -> tuple[bytes, ...]:
    """Return the keys that stored content is decrypted with. If there are none, nothing can be decrypted."""
    if config.seal_keys:
        return Sealer([key.derive() for key in config.seal_keys]).storage_keys
    try:
        return Sealer([(state_directory(os.environ) / SEAL_FILE).read_bytes()]).storage_keys
    except (OSError, ValueError):
        return (secrets.token_bytes(KEY_BYTES),)


def fault_at_start(settings: StateSettings, keys: tuple[bytes, ...]) -> StoreError | None:
    """Return why the store of a configuration cannot be used; None if it can. A default file is not created yet."""
    where = place_of(settings, default_file())
    if not settings.kept or where == MEMORY:
        return None
    if settings.store is None and not default_file().exists():
        reason = unwritable(default_file())
        return StoreAway(f"cannot write {where}: {reason}") if reason else None
    store = ResponseStore(database_of(where), keys, limits_of(settings))
    try:
        store.check()
    except StoreError as error:
        return error
    finally:
        # Connections must not be shared with the workers, which are forked from this process.
        store.close()
    return None


def is_file(settings: StateSettings) -> bool:
    """Return whether a configuration keeps things in a file."""
    return isinstance(database_of(place_of(settings, default_file())), SqliteDatabase)


def unwritable(file: Path) -> str:
    """Return why a file cannot be written or created, or ""."""
    found = next(path for path in (file, *file.parents) if path.exists())
    if found != file and not found.is_dir():
        return f"{found} is not a folder"
    return "" if os.access(found, os.W_OK) else f"{found} is not writable"
