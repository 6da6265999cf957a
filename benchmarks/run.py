"""A whole run: build the tools, start the gateways, measure in rounds, measure memory and growth, and summarize."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import growth, machine, observers
from benchmarks.build import build
from benchmarks.footprint import Footprint, footprint
from benchmarks.gateways import DIRECT, NGINX, TRILOGUE, Gateway, NotStarted, Pair, Running, direct
from benchmarks.interpreter import Interpreter
from benchmarks.measure import RESPONSES, Bench, Subject, probe
from benchmarks.plan import Progress, Step
from benchmarks.processes import Processes, on_cores, raise_file_limit, split_cores
from benchmarks.results import Results
from benchmarks.rounds import Settings, rounds
from benchmarks.summary import hold, row, taken_by_others
from benchmarks.tools import ToolFailed, Toolkit
from benchmarks.traffic import EVENTS, write_responses

FILES = 40_000
FOOTPRINT_SECONDS = 6.0
FOOTPRINT_PAIRS = frozenset({"chat>chat", "chat>messages"})
"""pairs whose memory is measured for other gateways, which take long to start"""
NOISY = 0.05


@dataclass(frozen=True)
class RunOptions:
    """What a run has to do."""

    gateways: Sequence[Gateway]
    pairs: frozenset[Pair]
    settings: Settings
    grow: bool
    observe: bool
    """whether to measure what observers cost"""
    footprint_pairs: frozenset[str] | None
    """gateways whose memory is measured; None for all"""
    folder: Path
    notes: Sequence[str]
    """why some gateways are missing"""
    python: Interpreter
    imports: Callable[[], dict[str, float]]

    def routes(self, gateway: Gateway) -> list[Pair]:
        """Return the requested pairs that a gateway supports. Direct and nginx only get those to the same upstreams."""
        possible = [route.pair for route in gateway.routes]
        if gateway.name in (DIRECT, NGINX):
            upstreams = {pair.upstream for pair in self.pairs}
            return [pair for pair in possible if pair.upstream in upstreams]
        return [pair for pair in possible if pair in self.pairs]


def run(options: RunOptions, progress: Progress) -> Results:
    """Do the whole run and return its results."""
    results = Results(
        machine.describe(options.python), options.settings, datetime.datetime.now(datetime.UTC).date().isoformat()
    )
    results.notes += [*options.notes, *filter(None, [machine.load_notice()])]
    tools = build()
    files = raise_file_limit(FILES)
    shutil.rmtree(options.folder, ignore_errors=True)
    lengths = growth.LENGTHS if options.grow else (EVENTS,)
    write_responses(options.folder / RESPONSES, {*lengths, growth.OPEN_EVENTS} if options.grow else lengths)
    cores = split_cores()
    if not cores.separate:
        results.notes.append(
            "There is only one core: the gateway and the tools compete for it, and the tools sleep while they wait."
        )
    with Processes() as processes, on_cores(cores.tools):  # this process must stay off the gateway's core too
        toolkit = Toolkit(tools, processes, cores, options.folder)
        bench = Bench(toolkit, toolkit.upstream(options.folder / RESPONSES), options.folder, options.python.program)
        measure_all(bench, options, progress, results)
        if options.observe:
            progress.run("observers", observers.steps(bench, results.overheads, results.notes))
        if options.grow:
            results.growth = growth.Growth()
            progress.run("growth", growth.steps(bench, files, results.growth))
    progress.say("imports")
    results.import_ms = options.imports()
    return results


def measure_all(bench: Bench, options: RunOptions, progress: Progress, results: Results) -> None:
    """Measure the rounds and footprints of all gateways."""
    straight = direct(Running(bench.upstream.process, bench.upstream.port))
    subjects: list[Subject] = []
    for gateway in (*options.gateways, straight):
        progress.say(f"starting {gateway.name}")
        subjects += started(bench, gateway, options, results)
    progress.run("rounds", rounds(bench, subjects, options.settings, results.measured))
    for subject in {id(s.running.process): s for s in subjects if s.gateway != DIRECT}.values():
        bench.processes.stop(subject.running.process)
    progress.run("memory", footprints(bench, options, subjects, results))
    results.rows = [
        row(s.gateway, s.pair.name, results.measured[s.gateway, s.pair.name], s.markers, EVENTS) for s in subjects
    ]
    results.notes += filter(None, [noise(results)])
    results.holds = [hold(name, results.footprints) for name in results.versions]


def noise(results: Results) -> str | None:
    """Return a warning if other programs ran on the gateway's core, or None.

    Only nginx and ours are checked: other gateways have threads that wait for each other.
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


def started(bench: Bench, gateway: Gateway, options: RunOptions, results: Results) -> list[Subject]:
    """Start a gateway and return its pairs, ready to be measured. Pairs that do not work are left out with a notice."""
    try:
        running, _ = bench.start(gateway, "main")
    except NotStarted as problem:
        results.notes.append(f"{gateway.name} was left out: {problem}")
        return []
    if gateway.name != DIRECT:
        results.versions[gateway.name] = gateway.version
    found = []
    for pair in options.routes(gateway):
        subject = bench.subject(gateway, pair, running)
        try:
            probe(subject)
        except (NotStarted, OSError) as problem:
            results.notes.append(f"{subject.label} was left out: {problem}")
        else:
            found.append(subject)
    return found


def footprints(bench: Bench, options: RunOptions, subjects: Sequence[Subject], results: Results) -> Iterator[Step]:
    """Return the steps that measure memory, with a fresh process per pair."""
    for gateway in options.gateways:
        for subject in subjects:
            chosen = options.footprint_pairs is None and gateway.name == TRILOGUE
            chosen = chosen or subject.pair.name in (options.footprint_pairs or FOOTPRINT_PAIRS)
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
