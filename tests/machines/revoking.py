"""How long it takes until all gateways refuse a client key that was revoked on one of them.

    python -m tests.machines.revoking --nodes 4 --times 50

The time is taken from the moment at which the admin interface of one gateway has confirmed it, until the last gateway
refuses the key. Every gateway is asked again and again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx2

from tests.cluster.redis import Server as RedisServer
from tests.cluster.report import percentile
from tests.gateway.pooling import ADMIN, ADMIN_KEY
from tests.machines.nodes import Cluster, Node, cluster, shared
from tests.state.responses.postgres import Server

GIVE_UP_SECONDS = 20.0
CONFIG = f'{ADMIN}keys: [env:TRILOGUE_KEY]\nproviders: {{demo: {{protocol: openai_responses, base_url: "demo:"}}}}\n'


class Machine:
    """One gateway, with a client for its admin interface and one for requests."""

    def __init__(self, node: Node, stack: ExitStack) -> None:
        node.process.wait_for_log("admin interface", GIVE_UP_SECONDS)
        port = next(line["port"] for line in node.process.lines if line["event"] == "admin interface")
        admin = httpx2.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"authorization": f"Bearer {ADMIN_KEY}"}, timeout=20
        )
        self.admin = stack.enter_context(admin)
        self.http = stack.enter_context(httpx2.Client(base_url=node.url, timeout=20))

    def seconds_until(self, began: float, key: str, *, accepted: bool) -> float:
        """Wait until a key works here or does not, and return how long that took."""
        while (self._status(key) == 200) is not accepted:
            if time.monotonic() - began > GIVE_UP_SECONDS:
                raise TimeoutError("a gateway never learned of it")
        return time.monotonic() - began

    def _status(self, key: str) -> int:
        return self.http.get("/v1/models", headers={"authorization": f"Bearer {key}"}).status_code


def revocations(running: Cluster, times: int) -> list[float]:
    """Return how long each revocation took to be known everywhere, in seconds."""
    found = []
    with ExitStack() as stack, ThreadPoolExecutor(len(running.nodes)) as pool:
        machines = [Machine(node, stack) for node in running.nodes]

        def last(key: str, *, accepted: bool) -> float:
            began = time.monotonic()
            times: list[float] = list(pool.map(lambda one: one.seconds_until(began, key, accepted=accepted), machines))
            return max(times)

        for number in range(times):
            first = machines[number % len(machines)]
            key = first.admin.post("/keys", json={"name": f"key-{number}"}).json()["key"]
            last(key, accepted=True)
            assert first.admin.post(f"/keys/key-{number}/revoke", json={}).status_code == 200
            found.append(last(key, accepted=False))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--times", type=int, default=50)
    asked = parser.parse_args()
    postgres, redis = Server(), RedisServer()
    postgres.start()
    redis.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            text = shared(postgres.new_database(), redis.url) + CONFIG
            with cluster(Path(folder), asked.nodes, text, "", {"ADMIN_KEY": ADMIN_KEY}) as running:
                found = [1_000 * seconds for seconds in revocations(running, asked.times)]
    finally:
        redis.remove()
        postgres.remove()
    shown = ", ".join(f"p{part} {percentile(found, part / 100):.0f}" for part in (50, 90, 99))
    print(f"{asked.times} revoked keys, refused by all {asked.nodes} gateways: {shown}, at most {max(found):.0f} ms")


if __name__ == "__main__":
    main()
