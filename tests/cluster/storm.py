"""A storm of concurrent requests over several gateways that share limits, and what their upstream has really seen.

    python -m tests.cluster.storm --gateways 4 --requests 1000

Every figure is the upstream's own count: what clients got, and what gateways believe, does not matter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.cluster.redis import Server as RedisServer
from tests.cluster.redis import new_prefix
from tests.gateway.process import Started, started
from tests.state.responses.postgres import Server as PostgresServer
from tests.timing import eventually, pass_time, pause_for, turns
from trilogue.gateway.features.cluster.leases import EPOCH, RECOVERY_SECONDS

INPUT, OUTPUT = 10, 10
"""tokens that the upstream reports for a response"""
MOST_INPUT = 2_000
"""tokens of input for the key with a budget: nearly what is reserved for a request, so that nearly all can be spent"""
MAX_TOKENS = 100
TOKEN_PRICE = 0.001
"""dollars"""
LIMITS = {
    "requests": "limits: {requests_per_day: 300}",
    "tokens": "limits: {tokens_per_day: 9000}",
    "concurrency": "limits: {concurrency: 25}",
    "budget": "budget: {total: 300.0}",
}
KEYS = "\n".join(f"  - {{key: key-of-{name}, name: {name}, {text}}}" for name, text in LIMITS.items())
CONFIG = f"""\
server: {{workers: WORKERS}}
admin: {{enabled: false}}
cluster: {{redis: env:CLUSTER_REDIS, postgresql: env:CLUSTER_POSTGRESQL, prefix: PREFIX}}
keys:
{KEYS}
  - {{key: key-of-lenient, name: lenient, budget: {{total: 1000000, store_away: allow}}}}
providers:
  up:
    protocol: chat
    base_url: UPSTREAM/v1
    accounts: [{{key: upstream-key-canary}}]
    prices: {{'*': {{input: 1000, output: 1000}}}}
"""


@dataclass
class CountingUpstream:
    """An upstream that counts. `seconds`: how long a response takes."""

    seconds: float = 0.15
    url: str = ""
    requests: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    """the most requests that ran at the same time"""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
                )
                model = json.loads(await reader.readexactly(length))["model"]
                self.requests[model] += 1
                self.running[model] += 1
                self.most[model] = max(self.most[model], self.running[model])
                await pause_for(self.seconds)
                self.running[model] -= 1
                writer.write(_RESPONSES[model == "budget"])
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    def clear(self) -> None:
        self.requests.clear()
        self.most.clear()

    def tokens(self, model: str) -> int:
        return self.requests[model] * ((MOST_INPUT if model == "budget" else INPUT) + OUTPUT)

    def cost(self, model: str) -> float:
        return self.tokens(model) * TOKEN_PRICE


def _response(tokens: int) -> bytes:
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": OUTPUT, "total_tokens": tokens + OUTPUT},
    }
    data = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data)


_RESPONSES = [_response(INPUT), _response(MOST_INPUT)]


@contextmanager
def upstream() -> Iterator[CountingUpstream]:
    """Provide the upstream, on an event loop and thread of its own."""
    found, loop, ready = CountingUpstream(), asyncio.new_event_loop(), threading.Event()
    stop = asyncio.Event()

    async def run() -> None:
        server = await asyncio.start_server(found.serve, "127.0.0.1", 0, backlog=2048)
        found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        await stop.wait()
        server.close()
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        await turns(5)

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


_STORED = "SELECT sum(spent) FROM trl_budget_spent WHERE subject LIKE 'key budget:%'"


@dataclass
class Cluster:
    """Gateways of one cluster, each with a state folder of its own, as on as many machines."""

    gateways: list[Started]
    up: CountingUpstream
    redis: RedisServer
    database: str

    def stored_money(self) -> float:
        """Return what all gateways have spent of the budget, according to the database."""
        with psycopg.connect(self.database) as connection:
            row = connection.execute(_STORED).fetchone()
        return float(row[0] or 0) / 1e9 if row is not None else 0.0

    def questions(self) -> int:
        """Return how often nodes have asked Redis about limits."""
        stats: Any = self.redis.client.info("commandstats")
        return int(stats.get("cmdstat_evalsha", {}).get("calls", 0))

    def storm(self, name: str, count: int, gateways: Sequence[Started] = ()) -> Counter[str]:
        """Send concurrent requests with a key to all gateways in turn. Return how they ended: statuses and codes."""
        found = asyncio.run(_storm([one.url for one in gateways or self.gateways], name, count))
        return Counter(found)

    def ask(self, name: str, gateway: int = 0) -> str:
        """Send one request, and return how it ended."""
        return next(iter(self.storm(name, 1, [self.gateways[gateway]])))


async def _storm(urls: Sequence[str], name: str, count: int) -> list[str]:
    return list(await asyncio.gather(*(_ask(urls[number % len(urls)], name) for number in range(count))))


async def _ask(url: str, name: str) -> str:
    body = json.dumps(
        {"model": f"up/{name}", "max_tokens": MAX_TOKENS, "messages": [{"role": "user", "content": "hi"}]}
    )
    address = urlsplit(url)
    try:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
    except OSError:
        return "no connection"
    try:
        writer.write(
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer key-of-{name}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()
        )
        async with asyncio.timeout(120):
            reply = await reader.read(-1)
    except (OSError, TimeoutError):
        return "no response"
    finally:
        writer.close()
    status = reply[9:12].decode()
    if status in ("200", ""):
        return status or "no response"
    return f"{status} {json.loads(reply.partition(b'{')[1] + reply.partition(b'{')[2])['error']['code']}"


@contextmanager
def cluster(folder: Path, count: int, workers: int = 1) -> Iterator[Cluster]:
    """Provide a cluster of gateways with a Redis and a PostgreSQL server of its own."""
    with ExitStack() as stack:
        redis, postgres = RedisServer(), PostgresServer()
        stack.callback(redis.remove)
        stack.callback(postgres.remove)
        redis.start()
        postgres.start()
        up = stack.enter_context(upstream())
        database = postgres.new_database()
        environ = {"CLUSTER_REDIS": redis.url, "CLUSTER_POSTGRESQL": database}
        prefix = new_prefix()
        text = CONFIG.replace("PREFIX", prefix).replace("WORKERS", str(workers))
        gateways = []
        for number in range(count):
            place = folder / f"node-{number}"
            place.mkdir()
            gateways.append(stack.enter_context(started(place, text, up.url, environ=environ)))
        for gateway in gateways:
            gateway.wait_for_log("connected to the cluster", 20)
        # A server that was empty until now grants nothing for a while.
        until(lambda: redis.client.get(f"{prefix}:{EPOCH}") is not None)
        pass_time(RECOVERY_SECONDS + 0.5)
        yield Cluster(gateways, up, redis, database)


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until something is so."""
    eventually(condition, seconds)


def main() -> None:
    """Run all storms and print what the upstream has seen."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gateways", type=int, default=4)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder), options.gateways, options.workers) as found:
        for name in LIMITS:
            began, before = time.monotonic(), found.questions()
            ended = found.storm(name, options.requests)
            seconds = time.monotonic() - began
            up = found.up
            seen = {
                "requests": f"{up.requests[name]} of 300 requests",
                "tokens": f"{up.tokens(name)} of 9000 tokens",
                "concurrency": f"at most {up.most[name]} of 25 at the same time",
                "budget": f"${up.cost(name):.2f} of $300.00",
            }[name]
            print(f"{name}: {seen}, {seconds:.1f} s, {found.questions() - before} calls to Redis, {dict(ended)}")


if __name__ == "__main__":
    main()
