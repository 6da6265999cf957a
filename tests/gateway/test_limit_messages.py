"""What a refusal by limits and budgets says: which model has no price, and that the servers of a cluster are away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import pytest

from trilogue.app.build import limit_rules
from trilogue.config.load import parse
from trilogue.errors import LimitReached
from trilogue.gateway.access.client_keys import ClientKey
from trilogue.gateway.access.settings import KeyOptions
from trilogue.gateway.features.cluster.lease_keeper import LeaseKeeper
from trilogue.gateway.limits.counting import Estimate, Subject
from trilogue.gateway.limits.leasing import Leasing
from trilogue.gateway.limits.limiter import Asked, Limiter, LimitState
from trilogue.gateway.limits.settings import BudgetSettings, RateLimits
from trilogue.gateway.limits.shared_table import LazyTable, LimitTable, MemoryTable
from trilogue.gateway.limits.webhook import Webhook
from trilogue.net.client.transport import HttpTransport
from trilogue.storage.database import StoreUnavailable
from trilogue.upstreams.build import pools_of, router_of
from trilogue.upstreams.catalog import Catalog
from trilogue.upstreams.refused_reasoning import RefusedReasoning
from trilogue.upstreams.upstreams import Upstreams, UpstreamState

CONFIG = b"""\
providers:
  acme: {protocol: chat, base_url: "http://127.0.0.1:9/v1"}
aliases: {fast: acme/some-model}
"""
OPTIONS = KeyOptions(limits=RateLimits(requests_per_day=2), budget=BudgetSettings(day=5.0))
KEY = ClientKey("ci", options=OPTIONS, restricted=True)
SPENDING = ClientKey("ci", options=KeyOptions(budget=BudgetSettings(day=5.0)), restricted=True)


class Granted(LeaseKeeper):
    """The leases of a machine that was granted nothing."""

    def __init__(self, leasing: Leasing) -> None:
        self.now_leasing = leasing

    @property
    def leasing(self) -> Leasing:
        return self.now_leasing

    def now(self) -> float:
        return time.time()

    def use(self, names: Iterable[str]) -> None:
        """Renew nothing."""

    async def more(self, subjects: Sequence[Subject], estimate: Estimate, requests: int = 1) -> bool:
        return False


def refusal(
    table: LimitTable,
    leasing: Leasing | None,
    estimate: Estimate,
    model: str = "fast",
    times: int = 1,
    key: ClientKey = KEY,
) -> str:
    """Return the message of the last of some requests."""
    leases = None if leasing is None else Granted(leasing)
    state = LimitState(table, Webhook(), leases)
    config = parse(CONFIG, {}, Path())
    known = UpstreamState(
        pools_of(config, Random(1), config.server.workers), Catalog(), RefusedReasoning(), lambda: None
    )
    upstreams = Upstreams(config.providers, config.server.timeouts, lambda provider, proxy: HttpTransport(), known)
    limiter = Limiter(
        limit_rules(config),
        state,
        lambda record, now: None,
        unpriced=lambda model: upstreams.unpriced(router_of(config), model),
    )
    for _ in range(times - 1):
        asyncio.run(limiter.begin(key, Asked(model, ""), estimate))
    with pytest.raises(LimitReached) as caught:
        asyncio.run(limiter.begin(key, Asked(model, ""), estimate))
    return str(caught.value)


@pytest.mark.parametrize(("model", "named"), [("fast", "acme/some-model"), ("acme/other", "acme/other")])
def test_an_unknown_price(model: str, named: str) -> None:
    assert refusal(MemoryTable(), None, Estimate(10, None), model) == (
        f"the key has a budget, and the price of {named} is unknown: set it in providers.acme.prices or in "
        "price_file, or set unknown_prices: allow in the budget"
    )


def test_redis_is_away() -> None:
    """The client learns that it is not its own budget that is spent."""
    away = Leasing(away=True, share=0.5)
    assert refusal(MemoryTable(), away, Estimate(10, 1000)) == (
        "budgets cannot be checked now: the Redis server of the cluster is away, and this machine has used what it was "
        "granted"
    )


def test_redis_was_emptied() -> None:
    unknown = Leasing(money_unknown=True)
    assert refusal(MemoryTable(), unknown, Estimate(10, 1000), key=SPENDING) == (
        "budgets cannot be checked now: the cluster does not know yet what was spent"
    )


def test_a_rate_limit_while_redis_is_away() -> None:
    away = Leasing(away=True, share=0.5)
    assert refusal(MemoryTable(), away, Estimate(10, 0), times=2) == (
        "the key has reached its limit: requests_per_day (the Redis server of the cluster is away, so this machine may "
        "use only its share)"
    )
    assert refusal(MemoryTable(), None, Estimate(10, 0), times=3) == ("the key has reached its limit: requests_per_day")


def test_counts_that_cannot_be_used() -> None:
    def make() -> LimitTable:
        raise StoreUnavailable("cannot use limits.dat")

    assert refusal(LazyTable(make), None, Estimate(10, 1000)) == (
        "budgets cannot be checked now: the counts of this machine cannot be read or written"
    )
