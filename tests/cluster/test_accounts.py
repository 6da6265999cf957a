"""The state of accounts over machines: several nodes on a real server, each with a store of its own."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from tests.cluster.nodes import Node, connected, wait
from tests.cluster.redis import Server, new_prefix
from tests.timing import pass_time
from trilogue.base.clock import steady_time
from trilogue.gateway.features.cluster import messages
from trilogue.gateway.features.cluster.server import RedisServer
from trilogue.routing.pool.changes import AccountTally, Adjusted, Bound, Change, Cooled, Erred, Learned, Switched

pytestmark = pytest.mark.slow

MINUTE = 60.0


@pytest.fixture
def server(redis_server: Server) -> RedisServer:
    return RedisServer(redis_server.url, new_prefix())


@pytest.mark.smoke
def test_every_change_is_known_on_the_other_machine(server: RedisServer, tmp_path: Path) -> None:
    with connected(Node(tmp_path / "a", server), Node(tmp_path / "b", server)) as (a, b):
        now = round(a.clock())
        changes: list[Change] = [
            Cooled("up", "one", "", now + 30.0, False, "rate_limit", 1),
            Cooled("up", "two", "gpt", now + 30.0, False, "quota", 2),
            Switched("up", "three", "upstream", now + 600.0, 1, "auth", "0123"),
            Erred("up", "one", "rate_limit", 429, now),
            Adjusted("up", "one", 12.5),
            Bound("up", "conversation", "two", now),
            Learned("up", "gpt", ()),
        ]
        a.write(*changes)
        wait(lambda: len(b.changes()) == len(changes), a, b)
        assert {type(one) for one in b.changes()} == {type(one) for one in changes}
        assert b.rest("one") == pytest.approx(a.rest("one"), abs=5.0)


def test_a_cooldown_that_ends_ends_on_the_other_machine(server: RedisServer, tmp_path: Path) -> None:
    with connected(Node(tmp_path / "a", server), Node(tmp_path / "b", server)) as (a, b):
        a.cool("one", MINUTE)
        wait(lambda: b.cooling() == {"one": "rate_limit"}, a, b)
        b.write(Cooled("up", "one", "", 0.0, False, "", 0))
        wait(lambda: a.cooling() == {}, a, b)


def test_the_newest_change_wins_wherever_it_was_made(server: RedisServer, tmp_path: Path) -> None:
    with connected(Node(tmp_path / "a", server), Node(tmp_path / "b", server)) as (a, b):
        a.cool("one", MINUTE, why="newer")
        wait(lambda: "one" in b.cooling(), a, b)
        # An older change is taken back where it was made, because the cluster knows better.
        b.cool("one", 2 * MINUTE, ago=10.0, why="older")
        wait(lambda: b.cooling()["one"] == "newer", a, b)
        assert a.cooling()["one"] == "newer"


def test_a_node_that_comes_later_gets_everything(server: RedisServer, tmp_path: Path) -> None:
    a, b = Node(tmp_path / "a", server), Node(tmp_path / "b", server)
    b.cool("two", MINUTE)
    b.cool("one", 2 * MINUTE, ago=100.0, why="older")
    with connected(a):
        a.cool("one", MINUTE)
        a.write(*(Bound("up", f"c{number}", "one", 1.0) for number in range(500)))
        wait(lambda: a.status.sent > 500, a)
        with connected(b):
            wait(lambda: len(b.changes()) == len(a.changes()) == 502, a, b)
            assert a.cooling() == b.cooling() == {"one": "rate_limit", "two": "rate_limit"}


def test_clocks_may_differ_by_a_minute(server: RedisServer, tmp_path: Path) -> None:
    slow = Node(tmp_path / "slow", server, lambda: steady_time() - MINUTE)
    with connected(Node(tmp_path / "a", server), slow) as (a, _):
        slow.cool("one", 30.0)
        wait(lambda: "one" in a.cooling(), a, slow)
        assert 20 < a.rest("one") < 31
        # Made later, though the clock of the other machine shows an earlier time.
        pass_time(0.01)
        a.cool("one", 45.0, why="later")
        wait(lambda: slow.cooling()["one"] == "later", a, slow)
        assert 35 < slow.rest("one") < 46
        wait(lambda: len(a.status.nodes) == 2, a, slow)
        records = {record.id: record for record in a.status.nodes}
        assert records[slow.member.node.id].offset == pytest.approx(MINUTE, abs=1.0)
        assert not any(record.is_gone(a.member.clock.now()) for record in records.values())


def test_counts_are_added_up_and_requests_of_a_dead_node_end(server: RedisServer, tmp_path: Path) -> None:
    a, b = Node(tmp_path / "a", server), Node(tmp_path / "b", server)
    running = f"{os.getpid()}-1"
    with connected(a):
        with connected(b):
            a.count(AccountTally("up", "one", 5, 1, 0.5, 2), running)
            b.count(AccountTally("up", "one", 10, 2, 1.5, 3), running)
            expected = AccountTally("up", "one", 15, 3, 2.0, 5)
            wait(lambda: a.total("one") == b.total("one") == expected, a, b)
            b.count(AccountTally("up", "one", 10, 2, 1.5, 4), running)
            wait(lambda: a.total("one").in_flight == 6, a, b)
            kill(b)
        wait(lambda: a.total("one") == AccountTally("up", "one", 15, 3, 2.0, 2), a)
        gone = [record for record in a.status.nodes if record.is_gone(a.member.clock.now())]
        assert [record.id for record in gone] == [b.member.node.id]


def test_a_node_that_lost_its_file_gets_everything_back(server: RedisServer, tmp_path: Path) -> None:
    lost = Node(tmp_path / "a", server)
    with connected(lost):
        lost.cool("one", MINUTE)
        lost.count(AccountTally("up", "one", 5, 1, 0.5, 0), "1-1")
        wait(lambda: any(record.requests == 6 for record in lost.status.nodes), lost)
    for file in (tmp_path / "a").glob("pool.db*"):
        file.unlink()
    again = Node(tmp_path / "a", server)
    with connected(again):
        wait(lambda: again.total("one") == AccountTally("up", "one", 5, 1, 0.5), again)
        again.count(AccountTally("up", "one", 2, 0, 0.25, 0), "1-2")
        wait(lambda: again.total("one") == AccountTally("up", "one", 7, 1, 0.75), again)
        assert again.cooling() == {"one": "rate_limit"}
        wait(lambda: any(record.requests == 8 for record in again.status.nodes), again)


def kill(node: Node) -> None:
    """End the link of a node so that it cannot say goodbye."""
    link = node.member.link
    assert link is not None
    link._parts = ()  # a process that is killed runs nothing more; what happens to its record is up to the others
    link.stop()


def test_counts_of_a_node_stay_when_it_is_gone_for_long(
    redis_server: Server, server: RedisServer, tmp_path: Path
) -> None:
    old = {
        "id": "feedfeedfeedfeed",
        "name": "old",
        "at": steady_time() - 90_000,
        "accounts": [["up", "one", 7, 0, 2.5]],
    }
    redis_server.client.hset(server.key("nodes"), "feedfeedfeedfeed", msgspec.json.encode(old))
    with connected(Node(tmp_path / "a", server)) as (a,):
        wait(lambda: redis_server.client.hexists(server.key("nodes"), "gone"), a)
        wait(lambda: not redis_server.client.hexists(server.key("nodes"), "feedfeedfeedfeed"), a)
        pass_time(1.2)
        wait(lambda: a.total("one") == AccountTally("up", "one", 7, 0, 2.5), a)


def test_a_node_that_missed_messages_reads_everything(
    redis_server: Server, server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "READ_COUNT", 2)
    with connected(Node(tmp_path / "a", server), Node(tmp_path / "b", server)) as (a, b):
        redis_server.client.hset(server.key("records", "Cooled"), "up\none\n\nhard", cooled_text(a.clock()))
        stream = server.key("changes")
        with redis_server.client.pipeline(transaction=True) as batch:
            for _ in range(10):
                batch.xadd(stream, {"topic": "Nothing", "node": "other"})
            batch.xtrim(stream, maxlen=5, approximate=False)
            batch.execute()
        wait(lambda: "one" in a.cooling() and "one" in b.cooling(), a, b)


def cooled_text(now: float) -> bytes:
    change = Cooled("up", "one", "", now + MINUTE, False, "rate_limit", 1)
    return b"%.6f " % now + msgspec.json.encode(change)


def test_what_another_program_wrote_is_ignored(redis_server: Server, server: RedisServer, tmp_path: Path) -> None:
    client = redis_server.client
    client.hset(server.key("records", "Cooled"), "x", b"nonsense")
    client.hset(server.key("records", "Erred"), "y", b"12.5 not json")
    client.hset(server.key("nodes"), "z", b"[]")
    with connected(Node(tmp_path / "a", server), Node(tmp_path / "b", server)) as (a, b):
        client.xadd(server.key("changes"), {"topic": "Cooled", "node": "z", "key": "x", "value": b"\xff"})
        client.xadd(server.key("changes"), {"other": b"\xff"})
        a.cool("one", MINUTE)
        wait(lambda: "one" in b.cooling(), a, b)
        assert a.status.reconnects == b.status.reconnects == 0
