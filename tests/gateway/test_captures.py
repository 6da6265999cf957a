"""Captures of a running gateway: which requests are captured, what is in the files, and that they can be replayed."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.pooling import Pooled, config, pooled, ranked, secret
from tests.gateway.process import until
from tests.gateway.running import CLIENT_KEY
from tests.gateway.sockets import socket_to
from tests.gateway.wire import CASES, address, exchange, post, request
from tests.scripted.ask import PATHS
from tests.scripted.server import ScriptedUpstream
from tests.scripted.thread import running as serving
from trilogue.capture import Capture, read_capture, replay
from trilogue.model import Protocol

C, M, R = Protocol
FAULTS = ("stream-error-mid", "truncate-mid", "reset-mid", "error-400", "reset-before-headers")
SAMPLED = "capture: {sample: 1, max_files: 1000}\npool: {retry_budget: {floor: 100000}}"


def folder_of(pool: Pooled) -> Path:
    return Path(pool.admin.get("/captures").json()["folder"])


def captured(pool: Pooled, request_id: str) -> Capture:
    """Return the capture of a request, which is written just after its response."""
    file = folder_of(pool) / f"{request_id}.jsonl"
    until(file.exists)
    return read_capture(file.read_bytes())


def problems(capture: Capture) -> list[Any]:
    """Return what a replay finds. Something must have been compared."""
    replayed = replay(capture)
    assert replayed.compared
    return replayed.differences


def upstream() -> ScriptedUpstream:
    return ScriptedUpstream(keys=[secret("a"), secret("b")])


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """A gateway that captures everything, with two accounts per provider."""
    text = config(ranked("a", "b"), more=SAMPLED)
    with serving(upstream()) as up, pooled(tmp_path_factory.mktemp("captured"), text, up) as running:
        yield running


def test_requests_of_all_pairs_replay_without_differences(pool: Pooled) -> None:
    """Every pair, streamed and not, with attempts that fail in all ways."""

    async def ask_all() -> list[tuple[str, str]]:
        asked = [(client, f"{up.short}/text", stream) for client, up, stream in CASES]
        asked += [(client, f"{up.short}/{fault}", True) for client, up, stream in CASES[::3] for fault in FAULTS]
        answers = [await pool.asking(client, model, stream=stream) for client, model, stream in asked]
        return [(one.headers["x-request-id"], model) for one, (_, model, _) in zip(answers, asked, strict=True)]

    for request_id, model in asyncio.run(ask_all()):
        capture = captured(pool, request_id)
        assert capture.complete
        assert capture.inbound is not None
        assert problems(capture) == [], model
        assert all(at >= 0 for attempt in capture.attempts for at, _ in attempt.response.pieces)
    for file in folder_of(pool).iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
        data = file.read_bytes()
        assert [one for one in (CLIENT_KEY, secret("a"), secret("b")) if one.encode() in data] == []
    assert folder_of(pool).stat().st_mode & 0o777 == 0o700


def forget(pool: Pooled) -> None:
    """From now on, accounts are as before, and the model's name says how the upstream responds."""
    pool.renew()
    pool.up.by_key.clear()


@pytest.mark.parametrize("scenario", ["error-400", "error-403-cost", "error-500", "error-529"])
def test_errors_replay_without_differences(pool: Pooled, scenario: str) -> None:
    """What the upstream said, as the client of each protocol is told; a change of the words is found."""
    for client, stream in product(Protocol, (False, True)):
        pool.renew(a=scenario, b=scenario)
        for upstream, answer in pool.ask_all(client, "some-model", stream=stream).items():
            assert answer.status >= 400
            capture = captured(pool, answer.headers["x-request-id"])
            told = replay(capture).steps[-1]
            assert (told.name, told.skipped, told.differences) == ("outbound_response", "", []), (client, upstream)
            capture.outbound.status += 1
            capture.outbound.pieces = [(0.0, answer.body.replace(b'message":"', b'message":"Oh: '))]
            paths = {one.path for one in replay(capture).differences}
            assert {"status", "failure.message"} <= paths
    forget(pool)


def test_an_error_about_accounts_is_not_replayed(pool: Pooled) -> None:
    """The upstream refused the keys. The client was told that no account is left, which depends on the accounts."""
    pool.renew(a="error-401", b="error-401")
    answer = pool.ask(C, "messages/some-model")
    forget(pool)
    told = replay(captured(pool, answer.headers["x-request-id"])).steps[-1]
    assert "accounts of the gateway" in told.skipped


def test_every_attempt_is_captured(pool: Pooled) -> None:
    """Two attempts, each with what was sent and what came back, with times in order and the plan of the translation."""
    assert pool.admin.post("/accounts/chat/a/reset").status_code == 200
    pool.up.by_key[secret("a")] = "error-500"
    answer = pool.ask(M, "chat/slow-5-20", stream=True, top_k=5)
    pool.up.by_key.clear()
    capture = captured(pool, answer.headers["x-request-id"])
    assert [attempt.response.status for attempt in capture.attempts] == [500, 200]
    assert [attempt.plan.account for attempt in capture.attempts] == ["a", "b"]
    last = capture.attempts[-1]
    assert last.request.url.endswith("/v1/chat/completions")
    assert last.request.headers["authorization"] == "***"
    assert ("param.dropped", "top_k") in [(loss.code, loss.path) for loss in last.plan.losses]
    assert capture.outbound.body == answer.body
    assert len(last.response.pieces) > 1
    times = [at for at, _ in last.response.pieces]
    assert times == sorted(times)
    assert times[0] <= capture.outbound.pieces[0][0] <= capture.outbound.pieces[-1][0]
    assert capture.record["status"] == 200
    assert capture.record["decision"]["outcome"] == "answered"
    assert problems(capture) == []


def test_a_client_that_disconnects(pool: Pooled) -> None:
    """The capture has what the client got until then, and its replay is compared up to there."""

    async def leave() -> None:
        reader, writer = await asyncio.open_connection(*address(pool.gateway.url))
        writer.write(request(M, "responses/slow-200-20", stream=True))
        data = b""
        while b"word2" not in data:
            data += await reader.read(65536)
        writer.close()

    before = set(folder_of(pool).iterdir())
    asyncio.run(leave())
    until(lambda: bool(set(folder_of(pool).iterdir()) - before))
    [file] = set(folder_of(pool).iterdir()) - before
    capture = read_capture(file.read_bytes())
    assert capture.record["error"] == "client_gone"
    assert capture.attempts[0].response.error == "the request was cancelled"
    assert b"word2" in capture.outbound.body
    assert problems(capture) == []
    assert not replay(capture).steps[-1].skipped


def test_a_request_that_continues_a_stored_response(pool: Pooled) -> None:
    """What was translated is in the capture: the stored history is not needed to replay it."""
    first = pool.ask(R, "chat/text", store=True).json
    answer = pool.ask(R, "chat/text", previous_response_id=first["id"])
    capture = captured(pool, answer.headers["x-request-id"])
    assert capture.inbound is not None
    assert b"scripted upstream" not in capture.inbound.body
    assert b"scripted upstream" in capture.attempts[0].input
    assert problems(capture) == []


def test_a_background_response_has_one_capture(pool: Pooled) -> None:
    """It is that of the job: the client's own request was only told that the job is queued."""
    answer = pool.ask(R, "chat/text", background=True, store=True)
    capture = captured(pool, answer.headers["x-request-id"])
    assert capture.record["path"] == "/responses (background)"
    assert capture.outbound.body.startswith(b"event: response.created")
    assert problems(capture) == []


def test_a_request_over_a_websocket(pool: Pooled) -> None:
    before = set(folder_of(pool).iterdir())
    with socket_to(pool.gateway.url) as connection:
        assert connection.ask("messages/text")["type"] == "response.completed"
    until(lambda: bool(set(folder_of(pool).iterdir()) - before))
    [file] = set(folder_of(pool).iterdir()) - before
    capture = read_capture(file.read_bytes())
    assert capture.outbound.body.startswith(b'data: {"type":"response.created"')
    assert problems(capture) == []


def test_what_is_not_captured(pool: Pooled) -> None:
    """Requests that get no output of a model, and those of clients without a key."""
    key = {"authorization": f"Bearer {CLIENT_KEY}"}

    async def ask(path: str, body: dict[str, Any], headers: dict[str, str]) -> str:
        data = post(path, json.dumps(body).encode(), {"connection": "close", **headers}, key=None)
        return (await exchange(pool.gateway.url, data)).headers["x-request-id"]

    said = [{"role": "user", "content": "x"}]
    not_captured = [
        asyncio.run(ask("/v1/messages/count_tokens", {"model": "messages/text", "messages": said}, key)),
        asyncio.run(ask("/v1/embeddings", {"model": "chat/text", "input": "x"}, key)),
        asyncio.run(ask(PATHS[C], {"model": "chat/text", "messages": said}, {"authorization": "Bearer wrong-key"})),
    ]
    refused = asyncio.run(ask(PATHS[C], {"model": "nobody/knows", "messages": said}, key))
    assert captured(pool, refused).outbound.status == 404
    assert [one for one in not_captured if pool.admin.get(f"/captures/{one}").status_code == 200] == []


def test_the_admin_interface_shows_captures(pool: Pooled) -> None:
    request_id = pool.ask(M, "chat/text", top_k=5).headers["x-request-id"]
    capture = captured(pool, request_id)
    [listed] = [one for one in pool.admin.get("/captures").json()["captures"] if one["request_id"] == request_id]
    assert (listed["client"], listed["upstream"], listed["status"], listed["model"]) == (
        "messages",
        "chat",
        200,
        "chat/text",
    )
    assert "param.dropped" in listed["losses"]
    assert listed["at"] == pytest.approx(time.time(), abs=60)
    page = pool.admin.get(f"/captures/{request_id}")
    assert page.headers["content-type"] == "application/jsonl"
    assert read_capture(page.content).head == capture.head
    assert pool.admin.get("/captures/req_unknown").json()["error"]["code"] == "no_such_capture"
    assert pool.admin.get("/captures/..%2f..%2fpool").status_code == 404


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Requests go on; what is lost is counted. A reload with a good folder ends that."""
    (tmp_path / "file").touch()
    text = config(ranked("a"), more=f"capture: {{sample: 1, folder: {tmp_path}/file/captures}}")
    with serving(upstream()) as up, pooled(tmp_path, text, up) as pool:
        for _ in range(3):
            assert pool.ask(C, "chat/text").status == 200
        until(lambda: pool.admin.get("/capture").json()["dropped"] == {"disk": 3})
        assert pool.admin.get("/capture").json()["last_error"] == "Not a directory"
        assert metrics(pool)["trilogue_captures_dropped_total"] == {"disk": 3, "memory": 0, "busy": 0, "bug": 0}
        assert metrics(pool)["trilogue_capture_failing"] == {"": 1}
        assert pool.gateway.log.count("a capture was dropped") == 1
        file = pool.gateway.config_file
        file.write_text(file.read_text().replace("/file/captures", "/good, redact: true"))
        pool.gateway.signal(signal.SIGHUP)
        pool.gateway.wait_for_log('"reloaded"')
        capture = captured(pool, pool.ask(C, "chat/text").headers["x-request-id"])
        assert capture.head.redacted
        assert (tmp_path / "good").is_dir()
        assert metrics(pool)["trilogue_captures_written_total"] == {"": 1}
        assert metrics(pool)["trilogue_capture_failing"] == {"": 0}
        file.write_text(file.read_text().replace("sample: 1", "sample: 0"))
        pool.gateway.signal(signal.SIGHUP)
        until(lambda: not pool.admin.get("/capture").json()["active"])
        assert metrics(pool)["trilogue_capture_memory_bytes"] == {"": 0}


def metrics(pool: Pooled) -> dict[str, dict[str, float]]:
    """Return the metrics of captures, each by its label."""
    found: dict[str, dict[str, float]] = {}
    for line in pool.admin.get("/metrics").text.splitlines():
        if line.startswith("trilogue_capture"):
            series, _, value = line.rpartition(" ")
            name, _, label = series.partition('{reason="')
            found.setdefault(name, {})[label.removesuffix('"}')] = float(value)
    return found
