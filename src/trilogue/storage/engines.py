"""Opens the database that a setting names, and begins a damaged file of ours anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trilogue.storage.database import Database, StoreDamaged
from trilogue.storage.postgresql import PostgresqlDatabase
from trilogue.storage.sqlite import MemoryDatabase, SqliteDatabase


def check_database(database: Database, check: Callable[[], None]) -> None:
    """Call a check of a store. A file that it finds damaged is set aside, and the store begins anew. Raise StoreError.

    Only for files of ours: one that the user has named may be something else.
    """
    try:
        check()
    except StoreDamaged:
        if not database.begin_anew(lambda: _is_damaged(check)):
            raise
        check()


def _is_damaged(check: Callable[[], None]) -> bool:
    try:
        check()
    except StoreDamaged:
        return True
    return False


def database_of(url: str) -> Database:
    """Return the database of a setting: `postgresql://…`, `memory`, or the path of a file."""
    if url.startswith(("postgresql://", "postgres://")):
        return PostgresqlDatabase(url)
    return MemoryDatabase() if url == "memory" else SqliteDatabase(Path(url))
