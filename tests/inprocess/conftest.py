"""One scripted upstream for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.inprocess.sdks import Sdks
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream


@pytest.fixture(scope="session")
def _upstream() -> Iterator[ScriptedUpstream]:
    with thread.running() as upstream:
        yield upstream


@pytest.fixture
def up(_upstream: ScriptedUpstream) -> ScriptedUpstream:
    """The scripted upstream, with no requests on record."""
    _upstream.requests.clear()
    return _upstream


@pytest.fixture
def sdks(up: ScriptedUpstream) -> Iterator[Sdks]:
    """Clients for the scripted upstream, in process."""
    with ExitStack() as stack:
        yield Sdks(up, stack)
