"""A soak: gateways behind nginx that are killed and restarted at random under load, and a check of what is left.

    python -m tests.machines.soak --minutes 10 --nodes 4

It is right if every request was answered or told an error, every response that was acknowledged can be read, every
background response has ended, and the usage ledger has what the upstream has sent. It ends with exit code 1 if not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.cluster.redis import Server as RedisServer
from tests.gateway.running import CLIENT_KEY
from tests.machines.load import CONFIG, Connection, CountingUpstream, Load, Numbers, client, read_response, unreadable
from tests.machines.nodes import Cluster, Node, cluster, shared
from tests.machines.settling import live_files, settled
from tests.state.responses.postgres import Server
from tests.timing import pause_for

KILL_SECONDS = (2.0, 6.0)
AWAY_SECONDS = (0.0, 2.0)
BACK_SECONDS = 60.0
ENDED = ("completed", "failed", "cancelled", "incomplete")


@dataclass
class Background:
    """Background responses that were acknowledged, by number, and what each is at the end."""

    ids: dict[int, str] = field(default_factory=dict)
    found: dict[int, str] = field(default_factory=dict)

    @property
    def lost(self) -> list[str]:
        """Return those that cannot be read, or have not ended."""
        return [f"{self.ids[number]}: {what}" for number, what in self.found.items() if what not in ENDED]


async def get_connection(url: str) -> Connection:
    """Connect to a gateway or to nginx."""
    address = urlsplit(url)
    return await asyncio.open_connection(address.hostname, address.port)


async def start_some(url: str, numbers: AsyncIterator[int], background: Background) -> None:
    """Start background responses, one after the other."""
    async for number in numbers:
        try:
            reader, writer = await get_connection(url)
            body = json.dumps({"model": "m", "input": f"number {number}", "background": True}).encode()
            head = f"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {CLIENT_KEY}\r\n"
            writer.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
            async with asyncio.timeout(60):
                status, content, _ = await read_response(reader, lambda data: None)
            writer.close()
            if status == 200:
                background.ids[number] = json.loads(content)["id"]
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            continue


async def look(url: str, background: Background) -> None:
    """Find out what became of background responses."""
    reader, writer = await get_connection(url)
    for number, identifier in background.ids.items():
        head = f"GET /v1/responses/{identifier} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {CLIENT_KEY}\r\n"
        writer.write(f"{head}\r\n".encode())
        status, content, _ = await read_response(reader, lambda data: None)
        background.found[number] = json.loads(content)["status"] if status == 200 else str(status)
    writer.close()


async def disturb(running: Cluster, until: float, rng: random.Random) -> Counter[str]:
    """Kill or restart gateways, one at a time, until the time has come. Return how often each was done."""
    done: Counter[str] = Counter()
    while time.monotonic() < until:
        await pause_for(rng.uniform(*KILL_SECONDS))
        node = rng.choice(running.nodes)
        how = rng.choice(("killed", "killed", "restarted"))
        await asyncio.to_thread(_end, node, how)
        done[how] += 1
        await pause_for(rng.uniform(*AWAY_SECONDS))
        await asyncio.to_thread(node.start)
    return done


def _end(node: Node, how: str) -> None:
    if how == "killed":
        node.kill()
    elif node.stop() != 0:
        raise RuntimeError("a gateway did not stop in good order")


@dataclass
class Result:
    """What a soak has found. `problems`: what is wrong."""

    load: Load
    background: Background
    disturbed: Counter[str]
    upstream: CountingUpstream
    problems: list[str]
    lines: list[str] = field(default_factory=list)


async def soak(folder: Path, config: str, database: str, seconds: float, nodes: int) -> Result:
    """Run a soak. `config`: with the setting of the cluster; `database`: where its usage is."""
    load, background, upstream = Load(), Background(), CountingUpstream(delay=0.01)
    async with upstream.running():
        with cluster(folder, nodes, config, upstream.url) as running:
            numbers = Numbers(pause=0.02)
            tasks = [asyncio.create_task(client(running.url, numbers.each(), load, which)) for which in range(12)]
            slowly = Numbers(first=10_000_001, pause=0.3)
            tasks.append(asyncio.create_task(start_some(running.url, slowly.each(), background)))
            disturbed = await disturb(running, time.monotonic() + seconds, random.Random(7))
            numbers.stop()
            slowly.stop()
            await asyncio.gather(*tasks)
            urls = [node.url for node in running.nodes]
            problems = [f"cannot be read: {one}" for one in await unreadable(load, urls)]
            deadline = time.monotonic() + BACK_SECONDS
            while True:
                await look(urls[0], background)
                if not background.lost or time.monotonic() > deadline:
                    break
                await pause_for(1)
            problems += [f"background response {one}" for one in background.lost]
            sums = await settled(database, running)
            problems += [f"usage that was not added: {file}" for file in live_files(running)]
    problems += [f"request {number} hung" for number in load.hung]
    lines = [_title(nodes, seconds, disturbed), load.summary()]
    load.answered |= {number for number, status in background.found.items() if status == "completed"}
    problems += load.problems(sums, upstream)
    lines += [
        f"background responses: {dict(Counter(background.found.values()))}",
        f"the upstream has sent {upstream.requests} responses with {upstream.tokens} tokens; "
        f"the ledger has {sums.output} with {sums.fresh}; clients got {len(load.answered)}",
        f"sent by the upstream and cut by a kill on the way: {upstream.requests - len(load.answered)}, of which the "
        f"ledger has {sums.output - len(load.answered)}",
    ]
    return Result(load, background, disturbed, upstream, problems, lines)


def _title(nodes: int, seconds: float, disturbed: Counter[str]) -> str:
    done = f"{disturbed['killed']} killed, {disturbed['restarted']} restarted"
    return f"{nodes} gateways, {seconds / 60:.1f} minutes: {done}"


def run_soak(seconds: float, nodes: int) -> Result:
    """Run a soak on servers of its own."""
    postgres, redis = Server(), RedisServer()
    postgres.start()
    redis.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            url = postgres.new_database()
            return asyncio.run(soak(Path(folder), shared(url, redis.url) + CONFIG, url, seconds, nodes))
    finally:
        postgres.remove()
        redis.remove()


def main() -> None:
    """Run a soak and print its figures."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--nodes", type=int, default=4)
    asked = parser.parse_args()
    result = run_soak(asked.minutes * 60, asked.nodes)
    print("\n".join(result.lines))
    print("problems: " + ("; ".join(result.problems[:20]) or "none"))
    sys.exit(bool(result.problems))


if __name__ == "__main__":
    main()
