"""The contract of background jobs, on every engine."""

from __future__ import annotations

from functools import partial

import pytest

from tests.state.responses.making import A, B, Engine, body, conversation, item, response, total_bytes
from trilogue.gateway.conversations.store.store import ResponseStore
from trilogue.gateway.conversations.store.types import (
    WORKER_DIED,
    Append,
    ConversationLease,
    ConversationLocked,
    JobEnded,
    JobEvent,
    NotFound,
)


def start(store: ResponseStore, identifier: str = "r1", worker: str = "w1", owner: str = A) -> None:
    store.jobs.start(response(identifier, owner, status="queued"), worker)


def test_a_job_runs_and_ends(store: ResponseStore) -> None:
    start(store)
    assert store.responses.get(A, "r1").status == "queued"
    store.jobs.save(response("r1", status="in_progress"), "w1", [b"created", b"in_progress"])
    store.jobs.add_events((A, "r1"), "w1", [b"delta"])
    running = store.jobs.events(A, "r1")
    assert [event.data for event in running.events] == [b"created", b"in_progress", b"delta"]
    assert (running.job.ended, running.job.last_event) == (False, 2)
    store.jobs.save(response("r1", body=body("r1", "done")), "w1", [b"completed"])
    ended = store.jobs.events(A, "r1", starting_after=1)
    assert ended.events == (JobEvent(2, b"delta"), JobEvent(3, b"completed"))
    assert (ended.job.ended, ended.job.last_event) == (True, 3)
    assert store.responses.get(A, "r1").status == "completed"
    assert store.jobs.events(A, "r1", starting_after=3).events == ()


def test_a_reader_continues_inside_a_group_of_events(store: ResponseStore) -> None:
    start(store)
    store.jobs.add_events((A, "r1"), "w1", [b"0", b"1", b"2"])
    store.jobs.add_events((A, "r1"), "w1", [b"3"])
    for after in range(-1, 4):
        found = store.jobs.events(A, "r1", starting_after=after).events
        assert [event.number for event in found] == list(range(after + 1, 4))


def test_many_events_are_read_in_parts(store: ResponseStore) -> None:
    start(store)
    store.together([partial(store.jobs.add_events, (A, "r1"), "w1", [b"%d" % number]) for number in range(450)])
    read: list[JobEvent] = []
    while found := store.jobs.events(A, "r1", read[-1].number if read else -1).events:
        read += found
    assert [event.data for event in read] == [b"%d" % number for number in range(450)]


def test_cancel_reaches_the_worker(engine: Engine) -> None:
    worker, other = engine.open(), engine.open()
    start(worker)
    start(worker, "r2")
    running = {(A, "r1"), (A, "r2")}
    assert worker.jobs.report("w1", running) == set()
    assert other.jobs.cancel(A, "r1").cancel
    assert worker.jobs.report("w1", running) == {(A, "r1")}
    worker.jobs.save(response("r1", status="cancelled"), "w1")
    assert other.jobs.cancel(A, "r1").ended
    assert worker.jobs.report("w1", {(A, "r2")}) == set()


def test_a_deleted_job_is_stopped_and_stays_deleted(store: ResponseStore) -> None:
    start(store)
    store.jobs.add_events((A, "r1"), "w1", [b"0"])
    store.responses.delete(A, "r1")
    assert store.jobs.report("w1", {(A, "r1")}) == {(A, "r1")}
    with pytest.raises(JobEnded):
        store.jobs.save(response("r1"), "w1")
    with pytest.raises(JobEnded):
        store.jobs.add_events((A, "r1"), "w1", [b"1"])
    with pytest.raises(NotFound):
        store.responses.get(A, "r1")
    assert total_bytes(store) == 0


def test_a_dead_worker_leaves_failed_jobs(engine: Engine) -> None:
    dead, alive = engine.open(), engine.open()
    start(dead, "r1", "dead")
    start(alive, "r2", "alive")
    start(dead, "r3", "dead", B)
    for _ in range(4):
        engine.clock.now += 2.0
        alive.jobs.report("alive", {(A, "r2")})
    failed = alive.jobs.fail_dead(6.0)
    assert {(job.owner, job.id) for job in failed} == {(A, "r1"), (B, "r3")}
    assert alive.jobs.fail_dead(6.0) == ()
    got = alive.responses.get(A, "r1")
    assert (got.status, got.failure) == ("failed", WORKER_DIED)
    assert alive.responses.get(A, "r2").status == "queued"
    assert alive.jobs.get(A, "r1").ended


def test_a_worker_that_comes_back_cannot_change_a_failed_job(engine: Engine) -> None:
    store = engine.open()
    start(store)
    engine.clock.now += 7.0
    store.jobs.fail_dead(6.0)
    with pytest.raises(JobEnded):
        store.jobs.save(response("r1"), "w1", [b"completed"])
    assert store.responses.get(A, "r1").status == "failed"
    assert store.jobs.events(A, "r1").events == ()


def test_another_worker_cannot_write(store: ResponseStore) -> None:
    start(store)
    with pytest.raises(JobEnded):
        store.jobs.save(response("r1"), "w2")


def test_the_end_of_a_job_appends_to_its_conversation(store: ResponseStore) -> None:
    store.conversations.create(conversation("conv_1"))
    start(store)
    with pytest.raises(ConversationLocked):
        store.jobs.save(response("r1"), "w1", [b"0"], Append(ConversationLease(A, "conv_1", "lost"), (item("m1"),)))
    assert not store.jobs.get(A, "r1").ended
    lease = store.conversations.lock(A, "conv_1", "w1-r1", 60.0)
    store.jobs.save(response("r1"), "w1", [b"0"], Append(lease, (item("m1"),)))
    assert store.jobs.get(A, "r1").ended
    assert store.conversations.all_items(A, "conv_1") == (item("m1"),)


def test_events_count_and_are_counted_down(store: ResponseStore) -> None:
    start(store)
    before = total_bytes(store)
    store.jobs.add_events((A, "r1"), "w1", [b"x" * 1_000])
    assert total_bytes(store) > before + 1_000
    store.owners.delete(A)
    store.responses.put(response("r2"))
    size = total_bytes(store)
    store.owners.delete(A)
    assert 0 < size < 1_000
