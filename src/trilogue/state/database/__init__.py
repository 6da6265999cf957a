"""Database engines for what must last: SQLite, PostgreSQL and memory, behind one interface.

transactions    transactions with one connection per thread
migrate         brings tables up to date
sqlite, postgresql, memory      the engines, each a `connection.Database`
dialect         how their SQL differs
"""

from __future__ import annotations

from pathlib import Path

from trilogue.state.database.connection import Database, DatabaseConnection, Row
from trilogue.state.database.memory import MemoryDatabase
from trilogue.state.database.postgresql import PostgresqlDatabase
from trilogue.state.database.sqlite import SqliteDatabase

__all__ = [
    "Database",
    "DatabaseConnection",
    "MemoryDatabase",
    "PostgresqlDatabase",
    "Row",
    "SqliteDatabase",
    "database_of",
]


def database_of(url: str) -> Database:
    """Return the database of a setting: `postgresql://…`, `memory`, or the path of a file."""
    if url.startswith(("postgresql://", "postgres://")):
        return PostgresqlDatabase(url)
    return MemoryDatabase() if url == "memory" else SqliteDatabase(Path(url))
