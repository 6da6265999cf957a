"""Brings the tables of a database up to date, once, however many processes start at the same time.

A migration is never changed after a release. It only adds: tables, indexes, and columns with defaults, so that a worker
of an earlier version keeps working next to a newer one. A migration that cannot be of that kind sets `needs` to its own
number: earlier versions then refuse the store instead of damaging it.
"""

from __future__ import annotations

from msgspec import Struct

from trilogue.storage.database import DatabaseConnection, Dialect, StoreUnavailable


class Migration(Struct, frozen=True):
    """One step. `needs`: versions that do not know the migration of this number must not use the store any more.

    `append_only`: tables whose rows can no longer be changed or deleted.
    """

    number: int
    statements: tuple[str, ...]
    needs: int = 0
    append_only: tuple[str, ...] = ()


class TableSchema(Struct, frozen=True):
    """Tables that belong together. `versions`: the table that lists the migrations which were applied.

    A database can have several: each is brought up to date by its own users.
    """

    versions: str
    migrations: tuple[Migration, ...]

    def spelled(self, statement: str) -> str:
        """Return a statement about the table of migrations, with its name."""
        return statement.replace("VERSIONS", self.versions)


_CREATE = "CREATE TABLE IF NOT EXISTS VERSIONS (number INTEGER PRIMARY KEY, needs INTEGER NOT NULL)"
_APPLIED = "SELECT number, needs FROM VERSIONS"
_NOTE = "INSERT INTO VERSIONS (number, needs) VALUES (?, ?)"


def migrate(connection: DatabaseConnection, dialect: Dialect, schema: TableSchema) -> None:
    """Apply the migrations that are missing. Raise StoreUnavailable if the tables are too new for this version."""
    if _missing(connection, dialect, schema):
        connection.begin()
        try:
            connection.execute(dialect.lock_migrations)
            connection.execute(schema.spelled(_CREATE))
            for migration in _missing(connection, dialect, schema):
                _apply(connection, dialect, migration)
                connection.execute(schema.spelled(_NOTE), (migration.number, migration.needs))
            connection.commit()
        except BaseException:
            connection.rollback()
            raise


def _missing(connection: DatabaseConnection, dialect: Dialect, schema: TableSchema) -> list[Migration]:
    migrations = schema.migrations
    if not connection.execute(dialect.has_table, (schema.versions,)):
        return list(migrations)
    applied = connection.execute(schema.spelled(_APPLIED))
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
    for table in migration.append_only:
        for statement in dialect.append_only:
            connection.execute(statement.replace("TABLE", table))
