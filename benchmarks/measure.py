"""One slice of measuring: drive a gateway for a moment and read what it and the tools used."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.answers import BUNCHED_ASK, EVENTS, GAP_US, MARKER, PLAIN_ASK, PROBE_ASK, STREAM_ASK
from benchmarks.gateways import DIRECT, Gateway, Pair, Route, Running, ask_once, first_answer
from benchmarks.processes import Cores, Processes, Usage, stolen_us, tree, undisturbed, usage
from benchmarks.tools import Kit, Load, Upstream

CONNECTIONS = 16
STREAM_SECONDS = EVENTS * GAP_US / 1e6
MOST_BUSY = 0.4
"""part of a core that streams may use before their events begin to pile up"""
CALM_RATE = 1000.0
"""requests per second that every gateway but the slow ones answers without being busy"""
ENOUGH_REQUESTS = 100
ENOUGH_STREAMS = 30
LONGEST_SLICE = 6.0

ANSWERS = "answers"
"""where the upstream's answers are, in the folder of a run"""


@dataclass
class Bench:
    """What all slices share."""

    kit: Kit
    upstream: Upstream
    folder: Path
    python: str = sys.executable
    """the interpreter that runs Trilogue"""

    @property
    def cores(self) -> Cores:
        """Who runs where."""
        return self.kit.cores

    @property
    def processes(self) -> Processes:
        """All that was started."""
        return self.kit.processes

    def start(self, gateway: Gateway, purpose: str) -> tuple[Running, float]:
        """Start a gateway, with a folder of its own per purpose; with the seconds until its first answer."""
        folder = self.folder / f"{gateway.name}-{purpose}"
        folder.mkdir(parents=True, exist_ok=True)
        route = gateway.routes[0].at(self.upstream.port)
        begin = time.perf_counter()
        running = gateway.start(self.processes, self.cores.gateway, self.upstream.port, folder)
        return running, first_answer(running, route.request(PLAIN_ASK), route.end(PLAIN_ASK)) - begin

    def undisturbed(self, subject: Subject) -> AbstractContextManager[None]:
        """While delays are measured: nobody else's work on the gateway's core, if it has one for itself."""
        if subject.gateway == DIRECT or not self.cores.apart:
            return nullcontext()
        return undisturbed(self.processes, tree(subject.running.process.pid), self.cores.gateway)

    def subject(self, gateway: Gateway, pair: Pair, running: Running) -> Subject:
        """A pair of a running gateway."""
        return Subject(gateway.name, gateway.route(pair).at(self.upstream.port), running)


@dataclass
class Subject:
    """A gateway and a pair, with what is known about its pace."""

    gateway: str
    route: Route
    running: Running
    markers: int = EVENTS
    """texts in a stream as the client sees it"""
    plain_us: float = 0
    """CPU of a request, roughly at first"""
    stream_us: float = 0
    """CPU of a stream, roughly at first"""
    loaded_us: float = 0
    """CPU of a stream at half of capacity, if it was measured"""

    @property
    def pair(self) -> Pair:
        """Of its route."""
        return self.route.pair

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.gateway} {self.pair.name}"

    @property
    def connections(self) -> int:
        """So many streams at the same time that this gateway still forwards every event by itself."""
        if not self.stream_us:
            return CONNECTIONS
        return max(1, min(CONNECTIONS, int(MOST_BUSY * STREAM_SECONDS * 1e6 / self.stream_us)))

    @property
    def slow(self) -> bool:
        """Whether 16 streams are too many for it."""
        return self.connections < CONNECTIONS

    @property
    def half_capacity(self) -> float:
        """Streams per second that use half of a core."""
        return 0.5e6 / (self.loaded_us or self.stream_us)


@dataclass(frozen=True)
class Slice:
    """What happened in one slice; times in µs."""

    good: int
    failed: int
    events: int
    us: int
    gateway_us: float
    gateway_waited_us: float
    """ready to run, but its core was taken"""
    upstream_us: float
    """of work: the tools do not sleep, and what they use while they wait does not count"""
    client_us: float
    connections: int
    rate: float
    first_count: int
    first_p50: float | None
    first_p99: float | None
    at: float = 0.0
    """when it was taken, in seconds of a clock that all slices share"""
    stolen_us: float = 0.0
    """what the host took of the machine's cores meanwhile"""

    @property
    def gateway_busy(self) -> float:
        """Part of a core that the gateway used."""
        return self.gateway_us / self.us

    @property
    def tools_busy(self) -> float:
        """Part of a core that upstream and load generator needed together for what they had to do."""
        return (self.upstream_us + self.client_us) / self.us

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


def probe(subject: Subject) -> None:
    """Learn the pace of a gateway from single requests; the first of each kind only warms it up."""
    for ask in (PLAIN_ASK, PLAIN_ASK, PROBE_ASK, PROBE_ASK):
        before = used(subject)
        answer = ask_once(subject.running.port, subject.route.request(ask), subject.route.end(ask))
        cost = used(subject).since(before).cpu
        if ask.stream:
            subject.stream_us = cost
            subject.markers = answer.count(MARKER.encode())
        else:
            subject.plain_us = cost


def used(subject: Subject) -> Usage:
    """What the gateway used so far; nothing if there is none."""
    return Usage() if subject.gateway == DIRECT else usage(tree(subject.running.process.pid))


def drive(bench: Bench, subject: Subject, load: Load, warm: float, seconds: float) -> Slice:
    """Send for a moment, then count for a moment."""
    with bench.kit.client(subject.running.port, load) as client:
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
    """Seconds before and while it is counted."""

    warm: float
    seconds: float

    def at_least(self, seconds: float) -> Window:
        """Longer for slow gateways, within reason."""
        return Window(self.warm, max(self.seconds, min(seconds, LONGEST_SLICE)))

    @property
    def whole(self) -> float:
        """All of it."""
        return self.warm + self.seconds


def plain(bench: Bench, subject: Subject, window: Window) -> Slice:
    """Requests one after the other on 16 connections, as fast as the gateway answers."""
    window = window.at_least(ENOUGH_REQUESTS * subject.plain_us / 1e6)
    load = subject.route.load(PLAIN_ASK, connections=CONNECTIONS)
    taken = drive(bench, subject, load, window.warm, window.seconds)
    if taken.good and taken.gateway_us > 0:
        subject.plain_us = taken.gateway_us / taken.good
    return taken


def calm(bench: Bench, subject: Subject, window: Window) -> Slice:
    """Requests at random moments, so few that each comes alone; as many to every gateway."""
    load = subject.route.load(PLAIN_ASK, connections=CONNECTIONS)._replace(rate=CALM_RATE)
    return drive(bench, subject, load, window.warm, window.seconds)


def stream(bench: Bench, subject: Subject, window: Window) -> Slice:
    """Streams whose events arrive one at a time."""
    spread = int(STREAM_SECONDS * 1e3)
    load = subject.route.load(STREAM_ASK, connections=subject.connections, spread_ms=spread)
    taken = drive(bench, subject, load, window.warm, window.seconds)
    if taken.events and taken.gateway_us > 0:
        subject.stream_us = cost_of_stream(taken, subject)
    return taken


def cost_of_stream(taken: Slice, subject: Subject) -> float:
    """µs of CPU; by the events, as streams that are not finished when the slice ends count too."""
    return taken.gateway_us / (taken.events / subject.markers)


def bunched(bench: Bench, subject: Subject, window: Window) -> Slice:
    """16 streams in step."""
    load = subject.route.load(BUNCHED_ASK, connections=CONNECTIONS)
    return drive(bench, subject, load, window.warm, window.seconds)


def first_token(bench: Bench, subject: Subject, window: Window, rate: float, again: int = 0) -> Slice:
    """Streams that start at this rate whatever the gateway does.

    If the host took a core away meanwhile it is done again, `again` times at the most, and the quietest counts: in two
    seconds, a single pause of the machine is all that a p99 shows.
    """
    taken = _first_token(bench, subject, window, rate)
    if taken.stolen_us and again:
        return min(taken, first_token(bench, subject, window, rate, again - 1), key=lambda one: one.stolen_us)
    return taken


def _first_token(bench: Bench, subject: Subject, window: Window, rate: float) -> Slice:
    window = window.at_least(ENOUGH_STREAMS / rate)
    connections = int(rate * STREAM_SECONDS * 3) + CONNECTIONS
    load = subject.route.load(STREAM_ASK, connections=connections)._replace(rate=rate)
    with bench.undisturbed(subject):
        return drive(bench, subject, load, window.warm, window.seconds)
