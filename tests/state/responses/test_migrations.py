"""Migrations from every earlier version, on every engine, and two versions next to each other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.state.responses.making import KEY, A, conversation, item, response
from tests.state.responses.postgres import Server
from trilogue.gateway.conversations.store.storage import MIGRATIONS, SCHEMA
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import StoredReasoning, StoreUnavailable
from trilogue.storage.database import Database
from trilogue.storage.migrations import Migration, TableSchema, migrate
from trilogue.storage.postgresql import PostgresqlDatabase
from trilogue.storage.sqlite import MemoryDatabase, SqliteDatabase

NewDatabase = Callable[[], Database]


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> NewDatabase:
    """Return a function that opens the same empty database again and again."""
    if request.param == "memory":
        memory = MemoryDatabase()
        return lambda: memory
    if request.param == "sqlite":
        return lambda: SqliteDatabase(tmp_path / "responses.db")
    server: Server = request.getfixturevalue("postgres")
    url = server.new_database()
    return lambda: PostgresqlDatabase(url)


def apply(database: Database, migrations: tuple[Migration, ...]) -> None:
    connection = database.connect()
    try:
        migrate(connection, database.dialect, TableSchema(SCHEMA.versions, migrations))
    finally:
        if not isinstance(database, MemoryDatabase):
            connection.close()


def use_everything(store: ResponseStore) -> None:
    store.responses.put(response("r1"))
    store.conversations.create(conversation("conv_1"), [item("m1")])
    store.jobs.start(response("r2", status="queued"), "w1")
    store.reasoning.keep([StoredReasoning(A, "call_1", b"x")])
    assert len(list(store.owners.export(A))) == 5


def test_numbers_follow_each_other() -> None:
    assert [migration.number for migration in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_every_earlier_version_is_brought_up_to_date(opened: NewDatabase, version: int) -> None:
    """What was written by that version is still there."""
    apply(opened(), MIGRATIONS[:version])
    connection = opened().connect()
    connection.execute("INSERT INTO trl_usage (owner, bytes) VALUES ('earlier', 7)")
    store = ResponseStore(opened(), [KEY])
    use_everything(store)
    assert connection.execute("SELECT bytes FROM trl_usage WHERE owner = 'earlier'") == [(7,)]
    assert len(connection.execute("SELECT number FROM trl_migration")) == len(MIGRATIONS)
    connection.close()
    store.close()


def test_a_newer_version_may_have_added_something(opened: NewDatabase) -> None:
    """During an upgrade, workers of both versions run."""
    addition = Migration(99, ("ALTER TABLE trl_response ADD COLUMN added TEXT NOT NULL DEFAULT ''",))
    apply(opened(), (*MIGRATIONS, addition))
    store = ResponseStore(opened(), [KEY])
    use_everything(store)
    store.close()


def test_a_version_that_is_too_old_refuses(opened: NewDatabase) -> None:
    apply(opened(), (*MIGRATIONS, Migration(99, ("ALTER TABLE trl_response ADD COLUMN x TEXT",), needs=99)))
    store = ResponseStore(opened(), [KEY])
    with pytest.raises(StoreUnavailable, match="newer version"):
        store.check()
    store.close()


def test_a_failed_migration_leaves_nothing(opened: NewDatabase) -> None:
    broken = Migration(len(MIGRATIONS) + 1, ("CREATE TABLE trl_half (x INTEGER)", "CREATE TABLE"))
    with pytest.raises(StoreUnavailable):
        apply(opened(), (*MIGRATIONS, broken))
    connection = opened().connect()
    assert connection.execute(opened().dialect.has_table, (SCHEMA.versions,)) == []
    connection.close()


def test_many_start_at_once(opened: NewDatabase) -> None:
    def begin(_: int) -> None:
        store = ResponseStore(opened(), [KEY])
        store.check()
        if not isinstance(opened(), MemoryDatabase):
            store.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(begin, range(6)))
    opened().connect().close()
