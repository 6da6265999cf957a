"""What storing a response costs a request (`make bench-state`): CPU time of the gateway with and without `store`.

The same requests are sent with `store: true` and `store: false`, in turn, on 1 and on 16 connections, whole and
streamed, from a Responses client to an upstream of each protocol. The store is SQLite with the usual settings. The aim
is that storing costs at most 1.3 times.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from benchmarks.build import build
from benchmarks.gateways import Pair, trilogue
from benchmarks.measure import RESPONSES, Bench, Subject, drive
from benchmarks.paths import CACHE
from benchmarks.processes import Processes, on_cores, split_cores
from benchmarks.tools import Load, Toolkit
from benchmarks.traffic import EVENTS, MARKER, PLAIN_SCRIPT, PROBE_SCRIPT, Script, question, write_responses
from trilogue import Protocol

AIM = 1.3
CONNECTIONS = (1, 16)
SCRIPTS = {"whole": PLAIN_SCRIPT, f"stream of {EVENTS}": PROBE_SCRIPT}
UPSTREAMS = (Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES)
ROUNDS = 7
SECONDS = 1.0
WARM = 0.3


class Case(NamedTuple):
    """What is measured."""

    upstream: Protocol
    script: str
    connections: int

    def load(self, subject: Subject, store: bool) -> Load:
        """Return the load for this case."""
        script: Script = SCRIPTS[self.script]
        body = {**question(Protocol.RESPONSES), "store": store}
        return Load(subject.route.request(script, body), subject.route.end(script), MARKER, self.connections)


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for upstream in UPSTREAMS:
        for script in SCRIPTS:
            for connections in CONNECTIONS:
                yield Case(upstream, script, connections)


def measure(bench: Bench, subject: Subject, case: Case, rounds: int) -> tuple[float, float]:
    """Return µs of CPU time per request, without and with storing."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for store, costs in found.items():
            taken = drive(bench, subject, case.load(subject, store), WARM, SECONDS)
            if taken.failed or not taken.good:
                raise SystemExit(f"{taken.failed} requests failed")
            costs.append(taken.gateway_us / taken.good)
    return median(found[False]), median(found[True])


def main() -> None:
    """Measure all cases and print the results."""
    options = argparse.ArgumentParser(description="What storing a response costs a request.")
    options.add_argument("--rounds", type=int, default=ROUNDS, help="measurements of each kind")
    rounds = options.parse_args().rounds
    folder = CACHE / "stored"
    shutil.rmtree(folder, ignore_errors=True)
    write_responses(folder / RESPONSES, (EVENTS,))
    cores = split_cores()
    with Processes() as processes, on_cores(cores.tools):
        toolkit = Toolkit(build(), processes, cores, folder)
        bench = Bench(toolkit, toolkit.upstream(folder / RESPONSES), folder)
        gateway = trilogue()
        running, _ = bench.start(gateway, "stored")
        print(f"µs of CPU time per request; the aim is {AIM}\n{'':>36}{'not stored':>12}{'stored':>10}{'ratio':>8}")
        for case in cases():
            subject = bench.subject(gateway, Pair(Protocol.RESPONSES, case.upstream), running)
            without, stored = measure(bench, subject, case, rounds)
            name = f"{case.upstream.short}, {case.script}, {case.connections} at a time"
            print(f"{name:>36}{without:>12.0f}{stored:>10.0f}{stored / without:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
