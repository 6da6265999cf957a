"""The database of client keys and of the audit log, as commands use it."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from trilogue.app.cli.configured import read_configuration
from trilogue.app.stores import key_store, locations_of
from trilogue.config.dotenv import with_dotenv
from trilogue.config.load import find, load
from trilogue.config.types import Config
from trilogue.errors import ConfigError
from trilogue.gateway.access.audit_log import COMMAND_LINE, Actor, AuditEntry
from trilogue.gateway.access.key_store import KeyStore
from trilogue.model import Json


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
