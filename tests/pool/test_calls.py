"""What the pool costs an ordinary request, in function calls: one target, and the first attempt succeeds."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.test_cost import REQUESTS, calls, check
from trilogue.app.worker import WorkerPools
from trilogue.base.clock import steady_time
from trilogue.model import Usage
from trilogue.routing.pool.pools import Pools
from trilogue.routing.pool.settings import AccountSpec, PoolsSettings, ProviderSpec
from trilogue.storage.records import RecordFile
from trilogue.upstreams.state.sync import StateSync

PER_REQUEST = {"": 34, "conversation": 35}
"""with a state file, by the key of the conversation"""


def one_request(pools: Pools, accounts: WorkerPools, sticky: str) -> None:
    """Use the pool for one request as the gateway does."""
    now = steady_time()
    accounts.sync(now)
    journey = pools.begin(now, "r", [("p", "m")], sticky=sticky, tokens=100)
    assert journey.next(now) is not None
    journey.finished(now, Usage(fresh=10, output=5))
    journey.released(now)
    accounts.sync(now)


@pytest.mark.parametrize("sticky", PER_REQUEST)
def test_calls_per_request(sticky: str, tmp_path: Path) -> None:
    """Return the number of calls per request. Reading the clock is not counted."""
    spec = ProviderSpec(name="p", accounts=tuple(AccountSpec(name=name) for name in "abc"))
    pools = Pools([spec], PoolsSettings(), rng=Random(7))
    accounts = WorkerPools(tmp_path / "pool.db")
    accounts._sync = StateSync(pools, RecordFile(tmp_path / "pool.db"), steady_time())

    def run() -> None:
        for _ in range(REQUESTS):
            one_request(pools, accounts, sticky)

    run()
    found = calls(run) / REQUESTS - 3
    accounts.close()
    check(found, PER_REQUEST[sticky])
