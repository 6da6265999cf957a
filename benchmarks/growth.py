"""How the costs of Trilogue grow with stream length, request size, open streams and workers."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from benchmarks.core import REQUESTS
from benchmarks.footprint import await_texts
from benchmarks.gateways import Gateway, NotStarted, Pair, Running, trilogue
from benchmarks.measure import RESPONSES, Bench, Slice, Subject, drive, used
from benchmarks.plan import Step
from benchmarks.processes import Cores, rss_kib
from benchmarks.tools import ToolFailed
from benchmarks.traffic import PLAIN_SCRIPT, Script
from trilogue import Protocol

LENGTHS = (100, 1_000, 10_000, 100_000)
LENGTH_GAP_US = 300
LENGTH_CONNECTIONS = 4
LENGTH_SECONDS = 2.5
"""window for short streams; longer ones are counted from beginning to end"""
LENGTH_PATIENCE = 300.0

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
TURNS = (10, 100, 1_000)
TOOLS = 10
REQUEST_SECONDS = 0.6
REQUEST_REPEAT = 5

OPEN = (10, 100, 1_000, 10_000)
OPEN_EVENTS = 10_000
OPEN_EVENTS_PER_SECOND = 4_000
OPEN_SECONDS = 4.0
OPENED_PER_SECOND = 800
FILES_PER_STREAM = 2
FILES_FOR_THE_REST = 500

WORKER_CONNECTIONS = 64
WORKER_REPEAT = 7
WORKER_SECONDS = 1.5
CORES_FOR_TWO_WORKERS = 4

FLAT = 1.5
"""factor by which a cost may grow and still count as constant, since large sizes use slower memory"""

PASSED = Pair(Protocol.CHAT, Protocol.CHAT)
THREE = (PASSED, Pair(Protocol.CHAT, Protocol.MESSAGES), Pair(Protocol.MESSAGES, Protocol.RESPONSES))


@dataclass(frozen=True)
class Point:
    """A size and its cost."""

    size: int
    cost: float
    note: str = ""


@dataclass
class Series:
    """The costs of one kind by size."""

    kind: str
    pair: str
    size_name: str
    unit: str
    points: list[Point] = field(default_factory=list)
    marginal: bool = False
    """whether to show the cost of every further byte, measured from the first point"""

    def shown(self) -> list[Point]:
        """Return the costs to compare: the costs themselves, or the costs per further unit of size."""
        if not self.marginal or not self.points:
            return self.points
        base = self.points[0]
        return [Point(p.size, (p.cost - base.cost) / (p.size - base.size), p.note) for p in self.points[1:]]

    @property
    def growth(self) -> float | None:
        """Return the cost at the largest size relative to the smallest.

        The cost of a further byte is only known for large sizes, so it is compared with the next smaller size instead.
        """
        shown = self.shown()
        if len(shown) < 2:
            return None
        base = shown[-2] if self.marginal else shown[0]
        return shown[-1].cost / base.cost if base.cost > 0 else None


@dataclass(frozen=True)
class Workers:
    """Plain requests with one worker and with two."""

    cores_free: bool
    requests_per_second: tuple[float, float]
    cpu_us: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Return the requests per second of two workers relative to one."""
        return self.requests_per_second[1] / self.requests_per_second[0]

    @property
    def expected(self) -> float:
        """Return the ratio that two free cores would give, according to the CPU time per request."""
        return 2 * self.cpu_us[0] / self.cpu_us[1]


@dataclass
class Growth:
    """Everything that was measured about growth."""

    series: list[Series] = field(default_factory=list)
    workers: Workers | None = None
    notes: list[str] = field(default_factory=list)


def steps(bench: Bench, files: int, into: Growth) -> Iterator[Step]:
    """Return all steps. `files` is how many files a process may open."""
    gateway = trilogue(bench.python)
    yield from _length_steps(bench, gateway, into)
    yield from _request_steps(bench, gateway, into)
    yield from _open_steps(bench, gateway, files, into)
    yield Step("one and two workers", 45, lambda: measure_workers(bench, into))


def _with_gateway(bench: Bench, gateway: Gateway, run: Callable[[Running], None], notes: list[str]) -> None:
    """Run an action with a gateway that was started for it."""
    running, _ = bench.start(gateway, "growth")
    try:
        run(running)
    except (NotStarted, ToolFailed) as problem:
        notes.append(f"One growth measurement is missing: {problem}.")
    finally:
        bench.processes.stop(running.process)


def _length_steps(bench: Bench, gateway: Gateway, into: Growth) -> Iterator[Step]:
    for pair in THREE:
        series = Series("stream length", pair.name, "events", "µs per event")
        into.series.append(series)
        for events in LENGTHS:
            seconds = max(LENGTH_SECONDS, events * LENGTH_GAP_US / 1e6) + 1

            def run(running: Running, events: int = events, pair: Pair = pair, series: Series = series) -> None:
                subject = bench.subject(gateway, pair, running)
                series.points.append(Point(events, whole_streams(bench, subject, events)))

            yield Step(
                f"{pair.name}, streams of {events:,} events",
                seconds,
                partial(_with_gateway, bench, gateway, run, into.notes),
            )


def whole_streams(bench: Bench, subject: Subject, events: int) -> float:
    """Return µs of CPU per event, counted from the first request to the last event of at least one stream per
    connection."""
    script = Script(stream=True, events=events, gap_us=LENGTH_GAP_US)
    rounds = max(1, int(LENGTH_SECONDS / (events * LENGTH_GAP_US / 1e6)))
    wanted = rounds * LENGTH_CONNECTIONS
    before = used(subject)
    good = failed = 0
    give_up = time.monotonic() + LENGTH_PATIENCE
    with bench.toolkit.client(
        subject.running.port, subject.route.load(script, connections=LENGTH_CONNECTIONS)
    ) as client:
        while good < wanted and not failed and time.monotonic() < give_up:
            time.sleep(0.005)
            report = client.report()
            good, failed = good + report.good, failed + report.failed
        cost = used(subject).since(before).cpu
    # The beginning of the next streams is counted too. The sleep is short enough for that to be little.
    return cost / (max(good, 1) * events)


def large_request(protocol: Protocol, size: int) -> dict[str, Any]:
    """Return a conversation of this many bytes in a dozen turns."""
    body = REQUESTS[protocol](8, 2)
    missing = size - len(json.dumps(body))
    where = body["input"] if protocol is Protocol.RESPONSES else body["messages"]
    where[-1]["content"] = "The quick brown fox jumps over the lazy dog. " * (max(missing, 0) // 45)
    return body


def _request_steps(bench: Bench, gateway: Gateway, into: Growth) -> Iterator[Step]:
    for pair in THREE:
        bodies = {
            "request size": [large_request(pair.client, size) for size in SIZES],
            "conversation turns": [REQUESTS[pair.client](turns, TOOLS) for turns in TURNS],
        }
        for kind, sized in bodies.items():
            series = Series(kind, pair.name, "bytes", "µs per additional byte", marginal=True)
            into.series.append(series)

            def run(running: Running, pair: Pair = pair, sized: Any = sized, series: Series = series) -> None:
                subject = bench.subject(gateway, pair, running)
                series.points += request_costs(bench, subject, sized)

            yield Step(
                f"{pair.name}, {kind}",
                (REQUEST_SECONDS + 0.5) * REQUEST_REPEAT * len(sized) + 1,
                partial(_with_gateway, bench, gateway, run, into.notes),
            )


def request_costs(bench: Bench, subject: Subject, bodies: Sequence[dict[str, Any]]) -> list[Point]:
    """Return µs of CPU per plain request for each body. They take turns, so that noise affects all of them alike."""
    requests = [_request(subject, body) for body in bodies]
    taken: list[list[Slice]] = [[] for _ in requests]
    for _ in range(REQUEST_REPEAT):
        for request, slices in zip(requests, taken, strict=True):
            load = subject.route.load(PLAIN_SCRIPT, connections=2)._replace(request=request)
            slices.append(drive(bench, subject, load, 0.4, REQUEST_SECONDS))
    return [_point(len(request), slices) for request, slices in zip(requests, taken, strict=True)]


def _request(subject: Subject, body: dict[str, Any]) -> bytes:
    return subject.route.request(PLAIN_SCRIPT, {n: v for n, v in body.items() if n not in ("model", "stream")})


def _point(size: int, slices: Sequence[Slice]) -> Point:
    failed = sum(one.failed for one in slices)
    cost = statistics.median(one.gateway_us / max(one.good, 1) for one in slices)
    return Point(size, cost, f"{failed} failed" if failed else "")


def _open_steps(bench: Bench, gateway: Gateway, files: int, into: Growth) -> Iterator[Step]:
    possible = (files - FILES_FOR_THE_REST) // FILES_PER_STREAM
    counts = sorted({min(count, possible) for count in OPEN})
    if counts[-1] < OPEN[-1]:
        into.notes.append(
            f"{OPEN[-1]:,} open streams were not possible: with the limit of {files:,} open files per process, the "
            f"maximum was {counts[-1]:,}."
        )
    series = Series("open streams", PASSED.name, "open streams", "µs per event")
    into.series.append(series)
    for count in counts:

        def run(running: Running, count: int = count) -> None:
            subject = bench.subject(gateway, PASSED, running)
            series.points.append(open_cost(bench, subject, count))

        gap = count / OPEN_EVENTS_PER_SECOND
        yield Step(
            f"{count:,} open streams",
            count / OPENED_PER_SECOND + 2 * gap + OPEN_SECONDS + 1,
            partial(_with_gateway, bench, gateway, run, into.notes),
        )


def open_cost(bench: Bench, subject: Subject, count: int) -> Point:
    """Return µs of CPU per event with this many open streams, which together produce a constant number of events."""
    gap = int(count * 1e6 / OPEN_EVENTS_PER_SECOND)
    load = subject.route.load(
        Script(stream=True, events=OPEN_EVENTS, gap_us=gap),
        connections=count,
        spread_ms=int(count / OPENED_PER_SECOND * 1e3),
    )
    idle = rss_kib(subject.running.process.pid)
    with ExitStack() as open_client:
        client = open_client.enter_context(bench.toolkit.client(subject.running.port, load))
        await_texts(client, count, subject.running)
        client.report()
        before = used(subject)
        time.sleep(OPEN_SECONDS)
        report = client.report()
        cost = used(subject).since(before).cpu
        kib = (rss_kib(subject.running.process.pid) - idle) / count
    return Point(count, cost / max(report.events, 1), f"{kib:.0f} KiB each" if count >= 100 else "")


def worker_cores(cores: Cores) -> Cores:
    """Return two cores for two workers if the tools have two others, and otherwise all cores for everything."""
    every = sorted(cores.gateway | cores.tools)
    if len(every) >= CORES_FOR_TWO_WORKERS:
        return Cores(frozenset(every[-2:]), frozenset(every[:-2]))
    return Cores(frozenset(every), frozenset(every))


def measure_workers(bench: Bench, into: Growth) -> None:
    """Measure one and two workers in turns, so that noise affects both alike.

    The upstream polls only on its own cores.
    """
    cores = worker_cores(bench.cores)
    toolkit = replace(bench.toolkit, cores=cores)
    wide = replace(bench, toolkit=toolkit, upstream=toolkit.upstream(bench.folder / RESPONSES))
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    try:
        for _ in range(WORKER_REPEAT):
            for count, taken in found.items():
                taken.append(with_workers(wide, count))
    finally:
        bench.processes.stop(wide.upstream.process)
    rates = [statistics.median(rate for rate, _ in found[count]) for count in (1, 2)]
    costs = [statistics.median(cost for _, cost in found[count]) for count in (1, 2)]
    into.workers = Workers(cores.separate, (rates[0], rates[1]), (costs[0], costs[1]))


def with_workers(bench: Bench, count: int) -> tuple[float, float]:
    """Return requests per second and µs of CPU per request."""
    gateway = trilogue(bench.python, count)
    running, _ = bench.start(gateway, "workers")
    try:
        subject = bench.subject(gateway, PASSED, running)
        load = subject.route.load(PLAIN_SCRIPT, connections=WORKER_CONNECTIONS)
        taken = drive(bench, subject, load, 0.5, WORKER_SECONDS)
    finally:
        bench.processes.stop(running.process)
    return taken.good / taken.us * 1e6, taken.gateway_us / max(taken.good, 1)
