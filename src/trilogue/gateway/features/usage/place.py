"""Where the usage ledger of a configuration is."""

from __future__ import annotations

from pathlib import Path

from trilogue.config.types import Config
from trilogue.gateway.features.usage.ledger.tables import LedgerTables
from trilogue.storage.database import database_of
from trilogue.storage.database.sqlite import SqliteDatabase

FILE_NAME = "usage.db"
NOWHERE = "none"
_POSTGRESQL = ("postgresql://", "postgres://")


def place_of_usage(config: Config, file: Path) -> str:
    """Return where usage is kept: a path, the URL of a PostgreSQL database, or `none`. `file`: the default."""
    if config.usage.store is not None:
        return config.usage.store.reveal()
    state = config.state.store.reveal() if config.state.store is not None else ""
    return state if state.startswith(_POSTGRESQL) else str(file)


def live_folder(file: Path) -> Path:
    """Return the folder of the live files of workers. `file`: the default of `place_of_usage`."""
    return file.with_suffix(".live")


def tables_at(place: str) -> LedgerTables | None:
    """Return the tables in a place; None if that is a file that does not exist yet, or `none`."""
    if place == NOWHERE:
        return None
    database = database_of(place)
    if isinstance(database, SqliteDatabase) and not Path(place).exists():
        return None
    return LedgerTables(database)
