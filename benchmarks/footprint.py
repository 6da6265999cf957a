"""The memory of a gateway, idle and per open stream, and the time until its first response.

Every pair gets a fresh process: memory that was used before and is free again would hide what a stream needs.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.gateways import Gateway, NotStarted, Pair, Running
from benchmarks.measure import Bench, Subject
from benchmarks.processes import rss_kib
from benchmarks.tools import Client
from benchmarks.traffic import OPEN_SCRIPT, SLOWLY_OPEN_SCRIPT, Script

SLOW_STREAM_US = 30_000
"""CPU per stream above which a gateway gets fewer and slower streams"""
PATIENCE = 60.0


@dataclass(frozen=True)
class Opening:
    """How many streams are opened at first and in all, and the time between two of them in ms."""

    sizes: tuple[int, int]
    script: Script
    every_ms: float


FAST = Opening((500, 1_500), OPEN_SCRIPT, 1.2)
SLOW = Opening((50, 150), SLOWLY_OPEN_SCRIPT, 40)


@dataclass(frozen=True)
class Footprint:
    """The memory and start time of a gateway for one pair."""

    gateway: str
    pair: str
    start_seconds: float
    idle_kib: int
    streams: tuple[int, int]
    kib: tuple[int, int]
    """memory with that many open streams"""

    @property
    def kib_per_stream(self) -> float:
        """Return the memory per stream: the slope between the two counts."""
        return (self.kib[1] - self.kib[0]) / (self.streams[1] - self.streams[0])


def footprint(bench: Bench, gateway: Gateway, pair: Pair, stream_us: float) -> Footprint:
    """Start a gateway, open streams in two steps, read its memory at each step, and stop it."""
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
    """Return the memory with this many open streams."""
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
    """Open streams, no faster than the gateway can accept them."""
    load = subject.route.load(opening.script, connections=count, spread_ms=int(count * opening.every_ms))
    return bench.toolkit.client(subject.running.port, load)


def await_texts(client: Client, count: int, running: Running) -> None:
    """Wait until every stream has delivered its first text."""
    give_up = time.monotonic() + PATIENCE + count / 100
    failed = 0
    while count > 0:
        report = client.report()
        count, failed = count - report.first.count, failed + report.failed
        if count > 0 and (time.monotonic() > give_up or running.process.poll() is not None):
            raise NotStarted(f"{count} streams did not open, {failed} failed")
        time.sleep(0.05)
