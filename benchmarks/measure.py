"""One slice of a measurement: send load to a gateway for a short time and read what it and the tools used."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.gateways import DIRECT, Gateway, Pair, Route, Running, ask_once, first_response
from benchmarks.processes import Cores, Processes, Usage, stolen_us, tree, undisturbed, usage
from benchmarks.tools import Load, Toolkit, Upstream
from benchmarks.traffic import BUNCHED_SCRIPT, EVENTS, GAP_US, MARKER, PLAIN_SCRIPT, PROBE_SCRIPT, STREAM_SCRIPT

CONNECTIONS = 16
STREAM_SECONDS = EVENTS * GAP_US / 1e6
MOST_BUSY = 0.4
"""share of a core that streams may use; above that, their events begin to pile up"""
CALM_RATE = 1000.0
"""requests per second that all but slow gateways handle without being busy"""
ENOUGH_REQUESTS = 100
ENOUGH_STREAMS = 30
LONGEST_SLICE = 6.0

RESPONSES = "responses"
"""folder of the upstream's responses in the folder of a run"""


@dataclass
class Bench:
    """What all slices share: tools, cores, processes and the folder of the run."""

    toolkit: Toolkit
    upstream: Upstream
    folder: Path
    python: str = sys.executable
    """the interpreter that runs Trilogue"""

    @property
    def cores(self) -> Cores:
        """Return which cores the gateway and the tools use."""
        return self.toolkit.cores

    @property
    def processes(self) -> Processes:
        """Return the list of everything that was started."""
        return self.toolkit.processes

    def start(self, gateway: Gateway, purpose: str) -> tuple[Running, float]:
        """Start a gateway with its own folder, and return it with the seconds until its first response."""
        folder = self.folder / f"{gateway.name}-{purpose}"
        folder.mkdir(parents=True, exist_ok=True)
        route = gateway.routes[0].at(self.upstream.port)
        begin = time.perf_counter()
        running = gateway.start(self.processes, self.cores.gateway, self.upstream.port, folder)
        return running, first_response(running, route.request(PLAIN_SCRIPT), route.end(PLAIN_SCRIPT)) - begin

    def undisturbed(self, subject: Subject) -> AbstractContextManager[None]:
        """Keep other work off the gateway's core while latency is measured, if the gateway has its own core."""
        if subject.gateway == DIRECT or not self.cores.separate:
            return nullcontext()
        return undisturbed(self.processes, tree(subject.running.process.pid), self.cores.gateway)

    def subject(self, gateway: Gateway, pair: Pair, running: Running) -> Subject:
        """Return a pair of a running gateway, ready to be measured."""
        return Subject(gateway.name, gateway.route(pair).at(self.upstream.port), running)


@dataclass
class Subject:
    """A running gateway and a pair, with what is known about its speed."""

    gateway: str
    route: Route
    running: Running
    markers: int = EVENTS
    """text events in a stream as the client sees it"""
    plain_us: float = 0
    """CPU time of a request, at first an estimate"""
    stream_us: float = 0
    """CPU time of a stream, at first an estimate"""
    loaded_us: float = 0
    """CPU time of a stream at half of the capacity, if it was measured"""

    @property
    def pair(self) -> Pair:
        """Return the pair of its route."""
        return self.route.pair

    @property
    def label(self) -> str:
        """Return a name for messages."""
        return f"{self.gateway} {self.pair.name}"

    @property
    def connections(self) -> int:
        """Return how many streams may run at once while the gateway still forwards every event separately."""
        if not self.stream_us:
            return CONNECTIONS
        return max(1, min(CONNECTIONS, int(MOST_BUSY * STREAM_SECONDS * 1e6 / self.stream_us)))

    @property
    def slow(self) -> bool:
        """Return whether 16 streams are too many for it."""
        return self.connections < CONNECTIONS

    @property
    def half_capacity(self) -> float:
        """Return the streams per second that use half of a core."""
        return 0.5e6 / (self.loaded_us or self.stream_us)


@dataclass(frozen=True)
class Slice:
    """What happened in one slice; times are in µs."""

    good: int
    failed: int
    events: int
    us: int
    gateway_us: float
    gateway_waited_us: float
    """time in which the gateway was ready to run but something else used its core"""
    upstream_us: float
    """CPU time of the tools; the time in which they poll is not included"""
    client_us: float
    connections: int
    rate: float
    first_count: int
    first_p50: float | None
    first_p99: float | None
    at: float = 0.0
    """when it was taken, in seconds of a clock that all slices share"""
    stolen_us: float = 0.0
    """time that the host took from the machine's cores meanwhile ("steal")"""

    @property
    def gateway_busy(self) -> float:
        """Return the share of a core that the gateway used."""
        return self.gateway_us / self.us

    @property
    def tools_busy(self) -> float:
        """Return the share of a core that the upstream and the load generator needed together, without their
        polling."""
        return (self.upstream_us + self.client_us) / self.us

    def as_json(self) -> dict[str, Any]:
        """Return all fields as plain data."""
        return asdict(self)


def probe(subject: Subject) -> None:
    """Estimate the speed of a gateway from single requests. The first request of each kind only warms it up."""
    for script in (PLAIN_SCRIPT, PLAIN_SCRIPT, PROBE_SCRIPT, PROBE_SCRIPT):
        before = used(subject)
        answer = ask_once(subject.running.port, subject.route.request(script), subject.route.end(script))
        cost = used(subject).since(before).cpu
        if script.stream:
            subject.stream_us = cost
            subject.markers = answer.count(MARKER.encode())
        else:
            subject.plain_us = cost


def used(subject: Subject) -> Usage:
    """Return what the gateway has used so far; nothing if there is no gateway."""
    return Usage() if subject.gateway == DIRECT else usage(tree(subject.running.process.pid))


def drive(bench: Bench, subject: Subject, load: Load, warm: float, seconds: float) -> Slice:
    """Send load, wait until it is steady, and count for a while."""
    with bench.toolkit.client(subject.running.port, load) as client:
        time.sleep(warm)
        client.report()
        before, stolen, _ = used(subject), stolen_us(), bench.upstream.work_us()
        time.sleep(seconds)
        report = client.report()
        gateway, upstream = used(subject).since(before), bench.upstream.work_us()
    first = report.first
    return Slice(
        report.good, report.failed, report.events, report.us, gateway.cpu, gateway.waited, upstream, report.work_us,
        load.connections, load.rate, first.count, first.p50, first.p99, time.monotonic(), stolen_us() - stolen,
    )  # fmt: skip


@dataclass(frozen=True)
class Window:
    """The seconds before counting and while counting."""

    warm: float
    seconds: float

    def at_least(self, seconds: float) -> Window:
        """Return a longer window for slow gateways, up to a limit."""
        return Window(self.warm, max(self.seconds, min(seconds, LONGEST_SLICE)))

    @property
    def whole(self) -> float:
        """Return the seconds of both parts."""
        return self.warm + self.seconds


def plain(bench: Bench, subject: Subject, window: Window) -> Slice:
    """Send requests one after the other on 16 connections, as fast as the gateway responds."""
    window = window.at_least(ENOUGH_REQUESTS * subject.plain_us / 1e6)
    load = subject.route.load(PLAIN_SCRIPT, connections=CONNECTIONS)
    taken = drive(bench, subject, load, window.warm, window.seconds)
    if taken.good and taken.gateway_us > 0:
        subject.plain_us = taken.gateway_us / taken.good
    return taken


def calm(bench: Bench, subject: Subject, window: Window) -> Slice:
    """Send the same rate of requests to every gateway, at random moments and so slowly that each comes alone."""
    load = subject.route.load(PLAIN_SCRIPT, connections=CONNECTIONS)._replace(rate=CALM_RATE)
    return drive(bench, subject, load, window.warm, window.seconds)


def stream(bench: Bench, subject: Subject, window: Window) -> Slice:
    """Run streams whose events arrive one at a time."""
    spread = int(STREAM_SECONDS * 1e3)
    load = subject.route.load(STREAM_SCRIPT, connections=subject.connections, spread_ms=spread)
    taken = drive(bench, subject, load, window.warm, window.seconds)
    if taken.events and taken.gateway_us > 0:
        subject.stream_us = cost_of_stream(taken, subject)
    return taken


def cost_of_stream(taken: Slice, subject: Subject) -> float:
    """Return µs of CPU per stream, calculated from the events, because unfinished streams count too."""
    return taken.gateway_us / (taken.events / subject.markers)


def bunched(bench: Bench, subject: Subject, window: Window) -> Slice:
    """Run 16 streams in step."""
    load = subject.route.load(BUNCHED_SCRIPT, connections=CONNECTIONS)
    return drive(bench, subject, load, window.warm, window.seconds)


def first_token(bench: Bench, subject: Subject, window: Window, rate: float, again: int = 0) -> Slice:
    """Measure the time to the first text of streams that start at this rate, whatever the gateway does.

    If the host took a core away meanwhile, the measurement is repeated, at most `again` times, and the quietest one
    counts: in two seconds, a single pause of the machine determines the p99.
    """
    taken = _first_token(bench, subject, window, rate)
    if taken.stolen_us and again:
        return min(taken, first_token(bench, subject, window, rate, again - 1), key=lambda one: one.stolen_us)
    return taken


def _first_token(bench: Bench, subject: Subject, window: Window, rate: float) -> Slice:
    window = window.at_least(ENOUGH_STREAMS / rate)
    connections = int(rate * STREAM_SECONDS * 3) + CONNECTIONS
    load = subject.route.load(STREAM_SCRIPT, connections=connections)._replace(rate=rate)
    with bench.undisturbed(subject):
        return drive(bench, subject, load, window.warm, window.seconds)
