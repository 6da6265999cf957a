"""The usage ledger, for commands: where it is, whether it can be used, and the observer that counts in it."""

from __future__ import annotations

import os
from pathlib import Path

from trilogue.config.types import Config
from trilogue.gateway.conversations.store.interface import StoreAway
from trilogue.gateway.features.usage.ledger.ledger import UsageLedger
from trilogue.gateway.features.usage.ledger.tables import LedgerTables
from trilogue.gateway.features.usage.observer import UsageObserver
from trilogue.gateway.features.usage.place import FILE_NAME, NOWHERE, live_folder, place_of_usage
from trilogue.storage.database import check_database, database_of
from trilogue.storage.database.sqlite import SqliteDatabase
from trilogue.storage.folders import state_file
from trilogue.storage.store import StoreError


def default_file(config_file: Path | None) -> Path:
    """Return the file that is used if the configuration names no other place."""
    return state_file(os.environ, FILE_NAME, config_file)


def fault_of_usage(config: Config, config_file: Path | None) -> StoreError | None:
    """Return why the place that a configuration names for usage cannot be used; None if it can be, or may come back.

    The default file is set aside if it is damaged.
    """
    file = default_file(config_file)
    place = place_of_usage(config, file)
    is_default = place == str(file)
    if place == NOWHERE or (is_default and not file.exists()) or (config.usage.store is None and not is_default):
        return None
    database = database_of(place)
    tables = LedgerTables(database)
    try:
        if is_default:
            check_database(database, tables.check)
        else:
            tables.check()
    except StoreError as error:
        may_come_back = isinstance(error, StoreAway) and not isinstance(database, SqliteDatabase)
        return None if may_come_back or is_default else error
    finally:
        # Connections must not be shared with the workers, which are forked from this process.
        tables.close()
    return None


def counting(config: Config, config_file: Path | None) -> UsageObserver | None:
    """Return an observer that counts usage, or None if the configuration wants none. Call this inside the worker."""
    file = default_file(config_file)
    place = place_of_usage(config, file)
    if place == NOWHERE:
        return None
    return UsageObserver(UsageLedger(LedgerTables(database_of(place)), live_folder(file), config.usage.days))
