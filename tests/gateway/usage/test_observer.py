"""What one request is counted as: names that are limited, usage that cannot be true, and sums that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from trilogue.config.load import load
from trilogue.gateway.features.usage import observer as names
from trilogue.gateway.features.usage.ledger.ledger import UsageLedger
from trilogue.gateway.features.usage.ledger.live_file import Counts
from trilogue.gateway.features.usage.ledger.tables import LedgerTables, UsageQuery
from trilogue.gateway.features.usage.observer import UsageObserver
from trilogue.gateway.features.usage.report import usage_query
from trilogue.gateway.record import RequestRecord
from trilogue.model import Failure, FailureKind, Usage
from trilogue.routing.pool.decision import Decision
from trilogue.storage.sqlite import MemoryDatabase
from trilogue.upstreams.build import router_of

CONFIG = """\
providers:
  up: {protocol: chat, base_url: "http://127.0.0.1:1", models: [named], prices: {named: {input: 1, output: 2}}}
  free: {protocol: chat, base_url: "http://127.0.0.1:2", prices: {"*": {input: 0, output: 0}}}
"""


@pytest.fixture
def usage(tmp_path: Path) -> Iterator[UsageObserver]:
    (tmp_path / "trilogue.yaml").write_text(CONFIG)
    made = UsageObserver(UsageLedger(LedgerTables(MemoryDatabase()), tmp_path / "usage.live", 30))
    config = load(tmp_path / "trilogue.yaml", {})
    made.configure(router_of(config), {name: one.price_book() for name, one in config.providers.items()})
    yield made
    made.close()


def record(model: str = "named", used: Usage | None = None, provider: str = "up", **fields: Any) -> RequestRecord:
    made = RequestRecord(
        request_id="r",
        began_at=0.0,
        model=model,
        provider=provider,
        account=provider,
        upstream_model=model,
        usage=used,
        decision=Decision(request_id="r", at=0.0, model=model),
    )
    return replace(made, **fields)


def total(usage: UsageObserver) -> Counts:
    (line,) = usage.read(UsageQuery())
    return line.counts


def test_all_kinds_of_tokens(usage: UsageObserver) -> None:
    used = Usage(fresh=1, cache_read=2, cache_write=4, cache_write_long=3, output=10, reasoning=7, searches=0)
    for _ in range(2):
        usage.request_settled(record(used=used))
    assert total(usage) == Counts(
        requests=2,
        fresh=2,
        cache_read=4,
        cache_write=8,
        cache_write_long=6,
        output=20,
        reasoning=14,
        cost=2 * (1 + 2 + 4 + 2 * 10) * 1_000_000,
    )


def test_what_is_no_request_to_a_model_is_not_counted(usage: UsageObserver) -> None:
    """Token counts have no decision, requests about files no model."""
    usage.request_settled(record(decision=None))
    usage.request_settled(record(model=""))
    assert usage.read(UsageQuery()) == []


@pytest.mark.parametrize(
    "used", [Usage(fresh=2**63), Usage(output=10**30), Usage(fresh=-5), Usage(cache_read=2**50), Usage(output=-1)]
)
def test_usage_that_cannot_be_true(usage: UsageObserver, used: Usage) -> None:
    """It is as if the upstream had reported none; later requests are counted as usual."""
    usage.request_settled(record(used=used))
    usage.request_settled(record(used=Usage(fresh=3)))
    assert total(usage) == Counts(requests=2, unmetered=1, unpriced=1, fresh=3, cost=3_000_000)


def test_sums_that_do_not_fit(usage: UsageObserver) -> None:
    """Tokens of one hour may exceed what fits into the file, if an upstream reports the most that is believed."""
    row = None
    for _ in range(3):
        usage.request_settled(record(used=Usage(fresh=2**40)))
        row = row or next(iter(usage._rows.values()))
        row.counts[4] = 2**63 - 2**40
    assert total(usage).requests == 3


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Counts(requests=1, unmetered=1, unpriced=1)),
        ({"error": "client_gone"}, Counts(requests=1, errors=1, unmetered=1, unpriced=1)),
        ({"provider": "free"}, Counts(requests=1, unmetered=1)),
        (
            {"error": "x", "failure": Failure(kind=FailureKind.SERVER, message="")},
            Counts(requests=1, errors=1),
        ),
        (
            {"error": "x", "failure": Failure(kind=FailureKind.SERVER, message=""), "content_at": 1.0},
            Counts(requests=1, errors=1, unmetered=1, unpriced=1),
        ),
        ({"provider": "", "account": "", "upstream_model": ""}, Counts(requests=1, unmetered=1, unpriced=1)),
    ],
)
def test_requests_without_usage(usage: UsageObserver, fields: dict[str, Any], expected: Counts) -> None:
    """A refusal costs nothing. What an upstream began to send has an unknown cost, unless it is free."""
    usage.request_settled(record(**fields))
    assert total(usage) == expected


def test_names_of_clients_are_limited(usage: UsageObserver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only models that an upstream has responded for count by name, and not too many of them."""
    monkeypatch.setattr(names, "MAX_NAMES", 3)
    failed: dict[str, Any] = {"error": "x", "failure": Failure(kind=FailureKind.MODEL_NOT_FOUND, message="")}
    for number in range(5):
        usage.request_settled(record(f"wrong-{number}", **failed))
        usage.request_settled(record(f"right-{number}", Usage(fresh=1)))
    usage.request_settled(record("named", Usage(fresh=1)))
    usage.request_settled(record("x" * 10_000, Usage(fresh=1)))
    usage.request_settled(record("\x00" * 140, Usage(fresh=1)))
    found = {line.names[0]: line.counts.requests for line in usage.read(UsageQuery(by=("model",)))}
    assert found == {"named": 1, "right-0": 1, "right-1": 1, "right-2": 1, "other": 9}


def test_metrics_have_a_limited_number_of_series(usage: UsageObserver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums stay the same over hours and reloads."""
    monkeypatch.setattr("trilogue.gateway.features.usage.observer.MOST_SERIES", 4)
    for number in range(6):
        usage.request_settled(record(f"m{number}", Usage(fresh=1)))
        usage.request_settled(record(used=Usage(fresh=1)))
        usage._forget_rows()
    costs = dict(usage.costs())
    assert len(costs) <= 5
    assert sum(cost for cost, _ in costs.values()) == 6_000_000
    assert sum(unpriced for _, unpriced in costs.values()) == 6


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ({"since": "24h"}, 490_000 - 24, None),
        ({"since": "1d"}, 489_984 - 24, None),
        ({"since": "2w"}, 489_984 - 14 * 24, None),
        ({"since": "2025-11-24", "until": "2025-11-24"}, 489_984, 489_984 + 24),
        ({"since": "all"}, 0, None),
        ({"since": "99999w"}, 0, None),
    ],
)
def test_times_of_questions(asked: dict[str, str], start: int, end: int | None) -> None:
    """It is 2025-11-24, 16:00 UTC."""
    query = usage_query(asked, 490_000 * 3600.0 + 5)
    assert query.start == start
    assert end is None or query.end == end
    assert query.by == ("model",)


def test_accounts_are_named_with_their_provider() -> None:
    query = usage_query({"account": "openai/a", "by": " key, key ,day"}, 0.0)
    assert query.only == {"provider": "openai", "account": "a"}
    assert query.by == ("key", "day")
