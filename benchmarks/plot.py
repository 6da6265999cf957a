"""Choose the bars of the chart. Pure."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from benchmarks.gateways import DIRECT
from benchmarks.results import Results
from benchmarks.summary import Row, added, cost
from benchmarks.svg import Bar, Panel, chart

KINDS = ((False, "passed through"), (True, "translated"))


def picture(results: Results) -> str:
    """Return the chart of a run. A bar is the average over the pairs of its kind."""

    def late(row: Row) -> float | None:
        return added(row, results.rows, "first_p99_us")

    return chart(
        [
            Panel("CPU per plain request", "µs", _bars(results, lambda row: cost(row, "plain_us"))),
            Panel(
                "CPU per streamed event, events arriving one at a time",
                "µs",
                _bars(results, lambda row: cost(row, "event_us")),
            ),
            Panel("Added time to first token, p99 at half of capacity", "ms", _bars(results, late, 1e3)),
            Panel("Memory when idle", "MiB", _holds(results)),
        ]
    )


def _bars(results: Results, of: Callable[[Row], float | None], scale: float = 1) -> tuple[Bar, ...]:
    bars = []
    for gateway in dict.fromkeys(row.gateway for row in results.rows if row.gateway != DIRECT):
        for translated, kind in KINDS:
            rows = [row for row in results.rows if row.gateway == gateway and row.translated is translated]
            found = [value for value in map(of, rows) if value is not None]
            # A logarithmic scale cannot show values that are not above zero.
            if found and fmean(found) > 0:
                bars.append(Bar(f"{gateway}, {kind}", fmean(found) / scale, gateway))
    return tuple(bars)


def _holds(results: Results) -> tuple[Bar, ...]:
    return tuple(Bar(h.gateway, h.idle_kib.median / 1024, h.gateway) for h in results.holds if h.idle_kib)
