"""The background jobs of one worker: reports, stops, and what is concluded from late reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.state.responses.making import A, Engine, response
from tests.timing import eventually_async, pause_for
from trilogue.gateway.conversations.store import service as running
from trilogue.gateway.conversations.store.service import RunningJobs, StoreService
from trilogue.storage.database import StoreAway
from trilogue.storage.sqlite import MemoryDatabase

KEY = (A, "r1")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short intervals, in the same proportions."""
    monkeypatch.setattr(running, "REPORT_SECONDS", 0.01)
    monkeypatch.setattr(running, "SWEEP_SECONDS", 0.02)
    monkeypatch.setattr(running, "STEADY_SECONDS", 0.1)


async def until(condition: Callable[[], bool]) -> None:
    await eventually_async(condition)


def test_a_cancellation_elsewhere_stops_the_job() -> None:
    engine = Engine("memory", MemoryDatabase)

    async def main() -> None:
        service = StoreService(engine.open())
        jobs = RunningJobs(service)
        stops: list[str] = []
        await service.write(service.store.jobs.start, response("r1", status="in_progress"), jobs.worker)
        jobs.add(KEY, lambda: stops.append("r1"))
        await pause_for(0.05)
        assert stops == []
        await service.write(service.store.jobs.cancel, *KEY)
        await until(lambda: bool(stops))
        jobs.remove(KEY)
        jobs.close()
        await service.close()

    asyncio.run(main())
    engine.close()


def test_waiting_for_a_job_ends_with_its_next_event() -> None:
    engine = Engine("memory", MemoryDatabase)

    async def main() -> None:
        service = StoreService(engine.open())
        jobs = RunningJobs(service)
        jobs.add(KEY, lambda: None)
        loop = asyncio.get_running_loop()
        for wake in (jobs.changed, jobs.remove):
            began = loop.time()
            loop.call_later(0.02, wake, KEY)
            await jobs.wait(KEY, 5)
            assert loop.time() - began < 2
        await jobs.wait((A, "elsewhere"), 0.01)
        jobs.close()
        await service.close()

    asyncio.run(main())
    engine.close()


def test_a_job_that_is_not_reported_is_failed() -> None:
    """That of a dead worker, or one that its own worker has abandoned."""
    engine = Engine("memory", MemoryDatabase)

    async def main() -> None:
        service = StoreService(engine.open())
        jobs = RunningJobs(service)
        store = service.store
        for name, worker in (("r1", "dead"), ("r2", jobs.worker), ("r3", jobs.worker)):
            await service.write(store.jobs.start, response(name, status="in_progress"), worker)
        jobs.add((A, "r3"), lambda: None)
        for _ in range(4):
            engine.clock.now += 3
            await pause_for(0.1)
        await until(lambda: store.responses.get(*KEY).status == "failed")
        assert store.responses.get(A, "r2").status == "failed"
        assert store.responses.get(A, "r3").status == "in_progress"
        jobs.close()
        await service.close()

    asyncio.run(main())
    engine.close()


def test_a_store_that_was_away_made_all_reports_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that are alive get the time to report before their jobs count as those of dead ones."""
    engine = Engine("memory", MemoryDatabase)
    monkeypatch.setattr(running, "STEADY_SECONDS", 3600)

    async def main() -> None:
        service = StoreService(engine.open(), patience=0.0)
        jobs = RunningJobs(service)
        await service.write(service.store.jobs.start, response("r1", status="in_progress"), "other")
        await pause_for(0.05)
        away = True
        asked: list[bool] = []
        has_dead = service.store.jobs.has_dead

        def look(seconds: float = 6.0) -> bool:
            asked.append(away)
            if away:
                raise StoreAway("away")
            return has_dead(seconds)

        monkeypatch.setattr(service.store.jobs, "has_dead", look)
        engine.clock.now += 60
        await until(lambda: asked[-2:] == [True, True])
        away = False
        await until(lambda: asked[-3:] == [False] * 3)
        assert service.store.responses.get(*KEY).status == "in_progress"
        monkeypatch.setattr(running, "STEADY_SECONDS", 0.05)
        await until(lambda: service.store.responses.get(*KEY).status == "failed")
        jobs.close()
        await service.close()

    asyncio.run(main())
    engine.close()
