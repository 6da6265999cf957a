"""`GET /metrics` of a running gateway: who may ask, what it says, and that several workers are one gateway."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from tests.gateway.pooling import ADMIN_KEY, Pooled, accepting, config, pooled, ranked, secret
from tests.gateway.process import until
from tests.gateway.running import CLIENT_KEY
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

Labels = dict[str, str]
PROMTOOL = shutil.which("promtool")
STORES = ("accounts", "responses")
STORE = ("failing", "writes_waiting", "failures_total")


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running(accepting("a", "b")) as running:
        yield running


@pytest.fixture(autouse=True)
def _all_respond(up: ScriptedUpstream) -> None:
    up.by_key = {secret("a"): "text", secret("b"): "text"}


@pytest.fixture(scope="module")
def single(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """A gateway of one worker."""
    with pooled(tmp_path_factory.mktemp("metrics"), config(ranked("a", "b")), up) as pool:
        yield pool


def get(pool: Pooled, **headers: str) -> httpx2.Response:
    """On a connection of its own, so that either worker may respond."""
    url = f"{str(pool.admin.base_url).rstrip('/')}/metrics"
    headers = {"authorization": f"Bearer {ADMIN_KEY}", "connection": "close"} | headers
    return httpx2.get(url, headers=headers, timeout=10)


def values(pool: Pooled, name: str, **wanted: str) -> float:
    """The sum of all samples with this name and these labels."""
    text = get(pool).raise_for_status().text
    return sum(
        sample.value
        for family in parse_prometheus(text)
        for sample in family.samples
        if sample.name == name and wanted.items() <= sample.labels.items()
    )


def test_only_the_admin_key_is_accepted(single: Pooled) -> None:
    assert get(single, authorization="").status_code == 401
    assert get(single, authorization=f"Bearer {CLIENT_KEY}").status_code == 401
    assert get(single).status_code == 200


def test_both_formats(single: Pooled) -> None:
    single.ask(Protocol.MESSAGES, "chat/text", stream=True)
    plain, other = get(single), get(single, accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert other.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    names = [
        {sample.name for family in parse(page.text) for sample in family.samples}
        for parse, page in ((parse_prometheus, plain), (parse_openmetrics, other))
    ]
    assert names[0] == names[1]
    assert "trilogue_time_to_first_token_seconds_bucket" in names[0]


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_accepts_the_page(single: Pooled) -> None:
    """It parses the page and judges names, types and texts."""
    page = get(single).text
    command = [PROMTOOL or "", "check", "metrics"]
    result = subprocess.run(command, input=page, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_translated_stream(single: Pooled) -> None:
    route = {"client_protocol": "messages", "upstream_protocol": "chat", "provider": "chat", "model": "text"}
    before = values(single, "trilogue_requests_total", code="200", **route)
    tokens = values(single, "trilogue_tokens_total", provider="chat", model="text")
    assert single.ask(Protocol.MESSAGES, "chat/text", stream=True).status == 200
    until(lambda: values(single, "trilogue_requests_total", code="200", endpoint="generate", **route) == before + 1)
    assert values(single, "trilogue_request_duration_seconds_count", **route) == before + 1
    assert values(single, "trilogue_tokens_total", provider="chat", model="text") > tokens
    assert values(single, "trilogue_build_info") == 1
    assert values(single, "trilogue_workers") == values(single, "trilogue_workers_expected") == 1
    assert values(single, "trilogue_event_loop_lag_seconds_count") > 0
    # A worker may be writing just now.
    until(lambda: {values(single, f"trilogue_store_{name}", store=one) for name in STORE for one in STORES} == {0})


def test_failures_retries_and_account_states(single: Pooled, up: ScriptedUpstream) -> None:
    up.by_key[secret("a")] = "error-429"
    assert single.ask(Protocol.MESSAGES, "messages/text").status == 200
    account = {"provider": "messages", "account": "a"}
    until(lambda: values(single, "trilogue_retries_total", provider="messages", reason="rate_limited") == 1)
    assert values(single, "trilogue_attempt_failures_total", reason="rate_limited", **account) == 1
    assert values(single, "trilogue_account_state", state="cooling", **account) == 1
    assert values(single, "trilogue_account_state", state="ready", **account) == 0
    assert values(single, "trilogue_account_state", **account) == 1


def test_clients_cannot_create_series(single: Pooled) -> None:
    before = len(get(single).text.splitlines())
    assert single.ask(Protocol.CHAT, "nowhere/x0").status == 404
    first = len(get(single).text.splitlines())
    for number in range(20):
        single.ask(Protocol.CHAT, f"nowhere/x{number}", headers={"user-agent": f"agent-{number}"})
    assert len(get(single).text.splitlines()) == first >= before


def test_open_streams_and_connections(single: Pooled, up: ScriptedUpstream) -> None:
    up.by_key[secret("a")] = "slow-40-50"

    async def main() -> None:
        asked = asyncio.create_task(single.asking(Protocol.CHAT, "chat/text", stream=True))
        await asyncio.to_thread(until, lambda: values(single, "trilogue_open_streams") == 1)
        assert await asyncio.to_thread(values, single, "trilogue_requests_in_flight") == 1
        assert await asyncio.to_thread(values, single, "trilogue_upstream_connections", state="active") == 1
        await asked

    asyncio.run(main())
    until(lambda: values(single, "trilogue_open_streams") == 0)
    until(lambda: values(single, "trilogue_upstream_connections", state="active") == 0)


def test_metrics_can_be_switched_off(tmp_path: Path, up: ScriptedUpstream) -> None:
    text = config(ranked("a", "b")).replace("port: 0}", "port: 0, metrics: false}")
    assert "metrics: false" in text
    with pooled(tmp_path, text, up) as pool:
        assert pool.ask(Protocol.CHAT, "chat/text").status == 200
        assert get(pool).status_code == 404


@contextmanager
def two(folder: Path, up: ScriptedUpstream) -> Iterator[Pooled]:
    """A gateway of two workers, with a place of its own for temporary files."""
    text = config(ranked("a", "b"), provider="pool: {sticky: false}", workers=2)
    with tempfile.TemporaryDirectory(prefix="t-") as place, pooled(folder, text, up, environ={"TMPDIR": place}) as pool:
        until(lambda: len(list(Path(place).glob("*/*.sock"))) == 2)
        yield pool
        pool.gateway.signal(signal.SIGTERM)
        assert pool.gateway.process.wait(30) == 0
        assert list(Path(place).iterdir()) == []


def ask(pool: Pooled, times: int) -> None:
    for _ in range(times):
        assert pool.ask(Protocol.CHAT, "chat/text").status == 200


def requests(pool: Pooled) -> float:
    return values(pool, "trilogue_requests_total", provider="chat")


def test_either_worker_returns_the_values_of_both(tmp_path: Path, up: ScriptedUpstream) -> None:
    with two(tmp_path, up) as pool:
        ask(pool, 12)
        until(lambda: requests(pool) == 12)
        assert {requests(pool) for _ in range(8)} == {12}
        assert {values(pool, "trilogue_workers") for _ in range(4)} == {2}


def test_counters_never_go_back_when_workers_are_killed(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Every scrape shows at least as much as the one before, while workers are killed one after the other."""
    with two(tmp_path, up) as pool:
        shown = 0.0
        for killed in range(1, 4):
            ask(pool, 6)
            until(lambda: requests(pool) >= 6)
            shown = max(shown, requests(pool))
            victim = pool.gateway.children()[0]
            os.kill(victim, signal.SIGKILL)
            while pool.gateway.log.count("worker died") < killed or len(pool.gateway.children()) < 2:
                found = _requests_or_none(pool)
                assert found is None or found >= shown
                shown = max(shown, found or 0.0)
            until(lambda: values(pool, "trilogue_workers") == 2)
            assert requests(pool) >= shown
        # Everything that was shown before a worker was killed is still there.
        assert requests(pool) >= 18


def _requests_or_none(pool: Pooled) -> float | None:
    """As `requests`; None if the connection was that of the worker that was killed."""
    try:
        return requests(pool)
    except httpx2.TransportError:
        return None


def test_a_worker_that_does_not_respond_still_counts(tmp_path: Path, up: ScriptedUpstream) -> None:
    with two(tmp_path, up) as pool:
        ask(pool, 8)
        until(lambda: requests(pool) == 8)
        stopped = pool.gateway.children()[0]
        os.kill(stopped, signal.SIGSTOP)
        try:
            assert (requests(pool), values(pool, "trilogue_workers")) == (8, 1)
            assert values(pool, "trilogue_workers_expected") == 2
        finally:
            os.kill(stopped, signal.SIGCONT)
        until(lambda: values(pool, "trilogue_workers") == 2)
