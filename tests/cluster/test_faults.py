"""What nodes do when their server is killed, paused, emptied, demoted, full, or out of reach, and with few rights."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.nodes import Node, connected, wait
from tests.cluster.proxy import Proxy
from tests.cluster.redis import Server, new_prefix
from tests.upstream.certificates import Authority
from trilogue.gateway.features.cluster.server import RedisServer
from trilogue.routing.pool.changes import AccountTally

pytestmark = pytest.mark.slow

MINUTE = 60.0


@contextmanager
def two(server: RedisServer, folder: Path) -> Iterator[tuple[Node, ...]]:
    with connected(Node(folder / "a", server), Node(folder / "b", server)) as nodes:
        yield nodes


def away(*nodes: Node) -> bool:
    """Whether all of these have noticed that the server is away."""
    return not any(node.status.connected for node in nodes)


def back(*nodes: Node) -> bool:
    """Whether all of these are connected."""
    return all(node.status.connected for node in nodes)


@pytest.mark.smoke
def test_a_killed_server_loses_nothing(own_server: Server, tmp_path: Path) -> None:
    """It comes back empty: nodes write again what they know, and learn what the others did meanwhile."""
    with two(RedisServer(own_server.url), tmp_path) as (a, b):
        a.cool("before", MINUTE)
        wait(lambda: "before" in b.cooling(), a, b)
        own_server.stop(signal.SIGKILL)
        wait(lambda: away(a, b), a, b)
        a.cool("meanwhile-a", MINUTE)
        b.cool("meanwhile-b", MINUTE)
        own_server.start()
        wait(lambda: set(a.cooling()) == set(b.cooling()) == {"before", "meanwhile-a", "meanwhile-b"}, a, b)
        with connected(Node(tmp_path / "c", RedisServer(own_server.url))) as (c,):
            wait(lambda: len(c.cooling()) == 3, a, b, c)


def test_a_paused_server_is_away_and_comes_back(own_server: Server, tmp_path: Path) -> None:
    with two(RedisServer(own_server.url), tmp_path) as (a, b):
        own_server.pause()
        wait(lambda: away(a, b) and a.status.reason == "the server did not respond in time", a, b)
        a.cool("meanwhile", MINUTE)
        own_server.resume()
        wait(lambda: "meanwhile" in b.cooling(), a, b)
        wait(lambda: back(a, b), a, b)


def test_an_emptied_server_is_filled_again(own_server: Server, tmp_path: Path) -> None:
    server = RedisServer(own_server.url)
    with two(server, tmp_path) as (a, b):
        with connected(Node(tmp_path / "c", server)) as (c,):
            c.count(AccountTally("up", "one", 9, 1, 4.0, 0), "base")
            wait(lambda: a.total("one").spent == 4.0, a, b, c)
        a.cool("one", MINUTE)
        wait(lambda: "one" in b.cooling(), a, b)
        own_server.client.flushall()
        wait(lambda: own_server.client.hlen(server.key("records", "Cooled")) == 1, a, b)
        # The counts of a node that has left are not lost either: balances depend on them.
        wait(lambda: own_server.client.hexists(server.key("nodes"), c.member.node.id), a, b)
        wait(lambda: a.total("one") == b.total("one") == AccountTally("up", "one", 9, 1, 4.0), a, b)
        assert a.status.reconnects == 0
        b.cool("two", MINUTE)
        wait(lambda: "two" in a.cooling(), a, b)


def test_a_server_that_becomes_a_replica_is_left_until_it_can_be_written(own_server: Server, tmp_path: Path) -> None:
    with two(RedisServer(own_server.url), tmp_path) as (a, b):
        own_server.client.replicaof("127.0.0.1", "1")
        wait(lambda: away(a, b) and a.status.reason == "the server is a replica, which cannot be written", a, b)
        a.cool("meanwhile", MINUTE)
        own_server.client.replicaof("NO", "ONE")
        wait(lambda: "meanwhile" in b.cooling() and back(a, b), a, b)


def test_a_full_server_is_said_and_used_again_when_it_has_room(own_server: Server, tmp_path: Path) -> None:
    with two(RedisServer(own_server.url), tmp_path) as (a, b):
        own_server.client.config_set("maxmemory-policy", "noeviction")
        own_server.client.config_set("maxmemory", "1")
        wait(lambda: away(a, b) and a.status.reason == "the server has no memory left", a, b)
        a.cool("meanwhile", MINUTE)
        own_server.client.config_set("maxmemory", "0")
        wait(lambda: "meanwhile" in b.cooling() and back(a, b), a, b)


def test_both_sides_of_a_split_go_on_and_agree_afterwards(own_server: Server, tmp_path: Path) -> None:
    with Proxy(own_server.port) as network:
        b = Node(tmp_path / "b", RedisServer(f"redis://127.0.0.1:{network.port}/0"))
        with connected(Node(tmp_path / "a", RedisServer(own_server.url)), b) as (a, _):
            b.count(AccountTally("up", "one", 1, 0, 0.0, 3), "1-1")
            network.split()
            a.cool("one", MINUTE, why="older")
            wait(lambda: away(b), a, b)
            b.cool("one", MINUTE, why="newer")
            b.cool("two", MINUTE)
            wait(lambda: a.total("one").in_flight == 0, a, b)
            assert back(a)
            network.heal()
            expected = {"one": "newer", "two": "rate_limit"}
            wait(lambda: a.cooling() == b.cooling() == expected, a, b)
            network.reset()
            a.cool("three", MINUTE)
            wait(lambda: "three" in b.cooling(), a, b)


def test_a_server_that_was_never_there_costs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server()
    a = Node(tmp_path, RedisServer(f"redis://user:canary-pw@127.0.0.1:{server.port}/0"))
    try:
        wait(lambda: a.status.reason == "it cannot be reached", a)
        a.cool("one", MINUTE)
        began = time.monotonic()
        a.member.close()
        assert time.monotonic() - began < 3.0
        assert not any(thread.name == "trilogue-cluster" for thread in threading.enumerate())
    finally:
        a.member.close()
        server.remove()
    shown = capsys.readouterr().out + (tmp_path / "cluster.json").read_text()
    assert "goes on with what it knows" in shown
    assert "canary-pw" not in shown


COMMANDS = "hget hset hsetnx hgetall hdel expire get set time xadd xread xrange xrevrange evalsha script|load"
"""as in docs/cluster.md"""


def test_a_user_with_the_documented_rights_is_enough(
    own_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
    rights = " ".join(f"+{name}" for name in COMMANDS.split())
    assert f"~trilogue:* resetchannels -@all {rights}" in document
    names = [f"+{name}" for name in COMMANDS.split()]
    own_server.client.acl_setuser(
        "gateway", enabled=True, passwords=["+canary-pw"], keys=["trilogue:*"], commands=names, reset=True
    )
    url = own_server.url.replace("redis://", "redis://gateway:canary-pw@")
    with two(RedisServer(url), tmp_path) as (a, b):
        a.cool("one", MINUTE)
        wait(lambda: "one" in b.cooling(), a, b)
        own_server.client.flushall()
        wait(lambda: own_server.client.hlen("trilogue:records:Cooled") == 1, a, b)
        assert a.status.reconnects == b.status.reconnects == 0
    with connected_or_not(Node(tmp_path / "c", RedisServer(url, "other"))) as c:
        wait(lambda: "may not run a command" in c.status.reason, c)
    with connected_or_not(Node(tmp_path / "d", RedisServer(url.replace("canary", "wrong")))) as d:
        wait(lambda: "does not accept the user" in d.status.reason, d)
    assert "canary-pw" not in capsys.readouterr().out


@contextmanager
def connected_or_not(node: Node) -> Iterator[Node]:
    try:
        yield node
    finally:
        node.member.close()


def test_tls_is_used_and_the_certificate_is_checked(redis_server: Server, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = authority.server()
    with Proxy(redis_server.port, tls) as network:
        prefix = new_prefix()
        url = f"rediss://127.0.0.1:{network.port}/0"
        trusting = RedisServer(f"{url}?ssl_ca_certs={authority.file}", prefix)
        with connected(Node(tmp_path / "a", trusting)) as (a,):
            assert a.status.server == url
        with connected_or_not(Node(tmp_path / "b", RedisServer(url, prefix))) as b:
            wait(lambda: b.status.reason == "its certificate cannot be verified", b)
