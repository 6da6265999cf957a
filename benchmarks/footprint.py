"""What a gateway holds: memory when idle and for every open stream, and the time until it first answers.

Every pair gets a fresh process: memory that was used once and is free again would hide what a stream needs.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.answers import OPEN_ASK, SLOWLY_OPEN_ASK, Ask
from benchmarks.gateways import Gateway, NotStarted, Pair, Running
from benchmarks.measure import Bench, Subject
from benchmarks.processes import rss_kib
from benchmarks.tools import Client

SLOW_STREAM_US = 30_000
"""CPU per stream from which on a gateway gets fewer streams, and slower ones"""
PATIENCE = 60.0


@dataclass(frozen=True)
class Opening:
    """How streams are opened: so many, then so many, one every so many ms."""

    sizes: tuple[int, int]
    ask: Ask
    every_ms: float


FAST = Opening((500, 1_500), OPEN_ASK, 1.2)
SLOW = Opening((50, 150), SLOWLY_OPEN_ASK, 40)


@dataclass(frozen=True)
class Footprint:
    """Of one pair."""

    gateway: str
    pair: str
    start_seconds: float
    idle_kib: int
    streams: tuple[int, int]
    kib: tuple[int, int]
    """with so many open streams"""

    @property
    def kib_per_stream(self) -> float:
        """The slope between the two."""
        return (self.kib[1] - self.kib[0]) / (self.streams[1] - self.streams[0])


def footprint(bench: Bench, gateway: Gateway, pair: Pair, stream_us: float) -> Footprint:
    """Start it, look, open streams, look again, open more, look again, end it."""
    opening = SLOW if stream_us > SLOW_STREAM_US else FAST
    running, seconds = bench.start(gateway, "footprint")
    try:
        subject = bench.subject(gateway, pair, running)
        idle = rss_kib(running.process.pid)
        few, many = open_streams(bench, subject, opening)
    finally:
        bench.processes.stop(running.process)
    return Footprint(gateway.name, pair.name, seconds, idle, opening.sizes, (few, many))


def open_streams(bench: Bench, subject: Subject, opening: Opening) -> tuple[int, int]:
    """Memory with so many open streams."""
    found = []
    with ExitStack() as clients:
        so_far = 0
        for size in opening.sizes:
            more = size - so_far
            client = clients.enter_context(open_some(bench, subject, more, opening))
            await_texts(client, more, subject.running)
            found.append(rss_kib(subject.running.process.pid))
            so_far = size
    return found[0], found[1]


def open_some(bench: Bench, subject: Subject, count: int, opening: Opening) -> Client:
    """Streams that open as fast as the gateway can be expected to take them."""
    load = subject.route.load(opening.ask, connections=count, spread_ms=int(count * opening.every_ms))
    return bench.kit.client(subject.running.port, load)


def await_texts(client: Client, count: int, running: Running) -> None:
    """Wait until every stream has brought its first text."""
    give_up = time.monotonic() + PATIENCE + count / 100
    failed = 0
    while count > 0:
        report = client.report()
        count, failed = count - report.first.count, failed + report.failed
        if count > 0 and (time.monotonic() > give_up or running.process.poll() is not None):
            raise NotStarted(f"{count} streams did not open, {failed} failed")
        time.sleep(0.05)
