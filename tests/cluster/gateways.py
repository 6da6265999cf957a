"""Real gateways with one configuration on one Redis server, each as on a machine of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2

from tests.gateway.pooling import Pooled, config, pooled, ranked
from tests.gateway.process import until
from tests.scripted.server import ScriptedUpstream

ACCOUNTS = ("a", "b", "c")


def cluster_config(url: str, *, more: str = "", workers: int = 1) -> str:
    """The configuration of every node."""
    cluster = f"cluster: {{redis: '{url}'}}\nstate: none\nusage: none\n{more}"
    return config(ranked(*ACCOUNTS), provider="pool: {sticky: false}", more=cluster, workers=workers)


@contextmanager
def gateways(folder: Path, up: ScriptedUpstream, count: int, text: str) -> Iterator[list[Pooled]]:
    """Several gateways that are connected to their cluster."""
    with ExitStack() as stack:
        found = []
        for number in range(count):
            place = folder / f"node-{number}"
            place.mkdir()
            found.append(stack.enter_context(pooled(place, text, up)))
        until(lambda: all(running(one) == count for one in found), 30)
        yield found


def running(one: Pooled) -> int:
    """How many nodes a gateway knows that are running, if it is connected; else 0."""
    try:
        reply = one.admin.get("/nodes").json()
    except httpx2.TransportError:  # a worker that was killed
        return 0
    return sum(node["state"] == "running" for node in reply["nodes"]) if reply["cluster"]["connected"] else 0


def state_of(one: Pooled, account: str) -> str:
    """The state of an account as a gateway knows it."""
    return str(one.accounts()[f"chat/{account}"]["state"])
