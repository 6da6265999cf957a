"""How quickly gateways agree, and what faults of Redis do to them: `python -m tests.cluster.report`.

Starts real gateways, a real Redis server and the scripted upstream on this machine. First an account gets a 429 on one
gateway again and again, and the time is taken from the request at the upstream until every other gateway shows the
account as resting. Then Redis gets every fault in turn while requests run: how many failed, how long the slowest took,
and how long after the fault the gateways agreed on a cooldown from its middle.
"""

from __future__ import annotations

import argparse
import math
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.cluster.gateways import ACCOUNTS, cluster_config, gateways, running, state_of
from tests.cluster.proxy import Proxy
from tests.cluster.redis import Server
from tests.gateway.pooling import Pooled, accepting, name_of, secret
from tests.gateway.process import until
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from tests.timing import eventually, pass_time
from trilogue.model import Protocol

CHAT = Protocol.CHAT
MODEL = "chat/m"
PATIENCE = 60.0
GAP_SECONDS = 0.02
Fault = tuple[Callable[[], object], float, Callable[[], object]]
"""what begins a fault, how many seconds it lasts, and what ends it"""


def refuse(up: ScriptedUpstream, name: str) -> None:
    """Let the upstream refuse one account, and no other."""
    up.by_key = {secret(one): "error-429" if one == name else "text" for one in ACCOUNTS}


def cooldown_times(nodes: Sequence[Pooled], up: ScriptedUpstream, times: int) -> list[float]:
    """Return the seconds from a 429 on one gateway until all others know it; gateways take turns."""
    found = []
    for number in range(times):
        first = nodes[number % len(nodes)]
        others = [one for one in nodes if one is not first]
        reset(nodes, up)
        refuse(up, "a")
        assert first.ask(CHAT, MODEL).status == 200
        began = next(request.time for request in up.requests if name_of(request) == "a")
        wait_for(others, "a", "cooling")
        found.append(time.monotonic() - began)
    return found


def reset(nodes: Sequence[Pooled], up: ScriptedUpstream) -> None:
    """End all cooldowns, and wait until every gateway knows that."""
    up.by_key = {secret(one): "text" for one in ACCOUNTS}
    for name in ACCOUNTS:
        nodes[0].admin.post(f"/accounts/chat/{name}/reset")
        wait_for(nodes, name, "ready")
    up.requests.clear()


def is_in(node: Pooled, account: str, state: str) -> bool:
    """Return whether a gateway shows the account in this state."""
    return state_of(node, account) == state


def wait_for(nodes: Sequence[Pooled], account: str, state: str) -> None:
    """Wait until all these gateways show the account in this state."""
    for one in nodes:
        eventually(partial(is_in, one, account, state), PATIENCE)


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value that this part of all values does not exceed."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


class Traffic:
    """Requests to one gateway, one at a time, for as long as the block runs."""

    def __init__(self, node: Pooled) -> None:
        self._node = node
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seconds: list[float] = []
        self.failed = 0

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            self.failed += self._node.ask(CHAT, MODEL).status != 200
            self.seconds.append(time.monotonic() - began)
            pass_time(GAP_SECONDS)


def recovery(nodes: Sequence[Pooled], up: ScriptedUpstream, fault: Fault) -> str:
    """Return what a fault did: requests, failures, the slowest one, and when all agreed again."""
    begin, seconds, end = fault
    reset(nodes, up)
    with Traffic(nodes[0]) as traffic:
        begin()
        pass_time(seconds / 2)
        refuse(up, "a")
        wait_for(nodes[:1], "a", "cooling")
        pass_time(seconds / 2)
        ended = time.monotonic()
        end()
        wait_for(nodes, "a", "cooling")
        agreed = time.monotonic() - ended
        until(lambda: all(running(one) == len(nodes) for one in nodes), PATIENCE)
        connected = time.monotonic() - ended
    slowest = max(traffic.seconds) * 1000
    return f"{len(traffic.seconds):>8} {traffic.failed:>7} {slowest:>9.0f} ms {agreed:>8.2f} s {connected:>8.2f} s"


def faults(server: Server, network: Proxy) -> dict[str, Fault]:
    """Return all faults by name."""
    client = server.client
    return {
        "killed, 5 s": (lambda: server.stop(signal.SIGKILL), 5.0, server.start),
        "paused, 10 s": (server.pause, 10.0, server.resume),
        "emptied": (client.flushall, 1.0, lambda: None),
        "a replica, 5 s": (lambda: client.replicaof("127.0.0.1", "1"), 5.0, lambda: client.replicaof("NO", "ONE")),
        "full, 5 s": (
            lambda: client.config_set("maxmemory", "1"),
            5.0,
            lambda: client.config_set("maxmemory", "0"),
        ),
        "network split, 10 s": (network.split, 10.0, network.heal),
        "connections reset": (network.reset, 1.0, lambda: None),
    }


@contextmanager
def prepared(count: int, workers: int) -> Iterator[tuple[Server, Proxy, ScriptedUpstream, list[Pooled]]]:
    """Start everything."""
    server = Server()
    server.start()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            thread.running(accepting(*ACCOUNTS)) as up,
            Proxy(server.port) as network,
        ):
            retries = "pool: {retry_budget: {floor: 100000}}\n"
            text = cluster_config(f"redis://127.0.0.1:{network.port}/0", workers=workers, more=retries)
            with gateways(Path(folder), up, count, text) as nodes:
                yield server, network, up, nodes
    finally:
        server.remove()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateways", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--no-faults", action="store_true")
    given = parser.parse_args()
    with prepared(given.gateways, given.workers) as (server, network, up, nodes):
        found = [1000 * seconds for seconds in cooldown_times(nodes, up, given.times)]
        shown = ", ".join(f"p{part} {percentile(found, part / 100):.1f}" for part in (50, 90, 99))
        print(f"{given.times} cooldowns, known on all {given.gateways} gateways: {shown}, at most {max(found):.1f} ms")
        if given.no_faults:
            return
        print(f"{'Redis was …':<22} requests  failed      slowest     agreed  connected")
        for name, fault in faults(server, network).items():
            print(f"{name:<22} {recovery(nodes, up, fault)}", flush=True)


if __name__ == "__main__":
    main()
