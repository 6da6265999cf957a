"""What only a server can suffer: restarts, absence, clocks that differ, passwords in its URL."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from importlib import import_module

import psycopg
import pytest

from tests.state.responses.making import KEY, A, response
from tests.state.responses.postgres import Server
from trilogue.gateway.conversations.store.service import StoreService
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import StoreAway, StoreUnavailable
from trilogue.storage import postgresql
from trilogue.storage.postgresql import PostgresqlDatabase


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Return a server of these tests alone, since they stop it."""
    made = Server()
    made.start()
    yield made
    made.remove()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_restart_between_two_calls_is_not_noticed(server: Server, how: signal.Signals) -> None:
    store = ResponseStore(PostgresqlDatabase(server.new_database()), [KEY])
    store.responses.put(response("r1"))
    server.stop(how)
    server.start()
    assert store.responses.get(A, "r1").id == "r1"
    server.stop(how)
    server.start()
    store.responses.put(response("r2"))
    assert store.responses.get(A, "r2").id == "r2"
    store.close()


def test_a_server_that_is_away(server: Server) -> None:
    store = ResponseStore(PostgresqlDatabase(server.new_database()), [KEY])
    store.responses.put(response("r1"))
    server.stop()
    try:
        with pytest.raises(StoreAway):
            store.responses.get(A, "r1")
        outcomes = store.together([lambda: store.responses.put(response("r2"))] * 2)
        assert [type(outcome) for outcome in outcomes] == [StoreAway, StoreAway]
    finally:
        server.start()
    assert store.responses.get(A, "r1").id == "r1"
    store.close()


def test_a_connection_lost_in_the_middle_of_a_transaction_writes_nothing(server: Server) -> None:
    url = server.new_database()
    store = ResponseStore(PostgresqlDatabase(url), [KEY])
    store.check()

    def interrupted() -> None:
        store.responses.put(response("r1"))
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'trilogue' AND datname = current_database()"
            )
        store.responses.put(response("r2"))

    assert [type(outcome) for outcome in store.together([interrupted])] == [StoreAway]
    assert store.owners.statistics() == ()
    store.close()


@pytest.mark.slow
def test_requests_wait_while_the_server_is_away(server: Server) -> None:
    """A server that is restarted costs its clients some seconds and no error."""

    async def run() -> tuple[int, float]:
        store = ResponseStore(PostgresqlDatabase(server.new_database()), [KEY])
        service = StoreService(store)
        await service.write(store.responses.put, response("before"))
        await asyncio.to_thread(server.stop)
        threading.Timer(2.0, server.start).start()
        start = time.monotonic()
        puts = [service.write(store.responses.put, response(f"r{number}")) for number in range(20)]
        reads = [service.read(store.responses.get, A, "before") for _ in range(10)]
        await asyncio.gather(*puts, *reads)
        took = time.monotonic() - start
        found = (await service.read(store.owners.statistics))[0].responses
        await service.close()
        return found, took

    found, took = asyncio.run(run())
    assert found == 21
    assert took >= 1.5


@pytest.mark.slow
def test_a_service_gives_up_after_a_while(server: Server) -> None:
    async def run() -> None:
        store = ResponseStore(PostgresqlDatabase(server.new_database()), [KEY])
        service = StoreService(store, patience=0.5)
        await asyncio.to_thread(server.stop)
        try:
            with pytest.raises(StoreAway):
                await service.write(store.responses.put, response("r1"))
            with pytest.raises(StoreAway):
                await service.read(store.responses.get, A, "r1")
        finally:
            await asyncio.to_thread(server.start)
        await service.write(store.responses.put, response("r1"))
        await service.close()

    asyncio.run(run())


def test_all_machines_use_the_clock_of_the_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = server.new_database()
    ahead = PostgresqlDatabase(url)
    real = time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: real() + 1_000.0)
        store = ResponseStore(ahead, [KEY])
        store.jobs.start(response("r1", status="queued"), "w1")
        assert abs(ahead.now() - real()) < 5.0
    other = ResponseStore(PostgresqlDatabase(url), [KEY])
    assert other.jobs.fail_dead(6.0) == ()
    assert abs(other.jobs.get(A, "r1").seen - real()) < 5.0
    store.close()
    other.close()


def test_no_password_in_names_and_errors() -> None:
    database = PostgresqlDatabase("postgresql://user:not-a-real-password@127.0.0.1:1/responses")
    assert database.name == "postgresql://127.0.0.1/responses"
    with pytest.raises(StoreAway) as caught:
        database.connect()
    assert "password" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        if name == "psycopg":
            raise ImportError(name)
        return import_module(name)

    postgresql._library.cache_clear()
    monkeypatch.setattr(postgresql, "import_module", missing)
    with pytest.raises(StoreUnavailable, match=r"trilogue\[postgresql\]"):
        PostgresqlDatabase("postgresql://127.0.0.1/x").connect()
