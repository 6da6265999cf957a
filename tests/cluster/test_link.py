"""The connection of a node, who of its processes runs it, and what it does when the server is away."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest
import redis

from tests.cluster.members import member, members, until
from tests.cluster.redis import Server, new_prefix
from tests.timing import pass_time
from trilogue.gateway.features.cluster.identity import node_identity
from trilogue.gateway.features.cluster.member import LinkLock
from trilogue.gateway.features.cluster.server import ClusterClock, RedisServer, reason_of


def test_credentials_are_in_no_name_and_no_repr() -> None:
    server = RedisServer("rediss://someone:canary-pw@cache.example.com/3", "team")
    assert server.name == "rediss://cache.example.com:6379/3"
    assert "canary-pw" not in f"{server!r} {server} {vars(server)['name']}"
    assert server.key("nodes") == "team:nodes"


def test_reasons_quote_nothing() -> None:
    assert reason_of(redis.AuthenticationError("WRONGPASS canary-pw")) == (
        "the server does not accept the user or the password"
    )
    assert reason_of(redis.ConnectionError("connecting to user:canary-pw")) == "it cannot be reached"
    assert reason_of(redis.ResponseError("canary-pw")) == "ResponseError"


def test_the_id_of_a_node_stays(tmp_path: Path) -> None:
    first = node_identity(tmp_path / "state" / "node.id")
    assert node_identity(tmp_path / "state" / "node.id") == first
    assert first.name.endswith(first.id[:4])
    assert node_identity(tmp_path / "other.id").id != first.id
    (tmp_path / "state" / "node.id").write_text("damaged")
    assert len(node_identity(tmp_path / "state" / "node.id").id) == 16
    assert {path.name for path in (tmp_path / "state").iterdir()} == {"node.id", "node.id.lock"}
    assert (tmp_path / "state" / "node.id").stat().st_mode & 0o777 == 0o600


def test_nodes_find_each_other(redis_server: Server, tmp_path: Path) -> None:
    server = RedisServer(redis_server.url, new_prefix())
    with members(server, tmp_path / "a", tmp_path / "b") as (a, b):
        until(lambda: a.status and len(a.status.nodes) == 2, a, b)
        assert a.status is not None
        assert {record.id for record in a.status.nodes} == {a.node.id, b.node.id}
        assert {(record.version, record.workers) for record in a.status.nodes} == {("1.2.3", 2)}
        assert a.status.connected


def test_another_process_takes_over_when_one_is_killed(redis_server: Server, tmp_path: Path) -> None:
    server = RedisServer(redis_server.url, new_prefix())
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=_tick_forever, args=(tmp_path, redis_server.url, server.key("")[:-1]))
    child.start()
    survivor = member(tmp_path, server)
    try:
        until(lambda: _is_held(tmp_path / "cluster.lock"))
        survivor.tick()
        assert survivor.link is None
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        survivor.tick()
        assert survivor.link is not None
        until(lambda: survivor.status and survivor.status.connected, survivor)
    finally:
        survivor.close()
        child.kill()


def _is_held(path: Path) -> bool:
    lock = LinkLock(path)
    free = lock.acquire()
    lock.release()
    return not free


def _tick_forever(folder: Path, url: str, prefix: str) -> None:
    one = member(folder, RedisServer(url, prefix))
    while True:
        one.tick()
        pass_time(0.05)


@pytest.mark.slow
def test_a_server_that_is_away_is_said_once_and_found_again(
    own_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with members(RedisServer(own_server.url), tmp_path) as (one,):
        until(lambda: one.status and one.status.connected, one)
        own_server.stop()
        until(lambda: one.status and one.status.reason == "it cannot be reached", one)
        own_server.start()
        until(lambda: one.status and one.status.connected, one)
        assert one.status is not None
        assert one.status.reconnects == 1
    assert capsys.readouterr().out.count("goes on with what it knows") == 1


def test_the_offset_is_that_of_the_quickest_look() -> None:
    now = 1000.0
    clock = ClusterClock(lambda: now)
    clock.measured(1000.0, 1060.5, 1001.0)
    assert clock.offset == 60.0
    clock.measured(1002.0, 1062.06, 1002.02)
    assert clock.offset == pytest.approx(60.05)
    clock.measured(1003.0, 1063.4, 1003.6)
    assert clock.offset == pytest.approx(60.05)
    assert clock.now() == pytest.approx(1060.05)
    clock.measured(1004.0, 1004.5, 1004.2)  # another server, whose clock is right
    assert clock.offset == pytest.approx(0.4)
