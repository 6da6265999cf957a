"""Limits and budgets over several gateways, with real servers: never more than allowed, also while things break."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.storm import Cluster, cluster, until
from tests.gateway.process import Started
from tests.timing import pass_time

pytestmark = pytest.mark.slow

REQUESTS, TOKENS, CONCURRENCY, MONEY = 300, 9_000, 25, 300.0
RESERVED = 2.3
"""dollars: at least as much as is reserved for a request"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("limits"), 2, workers=2) as running:
        yield running


def test_a_storm_stays_within_all_limits(found: Cluster) -> None:
    requests = found.storm("requests", 400)
    assert found.up.requests["requests"] == requests["200"] <= REQUESTS
    assert requests["200"] + requests["429 rate_limit_exceeded"] == 400
    # Nothing is refused while it is left, unless the machines are too slow to return it to each other.
    assert requests["200"] >= REQUESTS * 0.5
    tokens = found.storm("tokens", 200)
    assert 0 < found.up.tokens("tokens") <= TOKENS
    assert tokens["200"] + tokens["429 rate_limit_exceeded"] == 200
    concurrency = found.storm("concurrency", 200)
    assert 0 < found.up.most["concurrency"] <= CONCURRENCY
    assert concurrency["200"] + concurrency["429 rate_limit_exceeded"] == 200
    budget = found.storm("budget", 200)
    assert 0 < found.up.cost("budget") <= MONEY
    assert budget["200"] + budget["429 budget_exceeded"] == 200


def _nearly_all(found: Cluster, gateway: Started) -> bool:
    return found.storm("concurrency", CONCURRENCY, [gateway])["200"] >= CONCURRENCY - 3


def test_a_machine_can_use_what_another_one_was_granted_and_does_not_use(found: Cluster) -> None:
    """Also requests that ended give back: at no time may both together have more."""
    for gateway in found.gateways:
        until(partial(_nearly_all, found, gateway))
    assert found.up.most["concurrency"] <= CONCURRENCY


def test_what_was_spent_is_in_the_database(found: Cluster) -> None:
    found.storm("budget", 10)
    until(lambda: found.stored_money() == pytest.approx(found.up.cost("budget")))


def test_the_server_is_killed_emptied_and_comes_back(tmp_path: Path) -> None:
    with cluster(tmp_path, 2) as found:
        assert found.storm("requests", 20)["200"] == found.storm("budget", 20)["200"] == 20
        spent = found.up.cost("budget")
        until(lambda: found.stored_money() == pytest.approx(spent))
        found.redis.stop(signal.SIGKILL)
        # Rate limits go on with the share of each machine, and budgets are closed.
        until(lambda: found.ask("budget") == found.ask("budget", 1) == "429 budget_unavailable")
        assert found.ask("lenient") == "200"
        ended = found.storm("requests", 400)
        assert 0 < found.up.requests["requests"] <= REQUESTS + REQUESTS // 2
        assert ended["200"] + ended["429 rate_limit_exceeded"] == 400
        # Each machine says so once in its log.
        assert all(gateway.log.count("limits: the cluster cannot be asked") == 1 for gateway in found.gateways)
        found.redis.start()
        until(lambda: found.ask("budget") == found.ask("budget", 1) == "200", 60)
        # What was spent before comes from the machines and the database: the new server was empty.
        ended = found.storm("budget", 300)
        until(lambda: found.storm("budget", 20)["200"] == 0)
        assert found.up.cost("budget") <= MONEY
        assert found.up.cost("budget") >= MONEY - 2 * RESERVED


def test_what_a_killed_machine_did_not_use_goes_to_the_others(tmp_path: Path) -> None:
    with cluster(tmp_path, 2) as found:
        assert found.storm("requests", 100, found.gateways[:1])["200"] == 100
        pass_time(1.0)  # it reports what it has used
        found.gateways[0].signal(signal.SIGKILL)

        def all_used() -> bool:
            found.storm("requests", 50, found.gateways[1:])
            return found.up.requests["requests"] >= REQUESTS

        until(all_used, 60)
        assert found.storm("requests", 50, found.gateways[1:]) == {"429 rate_limit_exceeded": 50}
        assert found.up.requests["requests"] == REQUESTS
