"""What observers cost: the rows, and how they are compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gateways import trilogue_config
from benchmarks.observers import OBSERVERS, RECEIVER, Observed, Overhead
from benchmarks.tables import observers
from tests.benchmarks.sample import sample_results
from trilogue.config.load import parse

NONE = Overhead("none", None, [100.0, 200.0, 110.0], [20.0, None])
SOME = Overhead("some", 1.03, [103.0, 206.0, 111.0], [30.0, 22.0])


@pytest.mark.parametrize("row", OBSERVERS, ids=lambda row: row.name)
def test_every_row_is_a_configuration(row: Observed, tmp_path: Path) -> None:
    settings = row.settings.replace(RECEIVER, "http://127.0.0.1:9")
    assert parse(f"{trilogue_config(9)}{settings}".encode(), {}, tmp_path).providers


def test_only_slices_of_one_round_are_compared() -> None:
    """The machine may be half as fast in the next one."""
    assert SOME.ratio(NONE, "plain_us") == pytest.approx(1.03)
    assert SOME.ratio(NONE, "event_us") == pytest.approx(1.5)
    assert SOME.median("plain_us") == 111.0
    assert Overhead("nothing").ratio(NONE, "plain_us") is None


def test_table_and_targets() -> None:
    results = replace(sample_results(), overheads=[NONE, SOME])
    assert observers(results).rows[1] == ("some", "111", "1.03x", "26.0", "1.50x")
    found = {target.name: target.met for target in results.targets() if "relative to none" in target.name}
    assert found == {
        "plain request with some, CPU relative to none": True,
        "streamed event with some, CPU relative to none": False,
    }
