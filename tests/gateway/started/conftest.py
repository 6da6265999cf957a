"""Here modules start gateways themselves, with settings of their own. Each module has an upstream for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    """A scripted upstream. Its requests pile up from test to test."""
    with thread.running() as upstream:
        yield upstream
