"""Summarize slices as figures: medians over the rounds, per gateway and pair. Pure."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.footprint import Footprint
from benchmarks.gateways import DIRECT
from benchmarks.measure import Slice

Slices = Mapping[str, Sequence[Slice]]
"""slices by kind"""


@dataclass(frozen=True)
class Figure:
    """The values of one figure in all rounds."""

    median: float
    least: float
    values: tuple[float, ...]
    times: tuple[float, ...]
    """when each value was taken"""


def figure(values: Sequence[float], times: Sequence[float] = ()) -> Figure | None:
    """Return the figure of these values, or None if there are none.

    Without times, they count as one after the other.
    """
    if not values:
        return None
    return Figure(statistics.median(values), min(values), tuple(values), tuple(times or range(len(values))))


@dataclass(frozen=True)
class Row:
    """The figures of one gateway and pair; times are in µs."""

    gateway: str
    pair: str
    plain_us: Figure | None = None
    requests_per_second: Figure | None = None
    plain_busy: float | None = None
    """share of its core that the gateway used for plain requests: 1 unless the tools were slower"""
    plain_tools_busy: float | None = None
    """share of one core that the tools needed, without their polling"""
    calm_us: Figure | None = None
    """plain requests that come one at a time"""
    stream_us: Figure | None = None
    event_us: Figure | None = None
    stream_busy: float | None = None
    connections: int | None = None
    bunched_event_us: Figure | None = None
    rate: float | None = None
    """streams per second while the time to first token was measured"""
    first_busy: float | None = None
    first_count: int = 0
    first_p50_us: Figure | None = None
    first_p99_us: Figure | None = None
    failed: int = 0

    @property
    def translated(self) -> bool:
        """Return whether the two protocols differ."""
        client, _, upstream = self.pair.partition(">")
        return client != upstream

    @property
    def upstream(self) -> str:
        """Return the upstream's protocol."""
        return self.pair.partition(">")[2]


def row(gateway: str, pair: str, slices: Slices, markers: int, events: int) -> Row:
    """Return the figures of one gateway and pair.

    Slices without any response are left out, and those in which a process of the gateway ended, because its CPU time is
    then missing.
    """
    plain = [one for one in slices.get("plain", ()) if one.good and one.gateway_us > 0]
    calm = [one for one in slices.get("calm", ()) if one.good and one.gateway_us > 0]
    stream = [one for one in slices.get("stream", ()) if one.events and one.gateway_us > 0]
    bunched = [one for one in slices.get("bunched", ()) if one.events and one.gateway_us > 0]
    first = [one for one in slices.get("first", ()) if one.first_count and one.rate >= 0]
    costs = [one.gateway_us / (one.events / markers) for one in stream]
    return Row(
        gateway,
        pair,
        plain_us=figure([one.gateway_us / one.good for one in plain], _times(plain)),
        requests_per_second=figure([one.good / one.us * 1e6 for one in plain]),
        plain_busy=mean([one.gateway_busy for one in plain]),
        plain_tools_busy=mean([one.tools_busy for one in plain]),
        calm_us=figure([one.gateway_us / one.good for one in calm], _times(calm)),
        stream_us=figure(costs),
        event_us=figure([cost / events for cost in costs], _times(stream)),
        stream_busy=mean([one.gateway_busy for one in stream]),
        connections=min((one.connections for one in stream), default=None),
        bunched_event_us=figure([one.gateway_us / (one.events / markers) / events for one in bunched], _times(bunched)),
        rate=mean([one.rate for one in first]),
        first_busy=mean([one.gateway_busy for one in first]),
        first_count=sum(one.first_count for one in first),
        first_p50_us=figure([one.first_p50 for one in first if one.first_p50 is not None]),
        first_p99_us=figure([one.first_p99 for one in first if one.first_p99 is not None]),
        failed=sum(one.failed for kind in slices.values() for one in kind),
    )


def _times(slices: Sequence[Slice]) -> list[float]:
    return [one.at for one in slices]


def taken_by_others(slices: Sequence[Slice]) -> float:
    """Return the share of the time in which a gateway was ready to run while something else used its core."""
    return statistics.median([one.gateway_waited_us / one.us for one in slices]) if slices else 0.0


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None if there are no values."""
    return statistics.fmean(values) if values else None


def cost(row: Row, which: str) -> float | None:
    """Return the median of one of its figures, or None if it was not measured."""
    found: Figure | None = getattr(row, which)
    return found.median if found else None


def relative_to(row: Row, base: Sequence[Row], which: str) -> float | None:
    """Return how many times the cost of the others this is.

    Each value is divided by theirs at the same moment, and the median of the ratios is returned. The speed of a shared
    machine changes within a minute, so only neighbouring measurements can be compared.
    """
    ours: Figure | None = getattr(row, which)
    figures: list[Figure] = [found for one in base if (found := getattr(one, which))]
    theirs = sorted(reading for one in figures for reading in zip(one.times, one.values, strict=True))
    if ours is None or not theirs:
        return None
    return statistics.median(value / _at(time, theirs) for time, value in zip(ours.times, ours.values, strict=True))


def _at(time: float, readings: Sequence[tuple[float, float]]) -> float:
    """Return the value at a time, interpolated between the readings (time, value) before and after it."""
    after = bisect_left(readings, (time, 0.0))
    first, then = readings[max(0, after - 1)], readings[min(after, len(readings) - 1)]
    passed = (time - first[0]) / (then[0] - first[0]) if then[0] > first[0] else 0.0
    return first[1] + (then[1] - first[1]) * passed


def added(row: Row, rows: Sequence[Row], which: str) -> float | None:
    """Return the µs that a gateway adds to a percentile of the time to first token, compared to the direct
    connection."""
    straight = next((r for r in rows if r.gateway == DIRECT and r.upstream == row.upstream), None)
    ours: Figure | None = getattr(row, which)
    theirs: Figure | None = getattr(straight, which) if straight else None
    return ours.median - theirs.median if ours and theirs else None


@dataclass(frozen=True)
class Hold:
    """The memory of a gateway and its start time."""

    gateway: str
    start_seconds: Figure | None
    idle_kib: Figure | None
    kib_per_stream: Mapping[str, float]
    """memory per stream by pair"""

    @property
    def most_per_stream(self) -> float | None:
        """Return the memory per stream of the pair that needs the most."""
        return max(self.kib_per_stream.values(), default=None)


def hold(gateway: str, found: Sequence[Footprint]) -> Hold:
    """Summarize the footprints of one gateway."""
    own = [one for one in found if one.gateway == gateway]
    return Hold(
        gateway,
        figure([one.start_seconds for one in own]),
        figure([float(one.idle_kib) for one in own]),
        {one.pair: one.kib_per_stream for one in own},
    )
