"""A background job and its store: what is stored of a stream, and what happens if the store refuses or is slow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.timing import eventually_async
from trilogue.gateway.conversations import jobs
from trilogue.gateway.conversations.jobs import CANCELLED, FAILED, BackgroundJob
from trilogue.gateway.conversations.request_fields import read_state_fields
from trilogue.gateway.conversations.store.types import (
    CommitUnsure,
    JobEvents,
    NotFound,
    StoreLimits,
    StoreUnavailable,
)
from trilogue.gateway.conversations.stores import GatewayStore
from trilogue.gateway.conversations.turn import begin_turn
from trilogue.storage.locations import MEMORY

KEY = b"fake key for tests: not a secret"
OWNER = "owner"
OPENING = {"id": "resp_job", "created_at": 7, "status": "in_progress", "background": True, "store": True, "output": []}


def frame(kind: str, **fields: Any) -> bytes:
    """Return an event as an upstream sends it, with a number that only makes sense there."""
    data = json.dumps({"type": kind, "sequence_number": 40, **fields})
    return f"event: {kind}\ndata: {data}\n\n".encode()


def completed(text: str = "done") -> bytes:
    output = [{"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": text}]}]
    return frame("response.completed", response={"id": "resp_theirs", "status": "completed", "output": output})


STREAM = (
    frame("response.created", response={"id": "resp_theirs"}),
    frame("response.in_progress", response={"id": "resp_theirs"}),
    frame("response.output_text.delta", delta="do"),
    b": keepalive\n\n",
    frame("response.output_text.delta", delta="ne"),
)
KINDS = ["created", "queued", "in_progress", "output_text.delta", "output_text.delta"]


def run(test: Callable[[GatewayStore, BackgroundJob], Awaitable[None]], limits: StoreLimits | None = None) -> None:
    """Run a test with a job that has started."""

    async def main() -> None:
        store = GatewayStore(MEMORY, [KEY], limits or StoreLimits())
        request = b'{"model":"m","input":"hello","background":true}'
        turn = begin_turn(store, OWNER, request, read_state_fields(request))
        await turn.look_up()
        job = BackgroundJob(turn, OPENING)
        await job.start()
        try:
            await test(store, job)
        finally:
            await store.close()

    asyncio.run(main())


async def events(store: GatewayStore) -> JobEvents:
    return await store.service.read(store.store.jobs.events, OWNER, "resp_job", -1)


async def body(store: GatewayStore) -> Any:
    return json.loads((await store.service.read(store.store.responses.get, OWNER, "resp_job")).body)


def parsed(found: JobEvents) -> list[Any]:
    return [json.loads(event.data.split(b"data: ")[1]) for event in found.events]


def kinds(found: JobEvents) -> list[str]:
    return [event["type"].removeprefix("response.") for event in parsed(found)]


def test_events_have_the_id_and_the_numbers_of_the_job() -> None:
    async def test(store: GatewayStore, job: BackgroundJob) -> None:
        for piece in STREAM:
            job.put(piece)
        # In two pieces, as bytes may come.
        end = completed()
        job.put(end[:30])
        job.put(end[30:])
        await job.finish(FAILED, b"{}")
        found = await events(store)
        assert kinds(found) == [*KINDS, "completed"]
        assert [event["sequence_number"] for event in parsed(found)] == list(range(6))
        assert {event["response"]["id"] for event in parsed(found) if "response" in event} == {"resp_job"}
        assert found.job.ended
        done = await body(store)
        assert (done["id"], done["created_at"], done["background"], done["store"]) == ("resp_job", 7, True, True)
        assert store.jobs.count == 0

    run(test)


def test_events_are_stored_while_it_runs() -> None:
    async def test(store: GatewayStore, job: BackgroundJob) -> None:
        assert kinds(await events(store)) == KINDS[:3]
        for piece in STREAM:
            job.put(piece)
        await store.jobs.wait(job.key, 5)
        found = await events(store)
        assert (kinds(found), found.job.ended) == (KINDS, False)
        assert (await body(store))["status"] == "in_progress"
        await job.finish(CANCELLED, job.response("cancelled"))
        assert kinds(await events(store)) == [*KINDS, "cancelled"]
        assert (await body(store))["status"] == "cancelled"

    run(test)


def test_a_commit_that_may_have_happened_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(store: GatewayStore, job: BackgroundJob) -> None:
        add = store.store.jobs.add_events
        calls: list[int] = []

        def unsure(*args: Any) -> None:
            calls.append(len(args[2]))
            add(*args)
            raise CommitUnsure("lost")

        monkeypatch.setattr(store.store.jobs, "add_events", unsure)
        for piece in STREAM:
            job.put(piece)
        await store.jobs.wait(job.key, 5)
        assert calls == [2]
        job.put(completed())
        await job.finish(FAILED, b"{}")
        assert kinds(await events(store)) == [*KINDS, "completed"]

    run(test)


def test_a_slow_store_slows_the_upstream_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, and no more than the limit waits."""
    monkeypatch.setattr(jobs, "MOST_WAITING", 200)
    monkeypatch.setattr(jobs, "RETRY_SECONDS", 0.01)

    async def test(store: GatewayStore, job: BackgroundJob) -> None:
        add, flow, fails = store.store.jobs.add_events, list[bool](), [True, True]

        def failing(*args: Any) -> None:
            if fails and fails.pop():
                raise StoreUnavailable("full")
            add(*args)

        monkeypatch.setattr(store.store.jobs, "add_events", failing)
        job.on_flow = flow.append
        for number in range(5):
            job.put(frame("response.output_text.delta", delta=f"{number}" * 50))
        assert (job.paused, flow) == (True, [True])
        async with asyncio.timeout(5):
            await job.drained()
        assert (job.paused, flow) == (False, [True, False])
        assert kinds(await events(store)) == [*KINDS[:3], *["output_text.delta"] * 5]
        await job.finish(CANCELLED, job.response("cancelled"))

    run(test)


def test_an_end_that_cannot_be_stored_is_a_failure() -> None:
    """A response that is larger than the limit: the client learns why."""

    async def test(store: GatewayStore, job: BackgroundJob) -> None:
        job.put(completed("x" * 20_000))
        await job.finish(FAILED, b"{}")
        failed = await body(store)
        assert (failed["status"], failed["error"]["code"]) == ("failed", "response_not_storable")
        assert kinds(await events(store))[-1] == "failed"

    run(test, StoreLimits(owner_bytes=10_000))


def test_a_store_that_is_away_at_the_end_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "RETRY_SECONDS", 0.01)

    async def test(store: GatewayStore, job: BackgroundJob) -> None:
        save, fails = store.store.jobs.save, [True, True]

        def failing(*args: Any) -> None:
            if fails and fails.pop():
                raise StoreUnavailable("full")
            save(*args)

        monkeypatch.setattr(store.store.jobs, "save", failing)
        job.put(completed())
        await job.finish(FAILED, b"{}")
        assert (await body(store))["status"] == "completed"

    run(test)


def test_a_deleted_job_stops_once() -> None:
    async def test(store: GatewayStore, job: BackgroundJob) -> None:
        stops: list[str] = []
        job.on_stop = lambda: stops.append("stop")
        await store.service.write(store.store.responses.delete, OWNER, "resp_job")
        job.put(STREAM[2])
        await eventually_async(lambda: stops)
        job.stop()
        assert stops == ["stop"]
        await job.finish(CANCELLED, job.response("cancelled"))
        with pytest.raises(NotFound):
            await body(store)

    run(test)
