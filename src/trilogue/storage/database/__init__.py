"""Database engines for what must last: SQLite, PostgreSQL and memory, behind one interface.

transactions    transactions with one connection per thread
migrate         brings tables up to date
sqlite, postgresql, memory      the engines, each a `connection.Database`
dialect         how their SQL differs
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trilogue.storage.database.connection import Database, DatabaseConnection, Row
from trilogue.storage.database.memory import MemoryDatabase
from trilogue.storage.database.postgresql import PostgresqlDatabase
from trilogue.storage.database.sqlite import SqliteDatabase
from trilogue.storage.store import StoreDamaged

__all__ = [
    "Database",
    "DatabaseConnection",
    "MemoryDatabase",
    "PostgresqlDatabase",
    "Row",
    "SqliteDatabase",
    "check_database",
    "database_of",
]


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
