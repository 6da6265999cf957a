"""Made-up results of a run, small enough to check by hand."""

from __future__ import annotations

import subprocess

from benchmarks.footprint import Footprint
from benchmarks.gateways import DIRECT, NGINX, TRILOGUE, Running
from benchmarks.growth import Growth, Point, Series, Workers
from benchmarks.interpreter import Interpreter
from benchmarks.measure import Slice
from benchmarks.results import Results
from benchmarks.rounds import FULL
from benchmarks.summary import Row, hold, row

MARKERS = 96
NOT_RUNNING = Running(subprocess.Popen.__new__(subprocess.Popen), 0)
"""a gateway that is not running"""
PYTHON = Interpreter("/somewhere/venv/bin/python", "/usr/bin/python3.99", "CPython", "3.99.1", "GCC 1.2", False)
"""an interpreter that does not exist"""


def cut(
    *, plain_us: float = 100, event_us: float = 20, first: float | None = None, failed: int = 0, at: float = 0
) -> Slice:
    """Return a slice of one second with 1,000 requests or 1,000 texts."""
    cost = plain_us if first is None and event_us == 0 else event_us * 100 / MARKERS
    p99 = None if first is None else first * 2
    return Slice(1_000, failed, 1_000, 1_000_000, cost * 1_000, 0, 50_000, 60_000, 16, 0, 10, first, p99, at)


def sample_row(gateway: str, pair: str, plain: float, event: float, first: float) -> Row:
    """Return a row with these figures in three rounds."""
    slices = {
        "plain": [cut(plain_us=plain * factor, event_us=0, at=at) for at, factor in enumerate((1, 1.5, 0.9))],
        "calm": [cut(plain_us=3 * plain, event_us=0)] if plain < 1_000 else [],
        "stream": [cut(event_us=event * factor, at=at) for at, factor in enumerate((1, 1.5, 0.9))],
        "first": [cut(first=first)],
    }
    return row(gateway, pair, slices, MARKERS, 100)


def sample_results() -> Results:
    """Return the results of a run with four gateways."""
    rows = [
        sample_row(NGINX, "chat>chat", 25, 15, 10_300),
        sample_row(TRILOGUE, "chat>chat", 100, 24, 10_400),
        sample_row(TRILOGUE, "chat>messages", 150, 36, 30_500),
        sample_row("LiteLLM", "chat>chat", 16_000, 600, 90_000),
        sample_row(DIRECT, "chat>chat", 0, 0, 10_100),
        sample_row(DIRECT, "messages>messages", 0, 0, 30_100),
    ]
    found = [
        Footprint(TRILOGUE, "chat>chat", 0.4, 40_960, (500, 1_500), (60_000, 90_000)),
        Footprint(TRILOGUE, "chat>messages", 0.5, 40_960, (500, 1_500), (60_000, 110_000)),
    ]
    growth = Growth(
        [
            Series("stream length", "chat>chat", "events", "µs per event", [Point(100, 20), Point(100_000, 22)]),
            Series(
                "request size", "chat>chat", "bytes", "µs per additional byte",
                [Point(1_000, 100), Point(11_000, 200), Point(101_000, 2_100)], marginal=True,
            ),
        ],
        Workers(False, (8_000, 9_000), (100, 110)),
        ["10,000 open streams were not possible."],
    )  # fmt: skip
    return Results(
        {"processor": "a fast one", "cores": "2"},
        FULL,
        "2026-01-02",
        versions={NGINX: "1.2.3", TRILOGUE: "this checkout", "LiteLLM": "9.9"},
        rows=rows,
        holds=[hold(name, found) for name in (NGINX, TRILOGUE)],
        footprints=found,
        import_ms={"trilogue": 90.0, "LiteLLM": 4_000.0},
        growth=growth,
        notes=["Portkey was left out: no node."],
    )
