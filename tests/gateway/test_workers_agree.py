"""Several workers as one gateway: whoever answers the admin knows what the others did, kept on disk or not."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.pooling import ADMIN_KEY, Pooled, accepting, config, pooled, ranked, secret
from tests.gateway.process import pool_file, until
from tests.gateway.wire import Answer
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

KEPT = {"kept": "", "not kept": "pool: {persist: false}\n"}
EITHER = pytest.mark.parametrize("kept", KEPT)


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running(accepting("a", "b")) as running:
        yield running


@pytest.fixture(autouse=True)
def _everybody_answers(up: ScriptedUpstream) -> None:
    up.by_key = {secret("a"): "text", secret("b"): "text"}
    up.requests.clear()


@contextmanager
def two(folder: Path, up: ScriptedUpstream, kept: str) -> Iterator[Pooled]:
    """A gateway of two workers, with a place of its own for temporary files."""
    text = config(ranked("a", "b"), provider="pool: {sticky: false}", more=KEPT[kept], workers=2)
    with tempfile.TemporaryDirectory(prefix="t-") as place, pooled(folder, text, up, environ={"TMPDIR": place}) as pool:
        until(lambda: len(pool.gateway.children()) == 2)
        until(lambda: len(list(Path(place).glob("*/*.sock"))) == 2)
        yield pool
        pool.gateway.signal(signal.SIGTERM)
        assert pool.gateway.process.wait(30) == 0
        assert list(Path(place).iterdir()) == []


def ask_one(pool: Pooled, worker: int) -> Answer:
    """A request that this worker answers, because the other one is stopped."""
    others = [pid for pid in pool.gateway.children() if pid != worker]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        answer = pool.ask(Protocol.CHAT, "chat/text")
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)
    assert answer.status == 200
    return answer


def admin(pool: Pooled, path: str, method: str = "GET", **query: str) -> Any:
    """On a connection of its own, which either of them may take."""
    headers = {"authorization": f"Bearer {ADMIN_KEY}", "connection": "close"}
    return httpx2.request(method, f"{str(pool.admin.base_url).rstrip('/')}{path}", headers=headers, params=query)


@EITHER
def test_decisions_of_all_workers(tmp_path: Path, up: ScriptedUpstream, kept: str) -> None:
    """The latest first, and each by its id."""
    with two(tmp_path, up, kept) as pool:
        first, second = pool.gateway.children()
        ids = [ask_one(pool, worker).headers["x-request-id"] for worker in (first, second, first)]
        for _ in range(8):
            listed = admin(pool, "/decisions").json()["decisions"]
            assert [one["request_id"] for one in listed] == ids[::-1]
            for request_id in ids:
                assert admin(pool, "/decisions", request_id=request_id).json()["request_id"] == request_id
        for nonsense in ("req_none", "x\ny", "", "é" * 200):
            assert admin(pool, "/decisions", request_id=nonsense).status_code in (200, 404)
        assert admin(pool, "/decisions", request_id="req_none").status_code == 404


def test_a_worker_that_is_gone_has_nothing_to_say(tmp_path: Path, up: ScriptedUpstream) -> None:
    """The others answer as before, and its successor too."""
    with two(tmp_path, up, "kept") as pool:
        first, second = pool.gateway.children()
        kept = ask_one(pool, second).headers["x-request-id"]
        os.kill(first, signal.SIGKILL)
        until(lambda: first not in pool.gateway.children() and len(pool.gateway.children()) == 2)
        until(lambda: pool.gateway.log.count("worker died") == 1)
        for _ in range(6):
            assert admin(pool, "/decisions", request_id=kept).status_code == 200


@EITHER
def test_what_a_hand_does_reaches_all(tmp_path: Path, up: ScriptedUpstream, kept: str) -> None:
    """Disabled by one of them, an account is not used by either; enabled, by both."""
    with two(tmp_path, up, kept) as pool:
        workers = pool.gateway.children()
        for action, account in (("disable", "b"), ("enable", "a"), ("disable", "b")):
            assert admin(pool, f"/accounts/chat/a/{action}", "POST").status_code == 200
            # Told within a tenth of a second, also to a worker that nobody asks anything.
            until(lambda account=account: _chosen(pool, workers) == {account})  # type: ignore[misc]


def _chosen(pool: Pooled, workers: list[int]) -> set[str]:
    pool.up.requests.clear()
    for worker in workers:
        ask_one(pool, worker)
    return set(pool.asked())


@EITHER
def test_what_one_learns_all_know(tmp_path: Path, up: ScriptedUpstream, kept: str) -> None:
    """An account that one of them saw refuse is not asked by the other."""
    up.by_key[secret("a")] = "error-401"
    with two(tmp_path, up, kept) as pool:
        workers = pool.gateway.children()
        ask_one(pool, workers[0])
        until(lambda: _chosen(pool, workers) == {"b"})
        assert pool_file(tmp_path).exists() == (kept == "kept")
