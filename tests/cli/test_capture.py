"""`trilogue capture` as a user types it, at a gateway with two workers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.pooling import ADMIN_KEY, Pooled, config, pooled, ranked, secret
from tests.gateway.process import until
from tests.scripted.server import ScriptedUpstream
from tests.scripted.thread import running as serving
from trilogue.capture import read_capture, replay
from trilogue.model import Protocol

C, M, R = Protocol


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    text = config(ranked("a"), workers=2)
    up = ScriptedUpstream(keys=[secret("a")])
    with serving(up), pooled(tmp_path_factory.mktemp("capturing"), text, up) as running:
        yield running


class Capturing:
    """A running command."""

    def __init__(self, pool: Pooled, *arguments: str) -> None:
        environ = {**os.environ, "TRILOGUE_ADMIN_KEY": ADMIN_KEY}
        command = [sys.executable, "-m", "trilogue", "capture", "--url", str(pool.admin.base_url), *arguments]
        self.process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.first = self.process.stderr.readline()

    def end(self) -> tuple[int, list[str], str]:
        """Return the exit code, the lines and the errors."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        with self.process:
            return self.process.wait(30), self.process.stdout.read().splitlines(), self.process.stderr.read()

    def stop(self) -> tuple[int, list[str], str]:
        self.process.send_signal(signal.SIGINT)
        return self.end()


def test_the_next_requests_of_all_workers(pool: Pooled) -> None:
    """Exactly as many as were asked for, whichever worker has them, each on a line."""
    command = Capturing(pool, "--requests", "6", "--losses")
    assert command.first.startswith("Capturing 6 requests into ")

    async def ask() -> None:
        asked = [pool.asking(M, "chat/text", stream=True, top_k=number % 2 or None) for number in range(24)]
        await asyncio.gather(*asked)

    asyncio.run(ask())
    code, lines, errors = command.end()
    assert (code, errors) == (0, "6 requests captured: complete\n")
    assert [line.split()[0] for line in lines] == [f"{number}/6" for number in range(1, 7)]
    for line in lines:
        assert "200 messages→chat chat/text → chat/text" in line
        assert "lost: " in line
    folder = Path(pool.admin.get("/captures").json()["folder"])
    for line in lines:
        assert replay(read_capture((folder / f"{line.split()[-1]}.jsonl").read_bytes())).differences == []
    assert not pool.admin.get("/capture").json()["active"]
    counts = pool.admin.get("/metrics").text.splitlines()
    assert {"trilogue_captures_written_total 6", "trilogue_capture_active 0"} <= set(counts)


def test_ctrl_c_ends_the_session_at_the_gateway(pool: Pooled) -> None:
    """What was captured until then is kept. The session had only errors, without their words."""
    command = Capturing(pool, "--requests", "5", "--errors", "--redact", "--json")
    assert pool.admin.post("/capture", json={"requests": 1}).json()["error"]["code"] == "capture_running"
    pool.ask(C, "chat/text")
    failed = pool.ask(C, "chat/error-400")
    until(lambda: len(pool.admin.get("/capture").json()["session"]["captured"]) == 1)
    code, lines, errors = command.stop()
    assert (code, errors) == (0, "1 request captured: stopped\n")
    [line] = [json.loads(line) for line in lines]
    assert (line["request_id"], line["status"], line["redacted"]) == (failed.headers["x-request-id"], 400, True)
    status = pool.admin.get("/capture").json()
    assert (status["active"], status["session"]["state"]) == (False, "stopped")
    assert pool.admin.delete("/capture/unknown").json()["error"]["code"] == "no_such_session"


def test_captured_requests_become_tests(pool: Pooled, tmp_path: Path) -> None:
    command = Capturing(pool, "--model", "responses/*", "--as-test", str(tmp_path / "tests"))
    pool.ask(C, "chat/text")
    pool.ask(C, "responses/text", stream=True)
    code, lines, _ = command.end()
    assert code == 0
    assert "passes now; run it with pytest" in lines[-1]
    assert len(list((tmp_path / "tests").glob("*.jsonl"))) == 1
    assert "made by `--as-test`" in (tmp_path / "tests" / "test_captures.py").read_text()


def test_a_key_that_nobody_has(pool: Pooled) -> None:
    command = Capturing(pool, "--key", "nobody")
    assert command.first == "trilogue: key must be the name of a client key\n"
    assert command.end()[0] == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "missing required field `requests`"),
        ({"requests": 1, "colour": 1}, "unknown field `colour`"),
        ({"requests": 1, "lease_seconds": 0}, "lease_seconds"),
        ({"requests": 101}, "101 requests are more than the folder may have files (capture.max_files: 100)"),
    ],
)
def test_what_the_admin_interface_refuses(pool: Pooled, body: dict[str, int], message: str) -> None:
    reply = pool.admin.post("/capture", json=body)
    assert reply.status_code == 400
    assert message in reply.json()["error"]["message"]
