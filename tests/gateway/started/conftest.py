"""Here modules start gateways themselves, with settings of their own. Each module has an upstream for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.process import PATIENT, Started, started
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream

KEYLESS = PATIENT.replace("keys: [env:TRILOGUE_KEY]\n", "")


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    """A scripted upstream. Its requests pile up from test to test."""
    with thread.running() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def locked(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A gateway that asks for a key."""
    with started(tmp_path_factory.mktemp("locked"), PATIENT, up.url) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def local(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A gateway without keys."""
    with started(tmp_path_factory.mktemp("local"), KEYLESS, up.url) as gateway:
        yield gateway
