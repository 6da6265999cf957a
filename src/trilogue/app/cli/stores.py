"""Open what a gateway keeps, for commands: client keys and their audit log, and stored responses."""

from __future__ import annotations

import getpass
import os
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from trilogue.app.cli.configured import read_configuration
from trilogue.app.sealing import NoSealKey, known_keys
from trilogue.app.stores import key_store, locations_of
from trilogue.base.cipher import KEY_BYTES
from trilogue.config.config import Config
from trilogue.config.environment import with_dotenv
from trilogue.config.load import find, load
from trilogue.errors import ConfigError
from trilogue.gateway.access.audit_log import COMMAND_LINE, Actor, AuditEntry
from trilogue.gateway.access.key_store import KeyStore
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.stores import limits_of
from trilogue.model import Json
from trilogue.storage.engines import database_of
from trilogue.storage.locations import MEMORY


@contextmanager
def open_key_store(path: str | None) -> Iterator[tuple[KeyStore, Config]]:
    """Open the database of a configuration, and return both. Raises UsageError."""
    config, file = read_configuration(path)
    with _opened(config, file) as store:
        yield store, config


@contextmanager
def open_any_key_store() -> Iterator[KeyStore]:
    """Open the database of the default configuration, or the default database if that one cannot be used."""
    file = find(None)
    try:
        config = load(file, with_dotenv(os.environ, file), secrets=False)
    except ConfigError:
        config = Config()
    with _opened(config, file) as store:
        yield store


def _opened(config: Config, file: Path | None) -> closing[KeyStore]:
    return closing(key_store(locations_of(config, file)))


def command_user() -> Actor:
    """Return who runs the command, for the audit log."""
    try:
        return Actor(getpass.getuser(), COMMAND_LINE)
    except (KeyError, OSError):
        return Actor("unknown", COMMAND_LINE)


def note_change(store: KeyStore, what: str, subject: str, *, before: Json = None, after: Json = None) -> None:
    """Write a change by a command into the audit log. Call it before the change: raises StoreError."""
    actor = command_user()
    store.audit.add(AuditEntry(who=actor.who, via=actor.via, what=what, subject=subject, before=before, after=after))


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
