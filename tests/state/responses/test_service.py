"""The front for event loops: grouped writes, errors for those they concern, and no blocking."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.state.responses.making import KEY, A, Engine, conversation, item, response
from tests.timing import PATIENCE, turns
from trilogue.gateway.conversations.store import service as module
from trilogue.gateway.conversations.store.service import StoreService
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import (
    Append,
    CommitUnsure,
    ConversationLocked,
    NotFound,
    StoreLimits,
    StoreUnavailable,
)
from trilogue.storage.database import StoreHealth
from trilogue.storage.sqlite import SqliteDatabase


class CountedStore(ResponseStore):
    """A store that remembers the sizes of its groups."""

    groups: list[int]

    def together(self, writes: object) -> list[object]:
        assert isinstance(writes, list)
        self.groups.append(len(writes))
        return super().together(writes)


def run(
    path: Path, use: Callable[[StoreService], Awaitable[None]], limits: StoreLimits | None = None, **settings: float
) -> list[int]:
    """Run a test with a service on a new file, and return the sizes of its groups."""
    store = CountedStore(SqliteDatabase(path / "responses.db"), [KEY], limits)
    store.groups = []

    async def main() -> None:
        service = StoreService(store, **settings)
        try:
            await use(service)
        finally:
            await service.close()

    asyncio.run(main())
    return store.groups


def test_what_waits_together_is_written_together(tmp_path: Path) -> None:
    async def use(service: StoreService) -> None:
        store = service.store
        writes = [service.write(store.responses.put, response(f"r{number}")) for number in range(500)]
        await asyncio.gather(*writes)
        assert (await service.read(store.owners.statistics))[0].responses == 500

    groups = run(tmp_path, use)
    assert sum(groups) == 500
    assert len(groups) <= 5
    assert max(groups) <= 200


def test_each_caller_gets_its_own_outcome(tmp_path: Path) -> None:
    async def use(service: StoreService) -> None:
        store = service.store
        outcomes = await asyncio.gather(
            service.write(store.responses.put, response("r1")),
            service.write(store.responses.delete, A, "nope"),
            service.write(store.responses.put, response("large", body=b"x" * 6_000)),
            service.write(store.conversations.create, conversation("conv_1")),
            service.write(store.conversations.lock, A, "conv_1", "me", 5.0),
            return_exceptions=True,
        )
        assert [type(outcome).__name__ for outcome in outcomes] == [
            "NoneType",
            "NotFound",
            "NotStorable",
            "NoneType",
            "ConversationLease",
        ]
        with pytest.raises(NotFound):
            await service.read(store.responses.get, A, "large")

    run(tmp_path, use, StoreLimits(owner_bytes=5_000))


def test_a_bug_in_one_write_does_not_fail_the_others(tmp_path: Path) -> None:
    def bug(store: ResponseStore) -> None:
        store.responses.put(response("half"))
        raise ZeroDivisionError

    async def use(service: StoreService) -> None:
        store = service.store
        await service.write(store.responses.put, response("first"))
        outcomes = await asyncio.gather(
            service.write(store.responses.put, response("r1")),
            service.write(bug, store),
            service.write(store.responses.put, response("r2")),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [type(None), ZeroDivisionError, type(None)]
        assert (await service.read(store.responses.get, A, "r2")).id == "r2"
        with pytest.raises(NotFound):
            await service.read(store.responses.get, A, "half")

    run(tmp_path, use)


def test_a_slow_disk_delays_neither_the_loop_nor_readers(tmp_path: Path) -> None:
    async def use(service: StoreService) -> None:
        store = service.store
        await service.write(store.responses.put, response("r1"))
        other = sqlite3.connect(tmp_path / "responses.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        slow = asyncio.create_task(service.write(store.responses.put, response("r2")))
        longest, last = 0.0, time.monotonic()
        for _ in range(50):
            await turns()
            assert (await service.read(store.responses.get, A, "r1")).id == "r1"
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        assert longest < 0.3
        assert not slow.done()
        other.execute("ROLLBACK")
        other.close()
        await slow

    run(tmp_path, use)


def test_a_write_that_takes_too_long_is_an_error(tmp_path: Path) -> None:
    hold = threading.Event()

    async def use(service: StoreService) -> None:
        with pytest.raises(CommitUnsure):
            await service.write(hold.wait, 5.0)
        with pytest.raises(StoreUnavailable):
            await service.read(hold.wait, 5.0)
        assert service.health == StoreHealth(failing=True, failures=2)
        hold.set()
        await service.write(str)
        assert not service.health.failing

    run(tmp_path, use, timeout=0.2)


def test_too_many_waiting_writes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    hold = threading.Event()

    async def use(service: StoreService) -> None:
        waiting = [asyncio.create_task(service.write(hold.wait, 5.0)) for _ in range(4)]
        await turns()
        with pytest.raises(StoreUnavailable, match="waiting"):
            await service.write(hold.wait, 5.0)
        assert service.health == StoreHealth(failing=True, waiting=3, failures=1)
        hold.set()
        assert await asyncio.gather(*waiting) == [True] * 4

    run(tmp_path, use)


def test_a_cancelled_caller_does_not_undo_its_write(tmp_path: Path) -> None:
    """The client disconnects while its response is being stored."""

    async def use(service: StoreService) -> None:
        task = asyncio.create_task(service.write(service.store.responses.put, response("r1")))
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(tmp_path, use)
    store = ResponseStore(SqliteDatabase(tmp_path / "responses.db"), [KEY])
    assert store.responses.get(A, "r1").id == "r1"
    store.close()


def test_close_finishes_what_waits(tmp_path: Path) -> None:
    tasks: list[asyncio.Task[None]] = []

    async def use(service: StoreService) -> None:
        for number in range(300):
            tasks.append(asyncio.create_task(service.write(service.store.responses.put, response(f"r{number}"))))
        await turns()
        await service.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await service.write(service.store.responses.put, response("late"))
        with pytest.raises(StoreUnavailable, match="closed"):
            await service.read(service.store.responses.get, A, "r1")
        await asyncio.gather(*tasks)

    run(tmp_path, use)
    store = ResponseStore(SqliteDatabase(tmp_path / "responses.db"), [KEY])
    assert store.owners.statistics()[0].responses == 300
    store.close()


def test_requests_on_one_conversation_take_turns(durable: Engine) -> None:
    """Each sees everything that was appended before it, in two gateway as in two workers."""

    async def turn(service: StoreService, name: str) -> None:
        store = service.store
        lease = await service.lock(A, "conv_1", patience=30.0)
        seen = await service.read(store.conversations.all_items, A, "conv_1")
        await turns(20)  # the others have the chance to come between
        made = response(name, request=b"%d" % len(seen))
        await service.write(store.responses.put, made, Append(lease, (item(f"m_{name}"),)))

    async def main() -> list[int]:
        gateway = [StoreService(durable.open()), StoreService(durable.open())]
        store = gateway[0].store
        await gateway[0].write(store.conversations.create, conversation("conv_1"))
        await asyncio.gather(*(turn(gateway[number % 2], f"r{number}") for number in range(12)))
        found = [int((await gateway[0].read(store.responses.get, A, f"r{n}")).request) for n in range(12)]
        for service in gateway:
            await service.close()
        return found

    assert sorted(asyncio.run(main())) == list(range(12))


def test_a_conversation_that_stays_locked(tmp_path: Path) -> None:
    async def use(service: StoreService) -> None:
        store = service.store
        await service.write(store.conversations.create, conversation("conv_1"))
        lease = await service.lock(A, "conv_1")
        with pytest.raises(ConversationLocked):
            await service.lock(A, "conv_1", patience=0.2)
        await service.renew(lease)
        await service.write(store.conversations.unlock, lease)
        await service.lock(A, "conv_1", patience=0.0)
        with pytest.raises(ConversationLocked):
            await service.renew(lease)
        with pytest.raises(NotFound):
            await service.lock(A, "conv_2", patience=5.0)

    run(tmp_path, use)


def test_it_prunes_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRUNE_SECONDS", 0.05)

    async def use(service: StoreService) -> None:
        store = service.store
        writes = [service.write(store.responses.put, response(f"r{number}")) for number in range(250)]
        await asyncio.gather(*writes)
        async with asyncio.timeout(PATIENCE):
            while await service.read(store.owners.statistics):
                await turns()

    run(tmp_path, use, StoreLimits(seconds=0.3))
