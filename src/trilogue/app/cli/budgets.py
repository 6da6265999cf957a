"""What is left of all budgets, read from the files of a gateway that may run or not."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from trilogue.app.build import configured_keys, limit_rules
from trilogue.app.stores import locations_of
from trilogue.config.load import load
from trilogue.config.types import Config
from trilogue.errors import ConfigError
from trilogue.gateway.access.client_keys import ClientKey
from trilogue.gateway.access.key_store import KeyStore
from trilogue.gateway.access.managed import ManagedKey
from trilogue.gateway.limits.budgets import budget_lines, subjects_with_budget
from trilogue.gateway.limits.shared_table import read_rows
from trilogue.storage.database import StoreError
from trilogue.storage.engines import database_of
from trilogue.storage.locations import LIMITS_FILE, Locations


def budgets_left(file: Path | None, config: Config) -> list[dict[str, Any]]:
    """Return how much of each budget is left. Those of keys in the configuration need the texts of these keys."""
    now = time.time()
    places = locations_of(config, file)
    subjects = subjects_with_budget(limit_rules(config), _configured(file), _managed(places), now)
    rows = read_rows(places.file(LIMITS_FILE), [str(subject) for subject in subjects])
    return [line for line in budget_lines(subjects, rows.get, now) if isinstance(line, dict)]


def _configured(file: Path | None) -> list[ClientKey]:
    try:
        return [one.key for one in configured_keys(load(file, os.environ))]
    except ConfigError:
        # A variable that holds a secret may be known to the gateway only.
        return []


def _managed(places: Locations) -> Sequence[ManagedKey]:
    if not places.shared and not Path(places.keys).exists():
        return []
    try:
        with closing(KeyStore(database_of(places.keys))) as store:
            return store.all()
    except StoreError as error:
        click.echo(f"warning: budgets of client keys made at run time cannot be shown: {error}", err=True)
        return []
