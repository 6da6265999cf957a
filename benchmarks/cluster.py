"""What sharing costs (`make bench-cluster`): CPU time per request of gateways alone, and of those of a cluster.

1, 2 and 4 gateways are behind nginx. The same requests are sent to each setup in turn; the CPU time is that of all
processes of all gateways together, background work included. PostgreSQL, Redis and nginx are not counted. The aim is
that a cluster takes at most 1.15 times. What gateways use without any request is included, and also shown by itself: it
does not grow with the load, so the ratio is the smaller, the more requests a gateway has. All gateways share one core,
and on a busy machine they get less of it: the last columns show the thread that serves requests alone.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import NamedTuple

from benchmarks.build import build
from benchmarks.gateways import Gateway, Pair, Running, trilogue
from benchmarks.measure import RESPONSES, Bench
from benchmarks.paths import CACHE
from benchmarks.processes import PROC, Processes, on_cores, split_cores, tree, usage
from benchmarks.tools import Toolkit
from benchmarks.traffic import EVENTS, PLAIN_SCRIPT, PROBE_SCRIPT, Script, write_responses
from tests.cluster.redis import Server as RedisServer
from tests.machines.nginx import balancer
from tests.machines.nodes import shared
from tests.state.responses.postgres import Server
from trilogue import Protocol

AIM = 1.15
COUNTS = (1, 2, 4)
PAIR = Pair(Protocol.MESSAGES, Protocol.CHAT)
SCRIPTS: dict[str, Script] = {"whole": PLAIN_SCRIPT, f"stream of {EVENTS}": PROBE_SCRIPT}
ROUNDS = 7
SECONDS = 1.0
WARM = 0.3
IDLE_SECONDS = 5.0
CONNECTIONS = 16


class Setup(NamedTuple):
    """Gateways behind nginx. `port`: that of nginx."""

    gateway: Gateway
    nodes: list[Running]
    port: int
    idle: float = 0.0
    """the share of a core that one gateway uses without any request"""

    def used(self) -> float:
        """Return the CPU time of all gateways so far, in µs."""
        return sum(usage(tree(node.process.pid)).cpu for node in self.nodes)

    def used_by_requests(self) -> float:
        """Return the CPU time of the threads that serve requests, in µs. Each gateway has one worker."""
        pids = [node.process.pid for node in self.nodes]
        return sum(int((PROC / f"{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e3 for pid in pids)


class Cost(NamedTuple):
    """µs of CPU time per request: of everything, and of the thread that serves requests."""

    whole: float
    serving: float


@contextmanager
def running(bench: Bench, name: str, settings: str, count: int) -> Iterator[Setup]:
    """Run gateways with these settings behind nginx."""
    gateway = trilogue(settings=settings)
    nodes = [bench.start(gateway, f"{name}-{count}-{number}")[0] for number in range(count)]
    try:
        with balancer(bench.folder / f"nginx-{name}-{count}", [node.port for node in nodes]) as url:
            yield Setup(gateway, nodes, int(url.rpartition(":")[2]))
    finally:
        for node in nodes:
            bench.processes.stop(node.process)


def cost(bench: Bench, setup: Setup, script: Script) -> Cost:
    """Return what a request takes. Raises SystemExit if one fails."""
    route = setup.gateway.route(PAIR).at(bench.upstream.port)
    with bench.toolkit.client(setup.port, route.load(script, connections=CONNECTIONS)) as client:
        time.sleep(WARM)
        client.report()
        before, serving = setup.used(), setup.used_by_requests()
        time.sleep(SECONDS)
        report = client.report()
        before, serving = setup.used() - before, setup.used_by_requests() - serving
    if report.failed or not report.good:
        raise SystemExit(f"{report.failed} requests failed, {report.good} did not")
    return Cost(before / report.good, serving / report.good)


def idle(setup: Setup) -> float:
    """Return the share of a core that one gateway uses without any request."""
    before, began = setup.used(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return (setup.used() - before) / 1e6 / (time.monotonic() - began) / len(setup.nodes)


def measure(
    bench: Bench, settings: dict[str, str], count: int, rounds: int
) -> tuple[dict[str, float], dict[tuple[str, str], Cost]]:
    """Return the share of a core that an idle gateway uses, by setup, and µs per request, by script and setup."""
    found: dict[tuple[str, str], list[Cost]] = {}
    with ExitStack() as stack:
        setups = {name: stack.enter_context(running(bench, name, text, count)) for name, text in settings.items()}
        setups = {name: setup._replace(idle=idle(setup)) for name, setup in setups.items()}
        for _ in range(rounds):
            for script, what in SCRIPTS.items():
                for name, setup in setups.items():
                    found.setdefault((script, name), []).append(cost(bench, setup, what))
    at_rest = {name: setup.idle for name, setup in setups.items()}
    return at_rest, {key: Cost(*map(median, zip(*costs, strict=True))) for key, costs in found.items()}


def main() -> None:
    """Measure all setups and print a table in Markdown."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--rounds", type=int, default=ROUNDS, help="measurements of each kind")
    rounds = options.parse_args().rounds
    folder = CACHE / "cluster"
    shutil.rmtree(folder, ignore_errors=True)
    write_responses(folder / RESPONSES, (EVENTS,))
    cores = split_cores()
    postgres, redis = Server(), RedisServer()
    try:
        postgres.start()
        redis.start()
        settings = {"alone": "", "cluster": shared(postgres.new_database(), redis.url)}
        with Processes() as processes, on_cores(cores.tools):
            toolkit = Toolkit(build(), processes, cores, folder)
            bench = Bench(toolkit, toolkit.upstream(folder / RESPONSES), folder)
            print(f"µs of CPU time per request ({PAIR.name}); the aim is {AIM}\n")
            print("| gateways | request | alone | cluster | ratio | alone, serving | cluster, serving | ratio |")
            print("|---|---|---|---|---|---|---|---|")
            for count in COUNTS:
                at_rest, found = measure(bench, settings, count, rounds)
                shares = [f"{100 * at_rest[name]:.1f} % of a core" for name in settings]
                print(f"| {count} | none, per gateway | {' | '.join(shares)} | | | | |", flush=True)
                for script in SCRIPTS:
                    pairs = zip(found[script, "alone"], found[script, "cluster"], strict=True)
                    cells = [f"{alone:.0f} | {both:.0f} | {both / alone:.2f}" for alone, both in pairs]
                    print(f"| {count} | {script} | {' | '.join(cells)} |", flush=True)
    finally:
        redis.remove()
        postgres.remove()


if __name__ == "__main__":
    main()
