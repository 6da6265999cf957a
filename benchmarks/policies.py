"""What policies that change nothing cost an event of a stream (`python -m benchmarks.policies`).

Gateways with different policies are measured in turn, and only figures of one round are compared. The first two have no
policies and show how exact the comparison is. The first table has the CPU time of the whole gateway, from socket to
socket; the second one that of the codecs and the engine alone, on every way. The aim is at most 15 % of an event.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.build import build
from benchmarks.core import STREAMS
from benchmarks.gateways import Pair
from benchmarks.measure import RESPONSES, Bench
from benchmarks.observers import OFF, STREAM, Observed, Overhead, Subjects, end, measure_stream, start
from benchmarks.paths import CACHE
from benchmarks.processes import Processes, on_cores, split_cores
from benchmarks.tools import Toolkit
from benchmarks.traffic import EVENTS, write_responses
from trilogue import Protocol, StreamTranslator
from trilogue.gateway.response.judged_pass_through import JudgedPassThrough
from trilogue.gateway.response.pass_through import PassThrough
from trilogue.policies import Policy, PolicyRun, load_policies
from trilogue.protocols.stream.response_context import Reply

AIM = 1.15
ROUNDS = 5
COUNT, REPEATS = 2_000, 7
POLICIES: dict[str, dict[str, Any]] = {
    "requests only": {"use": "inject_system", "text": "Be kind."},
    "calls": {"use": "tools", "deny": ["never"]},
    "phrases": {"use": "block_phrases", "phrases": ["never there", "nor this"]},
    "redact": {"use": "redact"},
}
NONE, AGAIN = "none", "none, again"
WAYS = (Pair(Protocol.CHAT, Protocol.CHAT), Pair(Protocol.MESSAGES, Protocol.CHAT))


def settings(entry: dict[str, Any]) -> str:
    """Return a configuration in which a policy applies to all requests."""
    return f"{OFF}policies: {{measured: {json.dumps(entry)}}}\nserver: {{policies: [measured]}}\n"


def gateways(bench: Bench, pair: Pair, rounds: int) -> None:
    """Print what an event costs in gateways with different policies."""
    chosen = [Observed(name, OFF, pair=pair) for name in (NONE, AGAIN)]
    chosen += [Observed(name, settings(entry), AIM, pair) for name, entry in POLICIES.items()]
    overheads: list[Overhead] = []
    subjects: Subjects = []
    notes: list[str] = []
    start(bench, chosen, subjects, overheads, notes)
    for _ in range(rounds):
        for overhead, subject in subjects:
            measure_stream(bench, overhead, subject, STREAM)
    end(bench, subjects)
    for one in overheads:
        cost, ratio = one.median("event_us"), one.ratio(overheads[0], "event_us")
        if cost is None or ratio is None:
            # `redact` sends translated text in other pieces, in which the client's tool does not find its marks.
            print(f"{pair.name:>20} {one.name:>14} not measured")
            continue
        met = "" if one.limit is None else "met" if ratio <= one.limit else "NOT MET"
        print(f"{pair.name:>20} {one.name:>14} {cost:8.1f} µs {ratio:6.2f} x  {met}")
    for note in notes:
        print(note)


def engine(source: Protocol, target: Protocol | None) -> None:
    """Print what an event costs in the codecs and the engine, by policy."""
    events = list(STREAMS[source](COUNT))
    loaded: dict[str, Sequence[Policy] | None] = {NONE: None}
    loaded |= {name: load_policies([entry]) for name, entry in POLICIES.items()}
    found: dict[str, float] = {}
    for _ in range(REPEATS):
        for name, policies in loaded.items():
            gc.collect()
            begun = time.process_time()
            relay(source, target, policies, events)
            found[name] = min(time.process_time() - begun, found.get(name, 1e9))
    way = f"{source.short} {'pass-through' if target is None else f'to {target.short}'}"
    print(f"{way:>26}", *[f"{name} {seconds / COUNT * 1e6:5.2f}" for name, seconds in found.items()])


def relay(
    source: Protocol, target: Protocol | None, policies: Sequence[Policy] | None, events: Sequence[bytes]
) -> None:
    """Pass a whole stream through, with or without policies."""
    run = None if policies is None else PolicyRun(policies)
    path: StreamTranslator | PassThrough
    if target is not None:
        path = StreamTranslator(source=source, target=target, policies=run)
    elif run is None:
        path = PassThrough(source, Reply(source=source))
    else:
        path = JudgedPassThrough(source, lambda: Reply(source=source), run, lambda: None)
    for event in events:
        path.feed(event)
    path.close()


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    folder = CACHE / "policies"
    shutil.rmtree(folder, ignore_errors=True)
    write_responses(folder / RESPONSES, (EVENTS,))
    cores = split_cores()
    print("CPU time of the gateway for an event of a stream")
    with Processes() as processes, on_cores(cores.tools):
        toolkit = Toolkit(build(), processes, cores, folder)
        bench = Bench(toolkit, toolkit.upstream(folder / RESPONSES), folder)
        for pair in WAYS:
            gateways(bench, pair, rounds)
    print("\nµs of codecs and engine for an event")
    for source in Protocol:
        for target in (*Protocol, None):
            engine(source, target)


if __name__ == "__main__":
    main()
