"""One upstream and one gateway for all tests of a worker: starting a process is what takes time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.running import CONFIG, Gateway, running
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream


@pytest.fixture(scope="session")
def _upstream() -> Iterator[ScriptedUpstream]:
    with thread.running() as upstream:
        yield upstream


@pytest.fixture(scope="session")
def _gateway(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("gateway"), CONFIG, _upstream.url) as gateway:
        yield gateway


@pytest.fixture
def up(_upstream: ScriptedUpstream) -> ScriptedUpstream:
    """The scripted upstream, with no requests on record."""
    _upstream.requests.clear()
    return _upstream


@pytest.fixture
def gateway(_gateway: Gateway, up: ScriptedUpstream) -> Gateway:
    """A gateway in front of the scripted upstream. Its providers are called chat, messages and responses."""
    _gateway.recorder.exchanges.clear()
    return _gateway
