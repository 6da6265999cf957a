from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.redis import Server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    """Return a Redis server; one serves all tests of a process, each with a prefix of its own."""
    server = Server()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """Return a Redis server for one test, which may do anything to it."""
    server = Server()
    server.start()
    yield server
    server.remove()
