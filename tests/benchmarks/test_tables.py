"""What people read: tables, the page, the chart and the JSON."""

from __future__ import annotations

import json
import re
from xml.parsers import expat

import pytest

from benchmarks.page import page
from benchmarks.plot import picture
from benchmarks.results import Results
from benchmarks.rounds import QUICK
from benchmarks.svg import Bar, Panel, chart, decades
from benchmarks.tables import Table, all_tables, markdown, number, text
from tests.benchmarks.sample import sample_results

TABLE = Table("Costs", ("gateway", "µs"), (("nginx", "25"), ("a", "1,000")))
EMPTY = Results({}, QUICK, "2026-01-02")


def well_formed(xml: str) -> bool:
    """Return whether the text can be parsed as XML; the parser raises if not."""
    return bool(expat.ParserCreate().Parse(xml, True))


def test_text_is_aligned() -> None:
    """Names are on the left, figures on the right."""
    assert text(TABLE) == "Costs\ngateway     µs\nnginx       25\na        1,000"


def test_markdown() -> None:
    """Markdown leaves the alignment to the renderer."""
    assert markdown(TABLE) == "| gateway | µs |\n| --- | ---: |\n| nginx | 25 |\n| a | 1,000 |"


@pytest.mark.parametrize(("value", "shown"), [(None, "-"), (1.234, "1.23"), (12.34, "12.3"), (12_345.6, "12,346")])
def test_numbers_have_three_digits_or_so(value: float | None, shown: str) -> None:
    """More digits would be noise."""
    assert number(value) == shown


@pytest.mark.parametrize("results", [sample_results(), EMPTY], ids=["full", "empty"])
def test_everything_can_be_shown(results: Results) -> None:
    """Missing figures can be shown too."""
    for table in all_tables(results):
        assert {len(row) for row in table.rows} <= {len(table.header)}
        assert text(table)
    assert json.loads(json.dumps(results.as_json()))["date"] == "2026-01-02"
    assert well_formed(picture(results))
    assert page(results).startswith("# Performance\n")


def test_page_has_all_parts() -> None:
    """The page has ratios, targets, growth, the machine and its notes."""
    written = page(sample_results())
    for part in (
        "a fast one",
        "left out",
        "1.2.3",
        "| chat>messages |",
        "NOT MET",
        "## Growth",
        "1.82 times",
        "none failed",
    ):
        assert part in written
    assert not re.search(r"\n{3}|\{\w*\}", written)


def test_table_of_costs_has_ratios() -> None:
    """Ratios are relative to the average of nginx."""
    costs = all_tables(sample_results())[0]
    ours = next(row for row in costs.rows if row[:2] == ("trilogue", "chat>chat"))
    assert ours[2:4] == ("100", "4.00x")
    assert ours[7:9] == ("300", "4.00x")
    assert ours[10:12] == ("24.0", "1.60x")


def test_bars_grow_with_the_logarithm() -> None:
    """Ten times as much is one step further."""
    bars = tuple(Bar(f"<{value}>", value, "nginx") for value in (10.0, 100.0, 1_000.0))
    drawn = chart([Panel("a & b", "µs", bars), Panel("empty", "µs", ())])
    widths = [float(width) for width in re.findall(r'<rect x=.* width="([\d.]+)"', drawn)]
    assert widths[2] == pytest.approx(2 * widths[1], abs=0.2)
    assert well_formed(drawn)
    assert "&lt;10.0&gt;" in drawn
    assert "empty" not in drawn


def test_decades_hold_all_values() -> None:
    """There is at least one decade."""
    assert decades([25, 30_000]) == (1, 5)
    assert decades([10, 10]) == (1, 2)
