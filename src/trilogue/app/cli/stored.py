"""The store of responses, for commands."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from trilogue.app.sealing import NoSealKey, known_keys
from trilogue.app.stores import locations_of
from trilogue.base.cipher import KEY_BYTES
from trilogue.config.types import Config
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.stores import limits_of
from trilogue.storage.engines import database_of
from trilogue.storage.locations import MEMORY


def open_store(config: Config, config_file: Path | None) -> ResponseStore | None:
    """Return the store of a configuration, for commands; None if it is a file that does not exist yet.

    Raises UsageError if the configuration keeps nothing that a command could read.
    """
    settings = config.state
    where = locations_of(config, config_file).responses
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
    nothing = (secrets.token_bytes(KEY_BYTES),)
    try:
        return known_keys(config) or nothing
    except NoSealKey:
        # The database cannot be used. The command itself will say why.
        return nothing
