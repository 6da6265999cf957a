"""One strict upstream per test process, and gateways with one and with two workers in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.multiturn.gateways import Gateway, gateway, settings
from tests.multiturn.strict import StrictUpstream
from tests.scripted import thread


@pytest.fixture(scope="session")
def _upstream() -> Iterator[StrictUpstream]:
    with thread.running(StrictUpstream()) as upstream:
        assert isinstance(upstream, StrictUpstream)
        yield upstream


@pytest.fixture
def up(_upstream: StrictUpstream) -> StrictUpstream:
    """The strict upstream, with nothing on record."""
    _upstream.reset()
    return _upstream


@pytest.fixture(scope="session")
def _one(_upstream: StrictUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("one"), _upstream) as running:
        yield running


@pytest.fixture(scope="session")
def _two(_upstream: StrictUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("two"), _upstream, settings(workers=2)) as running:
        yield running


@pytest.fixture
def one(_one: Gateway, up: StrictUpstream) -> Gateway:
    """A gateway with one worker, with SQLite state."""
    return _one


@pytest.fixture(params=["one worker", "two workers"])
def either(request: pytest.FixtureRequest, up: StrictUpstream) -> Gateway:
    """A gateway with one worker, and then one with two."""
    running: Gateway = request.getfixturevalue("_one" if request.param == "one worker" else "_two")
    return running
