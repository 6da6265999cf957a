"""Turn results into tables, with the same cells for the terminal and for Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.gateways import DIRECT, NGINX
from benchmarks.growth import Growth
from benchmarks.results import Results
from benchmarks.summary import Figure, Row, added, relative_to
from benchmarks.targets import Target

NOTHING = "-"


@dataclass(frozen=True)
class Table:
    """Cells. The first columns are names, the others are figures."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int = 1


def text(table: Table) -> str:
    """Return a table for the terminal."""
    widths = [max(len(row[column]) for row in (table.header, *table.rows)) for column in range(len(table.header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if column < table.names else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([table.title, line(table.header), *map(line, table.rows)])


def markdown(table: Table) -> str:
    """Return a table as Markdown, without the title."""
    rule = ["---" if column < table.names else "---:" for column in range(len(table.header))]
    lines = [table.header, rule, *table.rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def number(value: float | None, unit: str = "") -> str:
    """Return a number with about three digits, whatever its size."""
    if value is None:
        return NOTHING
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}{unit}"


def median(figure: Figure | None, scale: float = 1) -> float | None:
    """Return the median of the rounds as text."""
    return figure.median / scale if figure else None


def percent(part: float | None) -> str:
    """Return a share as a percentage."""
    return NOTHING if part is None else f"{part:.0%}"


def costs(results: Results) -> Table:
    """Return the table of CPU time and requests per second."""
    nginx = [row for row in results.rows if row.gateway == NGINX]
    header = ("gateway", "pair", "plain µs", "/nginx", "requests/s", "gateway busy", "tools busy",
              "one at a time, plain µs", "/nginx",
              "stream ms", "event µs", "/nginx", "in step, event µs", "streams")  # fmt: skip
    cells = [
        (
            row.gateway, row.pair,
            number(median(row.plain_us)), number(relative_to(row, nginx, "plain_us"), "x"),
            number(median(row.requests_per_second)), percent(row.plain_busy), percent(row.plain_tools_busy),
            number(median(row.calm_us)), number(relative_to(row, nginx, "calm_us"), "x"),
            number(median(row.stream_us, 1e3)),
            number(median(row.event_us)), number(relative_to(row, nginx, "event_us"), "x"),
            number(median(row.bunched_event_us)), str(row.connections or NOTHING),
        )
        for row in results.rows if row.gateway != DIRECT
    ]  # fmt: skip
    return Table("CPU of the gateway", header, tuple(cells), names=2)


def latencies(results: Results) -> Table:
    """Return the table of times to first token."""
    header = (
        "gateway",
        "pair",
        "streams/s",
        "gateway busy",
        "added p50 ms",
        "added p99 ms",
        "direct p50 ms",
        "direct p99 ms",
        "streams measured",
    )
    straight = {row.upstream: row for row in results.rows if row.gateway == DIRECT}

    def cells(row: Row) -> tuple[str, ...]:
        base = straight.get(row.upstream)
        halves = (added(row, results.rows, which) for which in ("first_p50_us", "first_p99_us"))
        return (
            row.gateway, row.pair, number(row.rate), percent(row.first_busy),
            *(number(None if half is None else half / 1e3) for half in halves),
            number(median(base.first_p50_us, 1e3) if base else None),
            number(median(base.first_p99_us, 1e3) if base else None),
            f"{row.first_count:,}",
        )  # fmt: skip

    rows = tuple(cells(row) for row in results.rows if row.gateway != DIRECT and row.first_p50_us)
    return Table("Time to first token at half of each gateway's own capacity", header, rows, names=2)


def holds(results: Results) -> Table:
    """Return the table of memory and start times."""
    header = ("gateway", "start to first response s", "idle MiB", "KiB per open stream", "library import ms")
    cells = []
    for hold in results.holds:
        streams = hold.kib_per_stream.values()
        span = (
            NOTHING
            if not streams
            else number(min(streams)) + (f" to {number(max(streams))}" if len(streams) > 1 else "")
        )
        idle = median(hold.idle_kib, 1024)
        cells.append(
            (
                hold.gateway,
                number(median(hold.start_seconds)),
                number(idle),
                span,
                number(results.import_ms.get(hold.gateway)),
            )
        )
    return Table("Memory and start", header, tuple(cells))


def targets(found: Sequence[Target]) -> Table:
    """Return the table of targets and verdicts."""
    cells = [
        (
            target.name,
            f"{'at least' if target.at_least else 'at most'} {target.limit:g} {target.unit}",
            number(target.figure, f" {target.unit}"),
            target.verdict,
            target.detail,
        )
        for target in found
    ]
    return Table("Targets", ("target", "limit", "measured", "verdict", "from"), tuple(cells), names=5)


def observers(results: Results) -> Table:
    """Return the table of what observers cost."""
    header = ("observers", "plain µs", "/none", "event µs", "/none")
    cells = [
        (
            one.name,
            number(one.median("plain_us")),
            number(one.ratio(results.overheads[0], "plain_us"), "x"),
            number(one.median("event_us")),
            number(one.ratio(results.overheads[0], "event_us"), "x"),
        )
        for one in results.overheads
    ]
    return Table("Observers (Trilogue, chat>chat)", header, tuple(cells))


def growth(found: Growth) -> Table:
    """Return the table of growth, with one line per series."""
    cells = []
    for series in found.series:
        scale = 1e3 if series.marginal else 1
        unit = "ns per additional byte" if series.marginal else series.unit
        points = ", ".join(
            f"{point.size:,}: {number(point.cost * scale)}" + (f" ({point.note})" if point.note else "")
            for point in series.shown()
        )
        cells.append((series.kind, series.pair, f"{unit}, by {series.size_name}", points, number(series.growth, "x")))
    return Table("Growth (Trilogue)", ("grows with", "pair", "what", "figures", "growth"), tuple(cells), names=4)


def workers(found: Growth) -> Table | None:
    """Return the table of one and two workers."""
    if found.workers is None:
        return None
    one, two = found.workers.requests_per_second
    cpu_one, cpu_two = found.workers.cpu_us
    rows = (("1", number(one), number(cpu_one)), ("2", number(two), number(cpu_two)))
    return Table("Workers (Trilogue)", ("workers", "requests/s", "CPU per request µs"), rows)


def tool_ceiling(results: Results) -> float | None:
    """Return the requests per second that the tools reach without a gateway."""
    rates = [
        row.requests_per_second.median for row in results.rows if row.gateway == DIRECT and row.requests_per_second
    ]
    return fmean(rates) if rates else None


def all_tables(results: Results) -> list[Table]:
    """Return all tables in reading order."""
    found = [costs(results), latencies(results), holds(results)]
    if results.overheads:
        found.append(observers(results))
    if results.growth:
        found += [growth(results.growth), *filter(None, [workers(results.growth)])]
    return [*found, targets(results.targets())]
