"""A whole run: build, start, measure in rounds, look at memory and growth, sum up."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import growth, machine
from benchmarks.answers import EVENTS, write_answers
from benchmarks.build import build
from benchmarks.footprint import Footprint, footprint
from benchmarks.gateways import DIRECT, NGINX, TRILOGUE, Gateway, NotStarted, Pair, Running, direct
from benchmarks.interpreter import Interpreter
from benchmarks.measure import ANSWERS, Bench, Subject, probe
from benchmarks.plan import Progress, Step
from benchmarks.processes import Processes, on_cores, raise_file_limit, split_cores
from benchmarks.results import Results
from benchmarks.rounds import Settings, rounds
from benchmarks.summary import hold, row, taken_by_others
from benchmarks.tools import Kit, ToolFailed

FILES = 40_000
FOOTPRINT_SECONDS = 6.0
FOOTPRINT_PAIRS = frozenset({"chat>chat", "chat>messages"})
"""enough for gateways beside ours, which take long to start"""
NOISY = 0.05


@dataclass(frozen=True)
class Order:
    """What a run shall do."""

    gateways: Sequence[Gateway]
    pairs: frozenset[Pair]
    settings: Settings
    grow: bool
    footprint_pairs: frozenset[str] | None
    """whose memory is looked at; None for all"""
    folder: Path
    notes: Sequence[str]
    """why some are missing"""
    python: Interpreter
    imports: Callable[[], dict[str, float]]

    def routes(self, gateway: Gateway) -> list[Pair]:
        """Pairs that were asked for and that it can do; of direct and nginx, those to the same upstreams."""
        possible = [route.pair for route in gateway.routes]
        if gateway.name in (DIRECT, NGINX):
            upstreams = {pair.upstream for pair in self.pairs}
            return [pair for pair in possible if pair.upstream in upstreams]
        return [pair for pair in possible if pair in self.pairs]


def run(order: Order, progress: Progress) -> Results:
    """All of it."""
    results = Results(
        machine.describe(order.python), order.settings, datetime.datetime.now(datetime.UTC).date().isoformat()
    )
    results.notes += [*order.notes, *filter(None, [machine.load_notice()])]
    tools = build()
    files = raise_file_limit(FILES)
    shutil.rmtree(order.folder, ignore_errors=True)
    lengths = growth.LENGTHS if order.grow else (EVENTS,)
    write_answers(order.folder / ANSWERS, {*lengths, growth.OPEN_EVENTS} if order.grow else lengths)
    cores = split_cores()
    if not cores.apart:
        results.notes.append(
            "There is only one core: the gateway and the tools compete for it, and the tools sleep while they wait."
        )
    with Processes() as processes, on_cores(cores.tools):  # we too keep away from the gateway
        kit = Kit(tools, processes, cores, order.folder)
        bench = Bench(kit, kit.upstream(order.folder / ANSWERS), order.folder, order.python.program)
        measure_all(bench, order, progress, results)
        if order.grow:
            results.growth = growth.Growth()
            progress.run("growth", growth.steps(bench, files, results.growth))
    progress.say("imports")
    results.import_ms = order.imports()
    return results


def measure_all(bench: Bench, order: Order, progress: Progress, results: Results) -> None:
    """Rounds and footprints of all gateways."""
    straight = direct(Running(bench.upstream.process, bench.upstream.port))
    subjects: list[Subject] = []
    for gateway in (*order.gateways, straight):
        progress.say(f"starting {gateway.name}")
        subjects += started(bench, gateway, order, results)
    progress.run("rounds", rounds(bench, subjects, order.settings, results.measured))
    for subject in {id(s.running.process): s for s in subjects if s.gateway != DIRECT}.values():
        bench.processes.stop(subject.running.process)
    progress.run("memory", footprints(bench, order, subjects, results))
    results.rows = [
        row(s.gateway, s.pair.name, results.measured[s.gateway, s.pair.name], s.markers, EVENTS) for s in subjects
    ]
    results.notes += filter(None, [noise(results)])
    results.holds = [hold(name, results.footprints) for name in results.versions]


def noise(results: Results) -> str | None:
    """A warning if other programs ran on the gateway's core.

    Only nginx and ours are asked: they have no threads of their own that wait for each other.
    """
    taken = [
        one
        for (gateway, _), kinds in results.measured.items()
        for one in (*kinds["plain"], *kinds["stream"])
        if gateway in (NGINX, TRILOGUE)
    ]
    share = taken_by_others(taken)
    if share < NOISY:
        return None
    return f"Other programs used the gateway's core {share:.0%} of the time, so the figures are too high."


def started(bench: Bench, gateway: Gateway, order: Order, results: Results) -> list[Subject]:
    """Its pairs, ready to be measured; those that do not work are left out with a notice."""
    try:
        running, _ = bench.start(gateway, "main")
    except NotStarted as problem:
        results.notes.append(f"{gateway.name} was left out: {problem}")
        return []
    if gateway.name != DIRECT:
        results.versions[gateway.name] = gateway.version
    found = []
    for pair in order.routes(gateway):
        subject = bench.subject(gateway, pair, running)
        try:
            probe(subject)
        except (NotStarted, OSError) as problem:
            results.notes.append(f"{subject.label} was left out: {problem}")
        else:
            found.append(subject)
    return found


def footprints(bench: Bench, order: Order, subjects: Sequence[Subject], results: Results) -> Iterator[Step]:
    """One fresh process per pair."""
    for gateway in order.gateways:
        for subject in subjects:
            chosen = order.footprint_pairs is None and gateway.name == TRILOGUE
            chosen = chosen or subject.pair.name in (order.footprint_pairs or FOOTPRINT_PAIRS)
            if subject.gateway == gateway.name and chosen:
                action = _footprint(bench, gateway, subject, results)
                yield Step(f"{subject.label}, start and memory", FOOTPRINT_SECONDS, action)


def _footprint(bench: Bench, gateway: Gateway, subject: Subject, results: Results) -> Callable[[], None]:
    def action() -> None:
        try:
            found: Footprint = footprint(bench, gateway, subject.pair, subject.stream_us)
        except (NotStarted, ToolFailed) as problem:
            results.notes.append(f"Memory of {subject.label}: {problem}.")
        else:
            results.footprints.append(found)

    return action
