"""Gateways on several machines as one: real processes, a real Redis server, official commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.cluster.gateways import ACCOUNTS, cluster_config, gateways, running, state_of
from tests.cluster.redis import Server
from tests.forking import run_text
from tests.gateway.pooling import ADMIN_KEY, Pooled, accepting, secret
from tests.gateway.process import until
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

pytestmark = pytest.mark.slow

CHAT = Protocol.CHAT
PASSWORD = "canary-redis-password"


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running(accepting(*ACCOUNTS)) as server:
        yield server


@pytest.fixture(autouse=True)
def _everybody_answers(up: ScriptedUpstream) -> None:
    up.by_key = {secret(name): "text" for name in ACCOUNTS}
    up.requests.clear()


def limited(up: ScriptedUpstream, *names: str) -> None:
    """Let the upstream refuse these accounts from now on."""
    up.by_key |= {secret(name): "error-429" for name in names}


@pytest.mark.smoke
def test_an_account_that_is_limited_on_one_machine_rests_on_all(
    own_server: Server, up: ScriptedUpstream, tmp_path: Path
) -> None:
    own_server.client.config_set("requirepass", PASSWORD)
    url = own_server.url.replace("redis://", f"redis://:{PASSWORD}@")
    with gateways(tmp_path, up, 2, cluster_config(url)) as nodes:
        first, second = nodes
        limited(up, "a")
        assert first.ask(CHAT, "chat/m").status == 200
        until(lambda: all(state_of(one, "a") == "cooling" for one in nodes), 20)
        up.requests.clear()
        assert second.ask(CHAT, "chat/m").status == 200
        assert second.asked() == ["b"]
        # What one machine counts is part of the sums on the others.
        until(lambda: second.accounts()["chat/b"]["requests"] == 2, 20)
        # A person may use any of them.
        assert second.admin.post("/accounts/chat/a/reset").status_code == 200
        until(lambda: state_of(first, "a") == "ready", 20)
        assert_shown(first, second)
    for one in nodes:
        assert PASSWORD not in one.gateway.log
        assert "connected to the cluster" in one.gateway.log


def assert_shown(one: Pooled, other: Pooled) -> None:
    """The nodes are in the command, the metrics and the probe."""
    assert one.gateway.process.poll() is None
    done = nodes_command(one)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == [
        "node",
        "state",
        "version",
        "workers",
        "running",
        "requests",
        "load",
        "lag",
        "clock",
        "reported",
    ]
    assert len(lines) == 3
    assert all(" running " in line and " ms" in line for line in lines[1:])
    found = [json.loads(line) for line in nodes_command(one, "--json").stdout.splitlines()]
    assert {node["name"] for node in found} == {line.split()[0] for line in lines[1:]}
    metrics = one.admin.get("/metrics").text
    assert "trilogue_cluster_connected 1" in metrics
    assert "trilogue_cluster_nodes 2" in metrics
    assert 'trilogue_cluster_changes_total{direction="sent"}' in metrics
    assert other.admin.get("/nodes").json()["cluster"]["connected"]


def nodes_command(one: Pooled, *options: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "TRILOGUE_ADMIN_KEY": ADMIN_KEY}
    command = [sys.executable, "-m", "trilogue", "nodes", "--url", str(one.admin.base_url), *options]
    return run_text(command, environ=environ)


def test_gateways_go_on_without_redis_and_agree_when_it_is_back(
    own_server: Server, up: ScriptedUpstream, tmp_path: Path
) -> None:
    with gateways(tmp_path, up, 2, cluster_config(own_server.url)) as (first, second):
        own_server.stop(signal.SIGKILL)
        until(lambda: running(first) == running(second) == 0, 20)
        assert health(first) == "away"
        done = nodes_command(first)
        assert done.returncode == 1
        assert "cannot be used now: it cannot be reached" in done.stderr
        limited(up, "a")
        assert first.ask(CHAT, "chat/m").status == 200
        assert state_of(first, "a") == "cooling"
        assert state_of(second, "a") == "ready"
        own_server.start()
        until(lambda: state_of(second, "a") == "cooling", 30)
        until(lambda: running(first) == running(second) == 2, 30)
        assert health(first) == "connected"
        assert first.gateway.log.count("goes on with what it knows") == 1


def health(one: Pooled) -> str:
    return str(httpx2.get(f"{one.gateway.url}/health").json()["cluster"])


def test_killed_workers_are_replaced_in_the_link_and_a_killed_machine_is_noticed(
    own_server: Server, up: ScriptedUpstream, tmp_path: Path
) -> None:
    """Two workers on each machine, which are one node."""
    with gateways(tmp_path, up, 2, cluster_config(own_server.url, workers=2)) as (first, second):
        assert own_server.client.hlen("trilogue:nodes") == 2
        for pid in second.gateway.children():
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(second.gateway.children()) == 2, 20)
        until(lambda: running(second) == 2, 30)
        os.killpg(second.gateway.pid, signal.SIGKILL)
        until(lambda: running(first) == 1, 30)
        assert first.ask(CHAT, "chat/m").status == 200
