"""What runs beside requests: a part that raises is logged once, and ends neither the others nor the process."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import httpx2
import pytest
import structlog
from structlog.testing import capture_logs

from tests.gateway.process import started, until
from trilogue.app.embed.gateway import EmbeddedGateway
from trilogue.config.load import load
from trilogue.gateway.log.guard import Guard, close_all
from trilogue.gateway.request.large_bodies import LARGE_BYTES, beside, in_thread

CONFIG = 'providers: {demo: {protocol: openai_responses, base_url: "demo:"}}\n'
BROKEN = """
from trilogue.app.process.resources import Descriptors
from trilogue.gateway.access.managed_keys import ManagedKeys
from trilogue.gateway.limits.shared_table import LazyTable

def fails(*_):
    raise OSError(28, 'no space left')

Descriptors.look = ManagedKeys.look = LazyTable.reclaim = LazyTable.close = fails
"""
"""what is changed before the gateway starts"""


@pytest.fixture(autouse=True)
def _log() -> None:
    structlog.reset_defaults()


@pytest.mark.parametrize("size", [10, LARGE_BYTES + 1], ids=["at once", "in the thread"])
def test_work_beside_a_request_ends_no_request(size: int) -> None:
    """What it raises is logged, wherever it runs."""

    def fails() -> None:
        raise RecursionError("deep")

    with capture_logs() as lines:
        beside(f"notes of {size}", fails, size)
        asyncio.run(in_thread(int))  # the thread has done what came before
    assert [(line["event"], line["part"], line["error"]) for line in lines] == [
        ("bug", f"notes of {size}", "RecursionError")
    ]


def test_a_part_that_fails_is_logged_once_until_it_works_again() -> None:
    guard, done, is_broken = Guard(), [], True

    def part() -> None:
        if is_broken:
            raise OSError("broken")

    with capture_logs() as lines:
        for _ in range(3):
            guard.run("this", part)
            guard.run("that", lambda: done.append(1))
        is_broken = False
        for _ in range(2):
            guard.run("this", part)
        is_broken = True
        guard.run("this", part)
    assert len(done) == 3
    assert [(line["event"], line["part"]) for line in lines] == [
        ("bug", "this"),
        ("it works again", "this"),
        ("bug", "this"),
    ]


def test_everything_is_closed() -> None:
    closed = []

    async def later() -> None:
        closed.append("later")

    def fails() -> None:
        raise ValueError("not now")

    with capture_logs() as lines:
        asyncio.run(close_all(("one", fails), ("two", later), ("three", lambda: closed.append("now"))))
    assert closed == ["later", "now"]
    assert [line["part"] for line in lines] == ["one"]


def test_an_embedded_gateway_ticks_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It learns of keys although another part fails, and `stop` closes everything."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "trilogue.yaml").write_text(CONFIG)

    async def main() -> list[str]:
        gateway = EmbeddedGateway(load(tmp_path / "trilogue.yaml", {}), None)
        state = gateway._worker
        ticks = asyncio.Event()
        looks: list[int] = []

        def broken() -> None:
            looks.append(1)
            if len(looks) > 3:
                ticks.set()
            raise OSError(28, "no space left")

        closed = asyncio.Event()
        kept = state.limits.close
        monkeypatch.setattr(state.limits, "close", closed.set)
        monkeypatch.setattr(state, "sync", broken)
        monkeypatch.setattr(state, "close", broken)
        await gateway.start()
        async with asyncio.timeout(20):
            await ticks.wait()
        await gateway.stop(0)
        assert closed.is_set()
        kept()
        state.pools.close()
        return [str(looks)]

    with capture_logs() as lines:
        asyncio.run(main())
    assert [line["part"] for line in lines if line["event"] == "bug"] == ["accounts", "accounts"]


def test_a_worker_outlives_its_parts(tmp_path: Path) -> None:
    with started(tmp_path, CONFIG, patch=BROKEN.strip()) as gateway:
        parts = {"limits", "file descriptors", "client keys"}
        until(lambda: parts <= {line.get("part") for line in gateway.lines if line["event"] == "bug"})
        assert httpx2.get(f"{gateway.url}/v1/models", timeout=20).status_code == 200
        gateway.signal(signal.SIGTERM)
        assert gateway.process.wait(30) == 0
        failed = [line["part"] for line in gateway.lines if line["event"] == "bug"]
        assert sorted(failed) == sorted([*parts, "limits"])  # once in ticks, and once at the end
