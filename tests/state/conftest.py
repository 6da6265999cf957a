from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.state.responses.postgres import Server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Return a PostgreSQL server; one serves all tests of a process."""
    server = Server()
    server.start()
    yield server
    server.remove()
