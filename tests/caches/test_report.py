"""The report on prompt caches: what it measures, and that it says so if a row is too low."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.caches.report import Case, Figures, Row, measured, table, worst
from tests.caches.running import World, world


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One upstream, and gateways with one and with three accounts."""
    with world(tmp_path_factory.mktemp("report")) as found:
        yield found


@pytest.mark.parametrize(
    ("client", "upstream"),
    [("Claude Code", "anthropic/claude-opus-4-8"), ("Codex", "openai/gpt-5.4"), ("Codex", "deepseek/deepseek-chat")],
)
def test_what_the_own_vendor_reads_is_read_through_the_gateway(played: World, client: str, upstream: str) -> None:
    """A session reads most of its input from the cache, and costs a fifth."""
    row = next(measured(played, [Case(client, upstream, "one long", 3)]))
    assert row.ideal.share > 0.85
    assert row.good, row
    assert row.through is not None
    assert row.through.cost < 0.25


def test_the_table_shows_the_worst_of_each_group() -> None:
    """What is below the aim is bold; what failed counts as nothing."""
    ideal = Figures(0.9, 0.2)

    def row(session: str, share: float | None) -> Row:
        through = None if share is None else Figures(share, 0.3)
        return Row("A", "b/c", session, 3, ideal, through, "" if through else "400 no")

    rows = [row("good", 0.88), row("bad", 0.5)]
    assert worst(rows, lambda one: one.client) == rows[1:]
    lines = table([*rows, row("broken", None)]).splitlines()
    assert lines[2:] == [
        "| A | b/c | good, 3 accounts | 90.0 %, 0.20 | 88.0 %, 0.30 | 98 % |",
        "| A | b/c | bad, 3 accounts | 90.0 %, 0.20 | 50.0 %, 0.30 | **56 %** |",
        "| A | b/c | broken, 3 accounts | 90.0 %, 0.20 | failed: 400 no | **0 %** |",
    ]
