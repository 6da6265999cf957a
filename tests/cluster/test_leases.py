"""Grants of limits to nodes by a real server: together they never exceed a limit, whoever asks, dies or forgets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.cluster.redis import Server, new_prefix
from trilogue.gateway.features.cluster.leases import EPOCH, LeaseReply, LeaseRequest, LeaseServer, Spent
from trilogue.gateway.features.cluster.server import RedisServer
from trilogue.gateway.limits.leasing import FIRST_BUDGET, Counter, CounterRequest

SUBJECT = "key one"
WINDOW = 1
"""the first count of requests"""


class Nodes:
    """Several nodes, and what each believes that it was granted and has used."""

    def __init__(self, server: Server, *, is_new: bool = False) -> None:
        self.redis = server.client
        self.server = RedisServer(server.url, new_prefix())
        if not is_new:
            self.redis.set(self.server.key(EPOCH), 1)
        self.granted: dict[str, int] = {}
        self.used: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        self._servers: dict[str, LeaseServer] = {}

    def lease_server(self, node: str) -> LeaseServer:
        return self._servers.setdefault(node, LeaseServer(self.server, node))

    async def ask(self, node: str, want: int, limit: int, *, period: int = 7, which: int = WINDOW) -> LeaseReply:
        self.numbers[node] = self.numbers.get(node, 0) + 1
        counter = Counter(which, period, limit, self.granted.get(node, 0), self.used.get(node, 0), 0)
        question = LeaseRequest(SUBJECT, self.numbers[node], [CounterRequest(counter, want)])
        (answer,) = await self.lease_server(node).ask([question])
        assert answer is not None
        self.granted[node] = self.granted.get(node, 0) + answer.grants[0].given
        return answer

    def age(self, node: str) -> None:
        """Make the latest question of a node an old one."""
        key = self.server.key("lease", SUBJECT)
        text = self.redis.hget(key, node)
        assert isinstance(text, bytes)
        number, _, counts = text.decode().split(" ", 2)
        self.redis.hset(key, node, f"{number} 1 {counts}")

    async def close(self) -> None:
        for server in self._servers.values():
            await server.close()


Run = Callable[[Callable[[Nodes], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def run(redis_server: Server) -> Run:
    def go(work: Callable[[Nodes], Coroutine[Any, Any, None]]) -> None:
        async def with_nodes() -> None:
            nodes = Nodes(redis_server)
            try:
                await work(nodes)
            finally:
                await nodes.close()

        asyncio.run(with_nodes())

    return go


@pytest.mark.slow
def test_grants_never_exceed_the_limit_and_grow(run: Run) -> None:
    async def work(nodes: Nodes) -> None:
        for turn in range(60):
            node = "abc"[turn % 3]
            nodes.used[node] = nodes.granted.get(node, 0)
            await nodes.ask(node, 1, 100)
        assert sum(nodes.granted.values()) == 100
        # Not one question for each request: the more a node has used, the more it gets.
        assert (await nodes.ask("a", 1, 100)).grants[0].given == 0
        assert sum(nodes.numbers.values()) < 100

    run(work)


def test_others_are_told_to_return_what_they_hold(run: Run) -> None:
    async def work(nodes: Nodes) -> None:
        await nodes.ask("a", 100, 100)
        grant = (await nodes.ask("b", 5, 100)).grants[0]
        assert (grant.given, grant.held) == (0, 100)
        stream: Any = nodes.redis.xrange(nodes.server.key("changes"))
        assert stream[-1][1] == {b"topic": b"lease", b"node": b"b", b"subject": SUBJECT.encode()}
        nodes.granted["a"] = 10
        await nodes.ask("a", 0, 100)
        assert (await nodes.ask("b", 5, 100)).grants[0].given == 5

    run(work)


def test_a_node_that_is_gone_counts_with_what_it_has_used(run: Run) -> None:
    async def work(nodes: Nodes) -> None:
        await nodes.ask("a", 100, 100)
        nodes.used["a"] = 30
        await nodes.ask("a", 0, 100)
        nodes.age("a")
        grant = (await nodes.ask("b", 100, 100)).grants[0]
        assert (grant.given, grant.elsewhere) == (70, 30)
        # Its running requests are gone with it.
        await nodes.ask("c", 4, 4, which=0)
        nodes.age("c")
        assert (await nodes.ask("d", 4, 4, which=0)).grants[0].given == 4

    run(work)


def test_a_late_question_changes_nothing(run: Run) -> None:
    async def work(nodes: Nodes) -> None:
        await nodes.ask("a", 10, 100)
        late = LeaseRequest(SUBJECT, 1, [CounterRequest(Counter(WINDOW, 7, 100, 0, 0, 0), 50)])
        assert await nodes.lease_server("a").ask([late]) == [None]
        assert (await nodes.ask("b", 100, 100)).grants[0].given == 90

    run(work)


def test_a_node_whose_clock_is_behind_learns_that_a_new_window_has_begun(run: Run) -> None:
    async def work(nodes: Nodes) -> None:
        await nodes.ask("a", 10, 10, period=8)
        grant = (await nodes.ask("b", 10, 10, period=7)).grants[0]
        assert (grant.period, grant.given) == (8, 0)

    run(work)


def test_budgets_wait_for_what_the_database_knows(run: Run) -> None:
    async def work(nodes: Nodes) -> None:
        money, large = FIRST_BUDGET, 5_000_000_000_000_003
        first = await nodes.ask("a", 5, large, which=money)
        assert (first.is_seeded, first.grants[0].given) == (False, 0)
        await nodes.lease_server("a").seed(SUBJECT, [Spent("gone", money, 7, large - 4), Spent("a", money, 7, 99)])
        second = await nodes.ask("a", 5, large, which=money)
        assert (second.is_seeded, second.grants[0].given, second.grants[0].elsewhere) == (True, 4, large - 4)

    run(work)


def test_an_emptied_server_grants_nothing_until_all_nodes_have_reported(redis_server: Server) -> None:
    async def work() -> None:
        nodes = Nodes(redis_server, is_new=True)
        answer = await nodes.ask("a", 5, 100)
        assert (answer.recovering, answer.grants[0].given) == (True, 0)
        nodes.redis.set(nodes.server.key(EPOCH), 1)
        assert (await nodes.ask("a", 5, 100)).grants[0].given == 5
        await nodes.close()

    asyncio.run(work())
