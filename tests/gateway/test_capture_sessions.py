"""Capture sessions: one quota over all workers, leases, and what a worker does with requests that may be wanted."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from trilogue.base.clock import steady_time
from trilogue.capture import CapturePhase, Sent, read_capture
from trilogue.gateway.features.capture.recording import BLOCK_BYTES, Memory, Recording
from trilogue.gateway.features.capture.session import (
    CaptureFilter,
    CaptureSession,
    SessionRequest,
    SessionStore,
    captured_requests,
)
from trilogue.gateway.features.capture.settings import CaptureSettings
from trilogue.gateway.features.capture.worker_capture import WorkerCapture, WriterThread
from trilogue.gateway.observer import Observer
from trilogue.gateway.record import RequestRecord
from trilogue.model import Failure, FailureKind, Loss, Protocol
from trilogue.net.server.request import Head
from trilogue.routing.pool.decision import Attempt, Decision

HEAD = Head("POST", "/v1/chat/completions", b"", {"content-type": "application/json"})
FAILURE = Failure(kind=FailureKind.SERVER, message="no")


class Switched:
    """The observers of a gateway: the one that captures, while it is on."""

    def __init__(self) -> None:
        self.observer: Observer | None = None

    def set(self, observer: Observer | None) -> None:
        self.observer = observer


class Worker:
    """The captures of one worker, and requests that pass through it."""

    def __init__(self, folder: Path, shared: Path | None = None, **settings: Any) -> None:
        self.capture = WorkerCapture(folder, shared)
        self.switched = Switched()
        self.capture.configure(CaptureSettings(**settings), self.switched.set)

    def begin(self, request_id: str, key: str = "", model: str = "m") -> tuple[RequestRecord, Any]:
        """Begin a request, and return its record and what observes its bytes."""
        record = RequestRecord(request_id=request_id, began_at=1.0, client="chat", path="/chat/completions", key=key)
        record.model = model
        observer = self.switched.observer
        bytes_observer = observer.bytes_observer(record, HEAD) if observer is not None else None
        if bytes_observer is not None:
            bytes_observer.inbound_request(b'{"model":"m","messages":[]}')
        record.decision = Decision(request_id=request_id, at=0.0, model=model)
        return record, bytes_observer

    def end(self, record: RequestRecord, **facts: Any) -> None:
        """End a request."""
        for name, value in {"status": 200, "ended_at": 2.0, **facts}.items():
            setattr(record, name, value)
        if self.switched.observer is not None:
            self.switched.observer.request_ended(record)

    def ask(self, request_id: str, key: str = "", model: str = "m", **facts: Any) -> None:
        self.end(self.begin(request_id, key, model)[0], **facts)

    def names(self) -> list[str]:
        """Return the requests that were captured, once everything is written."""
        asyncio.run(self.capture.aclose())
        return sorted(path.stem for path in self.capture.folder.files())

    def start(self, requests: int = 10, **asked: Any) -> CaptureSession:
        session, is_new = self.capture.start(SessionRequest(requests=requests, **asked))
        assert is_new
        assert session is not None
        self.capture.refresh()
        return session


def test_nothing_observes_requests_until_a_session_starts(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    assert worker.switched.observer is None
    session = worker.start()
    assert worker.switched.observer is not None
    worker.ask("req_1")
    assert worker.names() == ["req_1"]
    worker.capture.stop(session.id)
    worker.capture.refresh()
    assert worker.switched.observer is None


def test_two_workers_capture_exactly_as_many_as_were_asked_for(tmp_path: Path) -> None:
    """Both have requests at the same time, and each knows only its own."""
    workers = [Worker(tmp_path / "captures", tmp_path) for _ in range(2)]
    workers[0].start(15)
    workers[1].capture.refresh()

    def ask(worker: Worker, name: str) -> None:
        for number in range(20):
            worker.ask(f"req_{name}{number}")
        worker.names()

    threads = [threading.Thread(target=ask, args=(worker, name)) for worker, name in zip(workers, "ab", strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session = workers[0].capture.latest_session
    assert session is not None
    assert session.state(steady_time()) == "complete"
    assert sorted(one.request_id for one in session.captured) == workers[0].names()
    assert len(workers[0].names()) == 15
    for worker in workers:
        worker.capture.tick()
        assert worker.switched.observer is None


def test_the_first_requests_to_begin_are_captured_not_the_first_to_end(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.start(2)
    slow, _ = worker.begin("req_slow")
    other, _ = worker.begin("req_other")
    late, observer = worker.begin("req_late")
    assert observer is None
    worker.end(late)
    worker.end(other)
    worker.end(slow)
    assert worker.names() == ["req_other", "req_slow"]


def test_a_request_with_another_model_gives_its_place_to_the_next(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.start(1, model="gpt-*")
    other, _ = worker.begin("req_other", model="claude")
    attempt = Attempt(provider="up", account="a", model="x", how="strategy")
    assert worker.switched.observer is not None
    worker.switched.observer.attempt_began(other, attempt)
    worker.ask("req_meant", model="gpt-5")
    worker.end(other)
    assert worker.names() == ["req_meant"]


@pytest.mark.parametrize(
    ("wanted", "captured"),
    [
        ({"key": "k"}, ["req_key"]),
        ({"errors": True}, ["req_error"]),
        ({"losses": True}, ["req_loss"]),
        ({"errors": True, "losses": True}, ["req_error", "req_loss"]),
        ({"model": "up/x"}, ["req_model"]),
    ],
)
def test_which_requests_a_session_wants(tmp_path: Path, wanted: dict[str, Any], captured: list[str]) -> None:
    worker = Worker(tmp_path)
    worker.start(10, **wanted)
    worker.ask("req_plain")
    worker.ask("req_key", key="k")
    worker.ask("req_error", status=503, failure=FAILURE, error="server")
    worker.ask("req_gone", status=499, error="client_gone")
    worker.ask("req_loss", losses=[Loss("param.dropped", "top_k")])
    record, _ = worker.begin("req_model")
    assert record.decision is not None
    record.decision.attempts = [Attempt(provider="up", account="a", model="x", how="strategy")]
    worker.end(record)
    assert worker.names() == captured


def test_a_session_that_nobody_asks_about_ends_by_itself(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "captures", tmp_path)
    session = worker.start(lease_seconds=100)
    assert session.state(session.leased_until - 1) == "running"
    assert session.state(session.leased_until) == "abandoned"
    renewed = worker.capture.renew(session.id)
    assert renewed is not None
    assert renewed.leased_until >= session.leased_until
    assert worker.capture.renew("another") == renewed
    SessionStore(tmp_path).update(lambda latest: latest and replace(latest, leased_until=0.0))
    worker.capture.tick()
    assert worker.switched.observer is not None
    worker.capture.refresh()
    assert worker.switched.observer is None
    assert worker.capture.renew(session.id) == worker.capture.latest_session
    assert worker.start().id != session.id


def test_a_second_session_is_refused(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    first = worker.start()
    assert worker.capture.start(SessionRequest(requests=1)) == (first, False)


def test_a_session_and_the_configuration_want_the_same_request(tmp_path: Path) -> None:
    """It is one file, redacted if one of the two says so."""
    worker = Worker(tmp_path, sample=1.0, errors=True)
    worker.start(1, redact=True)
    worker.ask("req_1", status=400, failure=FAILURE, error="server")
    assert worker.names() == ["req_1"]
    [listed] = captured_requests(worker.capture.folder, 10)
    assert listed.redacted
    assert worker.capture.written == 1
    assert read_capture(worker.capture.folder.read("req_1") or b"").record["reason"] == "xx"


def test_a_sample_is_a_share(tmp_path: Path) -> None:
    worker = Worker(tmp_path, sample=0.5, max_files=1000)
    for number in range(60):
        worker.ask(f"req_{number}")
    assert 10 < len(worker.names()) < 50


def test_memory_is_limited(tmp_path: Path) -> None:
    """A recording that would take more is given up and counted; the others are not disturbed."""
    worker = Worker(tmp_path, sample=1.0)
    worker.capture.memory.most = 3 * BLOCK_BYTES
    large, observer = worker.begin("req_large")
    small, _ = worker.begin("req_small")
    observer.outbound_head(200, [])
    observer.outbound_response(b"x" * 3 * BLOCK_BYTES, 1.5)
    observer.outbound_response(b"x", 1.6)
    worker.end(large)
    worker.end(small)
    assert worker.names() == ["req_small"]
    assert dict(worker.capture.dropped) == {"memory": 1}
    assert worker.capture.memory.used == 0


def test_the_end_of_a_long_response_is_left_out() -> None:
    """Its size is counted, so that nobody takes the capture for complete."""
    memory = Memory(1_000_000)
    record = RequestRecord(request_id="req_1", began_at=1.0, client="chat", ended_at=2.0)
    recording = Recording(record, HEAD, memory, 1_000)
    recording.inbound_request(b"{}")
    attempt = Attempt(provider="up", account="a", model="x", how="strategy")
    recording.provider_request(attempt, Sent(protocol=Protocol.CHAT, url="http://x/", input=b"{}"))
    recording.upstream_head(attempt, 200, [])
    for _ in range(3):
        recording.upstream_response(attempt, b"y" * 600, 1.5)
    capture = read_capture(recording.file(redact=False, most_bytes=100_000, version="1"))
    assert capture.omitted == 1_200
    assert len(capture.attempts[0].response.body) == 600
    assert capture.attempts[0].response.omitted == 1_200
    assert capture.attempts[0].input == b""
    assert CapturePhase.UPSTREAM_RESPONSE.value == "upstream_response"
    recording.discard()
    assert memory.used == 0


def test_captures_that_come_too_fast_are_dropped_and_counted(tmp_path: Path) -> None:
    """The thread is busy with one, another waits, and there is no room for the third."""
    worker = Worker(tmp_path, sample=1.0)
    worker.capture.thread = WriterThread(1)
    go_on, is_busy = threading.Event(), threading.Event()

    def block() -> None:
        is_busy.set()
        go_on.wait(10)

    worker.capture.thread.put(block)
    assert is_busy.wait(10)
    worker.ask("req_1")
    worker.ask("req_2")
    go_on.set()
    assert worker.names() == ["req_1"]
    assert dict(worker.capture.dropped) == {"busy": 1}


def test_a_filter_without_conditions_matches_everything() -> None:
    record = RequestRecord(request_id="req_1", began_at=1.0)
    assert CaptureFilter().matches(record, 0)
    assert CaptureFilter(errors=True).matches(record, 1)
    assert not CaptureFilter(errors=True).matches(record, 0)
