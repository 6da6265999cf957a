"""How long it takes until all gateways know: a cooldown, and a revoked client key.

    python -m tests.machines.spreading --nodes 4 --times 50

A cooldown is measured from the moment at which the upstream sends a 429 to one gateway, until the last of the others
has the account resting in its pool. A revocation is measured from the moment at which the command returns, until the
last gateway refuses the key. All gateways are asked again and again, so that their answers take a few milliseconds.
"""

from __future__ import annotations

import argparse
import secrets
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles

import httpx2

from tests.cluster.redis import Server as RedisServer
from tests.gateway.pooling import ADMIN, ADMIN_KEY, accepting, config, ranked, secret
from tests.gateway.running import CLIENT_KEY
from tests.machines.nodes import Cluster, Node, cluster, shared
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from tests.state.responses.postgres import Server
from trilogue.model import Protocol

GIVE_UP_SECONDS = 20.0
PAUSE_SECONDS = 0.05
ACCOUNT = f"{Protocol.CHAT.short}/a"


class Machine:
    """One gateway, with a client for its admin interface and one for requests."""

    def __init__(self, node: Node, stack: ExitStack) -> None:
        node.process.wait_for_log("admin interface", 20)
        port = next(line["port"] for line in node.process.lines if line["event"] == "admin interface")
        headers = {"authorization": f"Bearer {ADMIN_KEY}"}
        self.admin = stack.enter_context(
            httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=20)
        )
        self.http = stack.enter_context(httpx2.Client(base_url=node.url, timeout=20))

    def ask(self, key: str = CLIENT_KEY) -> int:
        """Send a request that belongs to no conversation that an account already has, and return its status."""
        body = {"model": f"{Protocol.CHAT.short}/text", "messages": [{"role": "user", "content": secrets.token_hex(8)}]}
        headers = {"authorization": f"Bearer {key}"}
        return self.http.post("/v1/chat/completions", json=body, headers=headers).status_code

    def rests(self) -> bool:
        """Return whether the first account rests here."""
        lines = self.admin.get("/accounts").json()["accounts"]
        state = next(line for line in lines if f"{line['provider']}/{line['account']}" == ACCOUNT)
        return bool(state["state"] == "cooling")

    def accepts(self, key: str) -> bool:
        """Return whether a client key works here, without asking an upstream."""
        return self.http.get("/v1/models", headers={"authorization": f"Bearer {key}"}).status_code == 200


def known_after(machines: list[Machine], began: float, known: Callable[[Machine], bool]) -> float:
    """Return the seconds until something is so on all machines, each asked in a thread of its own."""

    def wait(machine: Machine) -> float:
        while not known(machine):
            if time.monotonic() - began > GIVE_UP_SECONDS:
                raise TimeoutError("a gateway never learned of it")
        return time.monotonic() - began

    with ThreadPoolExecutor(len(machines)) as pool:
        return max(pool.map(wait, machines))


def cooldowns(machines: list[Machine], up: ScriptedUpstream, times: int) -> list[float]:
    """Return how long each cooldown took to be known everywhere."""
    found = []
    for number in range(times):
        first, *others = machines[number % len(machines) :] + machines[: number % len(machines)]
        up.by_key[secret("a")] = "error-429"
        asking = threading.Thread(target=first.ask)
        before = len(up.requests)
        asking.start()
        while len(up.requests) == before:
            time.sleep(0.0002)
        found.append(known_after(others, time.monotonic(), Machine.rests))
        asking.join()
        up.by_key[secret("a")] = "text"
        assert first.admin.post(f"/accounts/{ACCOUNT}/reset").status_code == 200
        known_after(machines, time.monotonic(), lambda machine: not machine.rests())
        time.sleep(PAUSE_SECONDS)
    return found


def revocations(machines: list[Machine], times: int) -> list[float]:
    """Return how long each revocation took to be known everywhere."""
    found = []
    for number in range(times):
        made = machines[0].admin.post("/keys", json={"name": f"key-{number}"}).json()
        known_after(machines, time.monotonic(), lambda machine, key=made["key"]: machine.accepts(key))  # type: ignore[misc]
        assert machines[0].admin.post(f"/keys/key-{number}/revoke", json={}).status_code == 200
        began = time.monotonic()
        found.append(known_after(machines, began, lambda machine, key=made["key"]: not machine.accepts(key)))  # type: ignore[misc]
    return found


def shown(seconds: list[float]) -> str:
    """Return p50, p99 and the most, in milliseconds, as cells of a table."""
    steps = quantiles(seconds, n=100, method="inclusive")
    return " | ".join(f"{1_000 * value:.0f}" for value in (steps[49], steps[98], max(seconds)))


def measured(running: Cluster, up: ScriptedUpstream, times: int) -> list[str]:
    """Measure both, and return the rows of a table."""
    with ExitStack() as stack:
        machines = [Machine(node, stack) for node in running.nodes]
        count = len(machines)
        return [
            f"| a cooldown | {count} | {times} | {shown(cooldowns(machines, up, times))} |",
            f"| a revoked key | {count} | {times} | {shown(revocations(machines, times))} |",
        ]


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--times", type=int, default=50)
    asked = parser.parse_args()
    postgres, redis = Server(), RedisServer()
    postgres.start()
    redis.start()
    try:
        with tempfile.TemporaryDirectory() as folder, thread.running(accepting("a", "b")) as up:
            text = config(ranked("a", "b"), more=shared(postgres.new_database(), redis.url))
            assert ADMIN in text
            environ = {"ADMIN_KEY": ADMIN_KEY}
            with cluster(Path(folder), asked.nodes, text, up.url, environ) as running:
                rows = measured(running, up, asked.times)
    finally:
        redis.remove()
        postgres.remove()
    print("| milliseconds until all know | gateways | times | p50 | p99 | most |\n|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
