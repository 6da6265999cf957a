from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.state.responses.making import Engine
from tests.state.responses.postgres import Server
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.storage.postgresql import PostgresqlDatabase
from trilogue.storage.sqlite import MemoryDatabase, SqliteDatabase


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Return an empty database of each engine in turn."""
    made = new_engine(request, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Return an empty database of each engine that several processes can share."""
    made = new_engine(request, tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(engine: Engine) -> ResponseStore:
    return engine.open()


def new_engine(request: pytest.FixtureRequest, folder: Path) -> Engine:
    if request.param == "memory":
        return Engine("memory", MemoryDatabase)
    if request.param == "sqlite":
        path = folder / "state" / "responses.db"
        return Engine("sqlite", lambda clock: SqliteDatabase(path, clock), path)
    server: Server = request.getfixturevalue("postgres")
    url = server.empty_database()
    return Engine("postgresql", lambda clock: PostgresqlDatabase(url, clock))
