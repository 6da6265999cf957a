"""A PostgreSQL and a Redis server per test process, and two gateways that share them, behind nginx."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest

from tests.cluster.redis import Server as RedisServer
from tests.machines.nodes import Cluster, cluster, shared
from tests.multiturn.gateways import OTHER_KEY, Gateway, settings
from tests.multiturn.strict import StrictUpstream
from tests.scripted import thread
from tests.state.responses.postgres import Server

ENVIRON = {"OTHER_KEY": OTHER_KEY}


@dataclass
class Pair:
    """Two gateways in front of the strict upstream. `front`: both, through nginx, one request after the other."""

    cluster: Cluster
    up: StrictUpstream
    server: Server
    open: ExitStack

    def node(self, number: int) -> Gateway:
        """Return one of the gateways, with clients of its own."""
        node = self.cluster.nodes[number]
        return Gateway(node.process, node.folder, self.up, self.open)

    @property
    def front(self) -> Gateway:
        first = self.cluster.nodes[0]
        return Gateway(replace(first.process, url=self.cluster.url), first.folder, self.up, self.open)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server that no test stops."""
    server = Server()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis server that no test stops."""
    server = RedisServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def _upstream() -> Iterator[StrictUpstream]:
    with thread.running(StrictUpstream()) as upstream:
        assert isinstance(upstream, StrictUpstream)
        yield upstream


@pytest.fixture(scope="session")
def _pair(
    _upstream: StrictUpstream,
    postgres: Server,
    redis_server: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Cluster, Server]]:
    folder = tmp_path_factory.mktemp("pair")
    config = settings(more=shared(postgres.new_database(), redis_server.url))
    with cluster(folder, 2, config, _upstream.url, ENVIRON) as running:
        yield running, postgres


@pytest.fixture
def pair(_pair: tuple[Cluster, Server], _upstream: StrictUpstream) -> Iterator[Pair]:
    """Two gateways. Tests that kill one start it again."""
    _upstream.reset()
    with ExitStack() as stack:
        yield Pair(_pair[0], _upstream, _pair[1], stack)
