"""Brings the tables of a database up to date, once, however many processes start at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from trilogue.state.responses.connection import DatabaseConnection
from trilogue.state.responses.interface import StoreUnavailable
from trilogue.state.responses.schema import MIGRATION_TABLE, MIGRATIONS, Dialect, Migration


def migrate(connection: DatabaseConnection, dialect: Dialect, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Apply the migrations that are missing. Raise StoreUnavailable if the tables are too new for this version."""
    if _missing(connection, dialect, migrations):
        connection.begin()
        try:
            connection.execute(dialect.lock_migrations)
            connection.execute(MIGRATION_TABLE)
            for migration in _missing(connection, dialect, migrations):
                _apply(connection, dialect, migration)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise


def _missing(connection: DatabaseConnection, dialect: Dialect, migrations: Sequence[Migration]) -> list[Migration]:
    if not connection.execute(dialect.has_migrations):
        return list(migrations)
    applied = connection.execute("SELECT number, needs FROM trl_migration")
    needed = max((needs for _, needs in applied), default=0)
    if needed > migrations[-1].number:
        raise StoreUnavailable(f"the store was changed by a newer version of Trilogue (migration {needed})")
    done = {number for number, _ in applied}
    return [migration for migration in migrations if migration.number not in done]


def _apply(connection: DatabaseConnection, dialect: Dialect, migration: Migration) -> None:
    for statement in migration.statements:
        spelled = statement.format(
            serial=dialect.serial, real=dialect.real, blob=dialect.blob, clustered=dialect.clustered
        )
        connection.execute(spelled)
    connection.execute("INSERT INTO trl_migration (number, needs) VALUES (?, ?)", (migration.number, migration.needs))
