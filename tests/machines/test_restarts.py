"""Gateways that are restarted or killed under load, behind nginx: no request is lost, and usage adds up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cluster.redis import Server as RedisServer
from tests.machines.load import CONFIG, CountingUpstream, Load, under_load, unreadable
from tests.machines.nodes import Node, cluster, shared
from tests.machines.settling import live_files, settled
from tests.state.responses.postgres import Server
from tests.timing import eventually_async

pytestmark = pytest.mark.slow

SETTLE_SECONDS = 30.0
FEW = 10


async def more(load: Load, requests: int) -> None:
    """Wait until so many more requests have ended."""
    wanted = load.sent + requests
    await eventually_async(lambda: load.sent >= wanted, SETTLE_SECONDS)


async def back(node: Node) -> None:
    """Start a gateway, and wait until nginx uses it again: it leaves out one that has refused a connection for 1 s."""
    await asyncio.to_thread(node.start)
    await eventually_async(lambda: '"event":"request"' in node.process.log, SETTLE_SECONDS)


def test_a_rolling_restart_loses_no_request(tmp_path: Path, postgres: Server, redis_server: RedisServer) -> None:
    """Every request is answered, every response can be read, and the ledger has what the upstream has sent."""
    url = postgres.new_database()

    async def main() -> None:
        load, upstream = Load(), CountingUpstream(delay=0.02)
        async with upstream.running():
            with cluster(tmp_path, 2, shared(url, redis_server.url) + CONFIG, upstream.url) as running:
                async with under_load(running.url, load):
                    await more(load, FEW)
                    for node in running.nodes:
                        assert await asyncio.to_thread(node.stop) == 0
                        await more(load, FEW)
                        await back(node)
                assert len(load.answered) == load.sent, load.summary()
                assert await unreadable(load, [node.url for node in running.nodes]) == []
                sums = await settled(url, running)
        assert (sums.output, sums.fresh) == (upstream.requests, upstream.tokens)
        assert load.problems(sums, upstream) == []
        assert load.stored

    asyncio.run(main())


def test_killed_gateways_lose_nothing_that_was_acknowledged(
    tmp_path: Path, postgres: Server, redis_server: RedisServer
) -> None:
    """A killed gateway cuts the requests that it had, and no others. What clients got is counted, once."""
    url = postgres.new_database()

    async def main() -> None:
        load, upstream = Load(), CountingUpstream()
        async with upstream.running():
            with cluster(tmp_path, 2, shared(url, redis_server.url) + CONFIG, upstream.url) as running:
                async with under_load(running.url, load):
                    for node in running.nodes:
                        await more(load, 5 * FEW)
                        node.kill()
                        assert live_files(running)
                        await more(load, 5 * FEW)
                        await back(node)
                assert load.hung == set()
                assert set(load.refused.values()) <= {"502 Bad Gateway"}, load.summary()
                assert await unreadable(load, [node.url for node in running.nodes]) == []
                sums = await settled(url, running)
        assert load.problems(sums, upstream) == [], load.summary()

    asyncio.run(main())
