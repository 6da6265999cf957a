"""What observers of requests cost: the same gateway with different settings, all measured in turn, in the same rounds.

The pair is one whose requests pass through unchanged: they cost least, so an observer costs the largest part of them.
To measure another observer, add a row to `OBSERVERS`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from benchmarks.gateways import NotStarted, Pair, trilogue
from benchmarks.measure import Bench, Slice, Subject, Window, plain, probe, stream
from benchmarks.plan import Step
from benchmarks.processes import pipes
from benchmarks.tools import ToolFailed
from trilogue import Protocol

PAIR = Pair(Protocol.CHAT, Protocol.CHAT)
PLAIN_ROUNDS, STREAM_ROUNDS = 7, 3
PLAIN, STREAM = Window(0.1, 0.3), Window(1.02, 0.6)
RECEIVER = "RECEIVER"
"""stands for the address of a receiver of traces"""
NO_USAGE = "usage: none\n"
OFF = f"admin: {{enabled: false}}\n{NO_USAGE}"


@dataclass(frozen=True)
class Observed:
    """A gateway with some observers. `settings`: a part of its configuration."""

    name: str
    settings: str
    limit: float | None = None
    """the most that a request or an event may cost, relative to a gateway without observers"""
    pair: Pair = PAIR


OBSERVERS = (
    Observed("none", OFF),
    Observed("none, again", OFF),
    Observed("metrics", NO_USAGE),
    Observed("metrics and usage", "", limit=1.03),
    Observed("metrics and usage, no recent requests", "admin: {keep_requests: 0}\n", limit=1.03),
    Observed("traces, one of ten", f"{OFF}tracing: {{enabled: true, endpoint: '{RECEIVER}', sample_ratio: 0.1}}\n"),
    Observed("traces, all", f"{OFF}tracing: {{enabled: true, endpoint: '{RECEIVER}'}}\n"),
    Observed("captures, one of ten", f"{OFF}capture: {{sample: 0.1}}\n"),
    Observed("captures, all", f"{OFF}capture: {{sample: 1}}\n"),
)
"""the first is what the others are compared with; the second is the same, and shows how exact the comparison is"""


@dataclass
class Overhead:
    """The CPU time of one gateway, in µs, by round."""

    name: str
    limit: float | None = None
    plain_us: list[float | None] = field(default_factory=list)
    """per request; None if it failed in that round"""
    event_us: list[float | None] = field(default_factory=list)
    """per event of a stream"""

    def median(self, kind: str) -> float | None:
        """Return the median of the rounds. `kind`: the name of the field."""
        found = [one for one in getattr(self, kind) if one is not None]
        return median(found) if found else None

    def ratio(self, base: Overhead, kind: str) -> float | None:
        """Return how many times as much it needs as another one. Only slices of the same round are compared."""
        pairs = zip(getattr(self, kind), getattr(base, kind), strict=False)
        found = [own / other for own, other in pairs if own is not None and other is not None]
        return median(found) if found else None


def steps(bench: Bench, into: list[Overhead], notes: list[str]) -> Iterator[Step]:
    """Yield the steps that start all gateways, measure them, and end them."""
    subjects: Subjects = []
    begin = partial(start, bench, OBSERVERS, subjects, into, notes)
    yield Step("starting gateways with different observers", 2.0 * len(OBSERVERS), begin)
    for kind, rounds, window, measure in (
        ("plain", PLAIN_ROUNDS, PLAIN, _plain),
        ("streams", STREAM_ROUNDS, STREAM, measure_stream),
    ):
        for number in range(1, rounds + 1):
            seconds = window.whole * len(OBSERVERS)
            yield Step(f"{kind}, round {number} of {rounds}", seconds, _round(bench, subjects, window, measure))
    yield Step("ending them", 1.0, lambda: end(bench, subjects))


Subjects = list[tuple[Overhead, Subject]]
"""gateways that run, and where what they cost is noted"""


def start(bench: Bench, chosen: Sequence[Observed], subjects: Subjects, into: list[Overhead], notes: list[str]) -> None:
    """Start gateways with these settings."""
    address = f"http://127.0.0.1:{_receiver(bench)}"
    for number, observed in enumerate(chosen):
        gateway = trilogue(bench.python, settings=observed.settings.replace(RECEIVER, address))
        try:
            running, _ = bench.start(gateway, f"observers-{number}")
            subject = bench.subject(gateway, observed.pair, running)
            probe(subject)
        except (NotStarted, OSError) as problem:
            notes.append(f"The gateway with observers: {observed.name} was left out: {problem}")
        else:
            into.append(Overhead(observed.name, observed.limit))
            subjects.append((into[-1], subject))


def _receiver(bench: Bench) -> int:
    """Start a receiver of traces away from the gateway's core, and return its port."""
    process = bench.processes.start([sys.executable, "-m", "benchmarks.receiver"], bench.cores.tools, talk=True)
    return int(pipes(process)[1].readline())


Measure = Callable[[Bench, Overhead, Subject, Window], None]


def _round(
    bench: Bench, subjects: Sequence[tuple[Overhead, Subject]], window: Window, measure: Measure
) -> Callable[[], None]:
    def action() -> None:
        for overhead, subject in subjects:
            measure(bench, overhead, subject, window)

    return action


def _plain(bench: Bench, overhead: Overhead, subject: Subject, window: Window) -> None:
    taken = _taken(lambda: plain(bench, subject, window))
    overhead.plain_us.append(taken.gateway_us / taken.good if taken is not None and taken.good else None)


def measure_stream(bench: Bench, overhead: Overhead, subject: Subject, window: Window) -> None:
    """Measure streams through one gateway, and note what an event costs."""
    taken = _taken(lambda: stream(bench, subject, window))
    overhead.event_us.append(taken.gateway_us / taken.events if taken is not None and taken.events else None)


def _taken(measure: Callable[[], Slice]) -> Slice | None:
    """Return a slice, or None if the gateway failed under the load: only this figure is missing then."""
    try:
        return measure()
    except ToolFailed:
        return None


def end(bench: Bench, subjects: Subjects) -> None:
    """End gateways."""
    for _, subject in subjects:
        bench.processes.stop(subject.running.process)
