"""Requests to a gateway whose workers are killed meanwhile, and what the usage ledger must then contain.

Each request has a number, which the upstream reports as its input tokens. So the sum of the input tokens says not only
how many requests were counted, but also which.

    python -m tests.gateway.usage.killing 10000 --kills 5 --workers 2
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from tests.gateway.process import Started, started
from tests.gateway.running import CLIENT_KEY
from tests.timing import eventually_async
from trilogue.gateway.features.usage.ledger.live_file import Counts
from trilogue.gateway.features.usage.ledger.tables import LedgerTables, UsageQuery, read_usage
from trilogue.storage.locations import state_file
from trilogue.storage.sqlite import SqliteDatabase

CONNECTIONS = 16
CONFIG = """\
keys: [{key: env:TRILOGUE_KEY, name: storm}]
providers:
  up: {protocol: openai_chat_completions, base_url: UPSTREAM/v1, models: [m], accounts: [{key: upstream-key-canary}],
       prices: {m: {input: 1, output: 2}}}
"""
_NUMBER = re.compile(rb"number (\d+)")
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass
class Storm:
    """The numbers of requests to which clients got a complete response, and of the others."""

    answered: set[int] = field(default_factory=set)
    unanswered: set[int] = field(default_factory=set)
    kills: int = 0

    def has_ended(self, requests: int) -> bool:
        """Return whether so many requests have ended."""
        return len(self.answered) + len(self.unanswered) >= requests

    def problems(self, counted: Counts) -> list[str]:
        """Return what is wrong with what was counted: every response that a client got must be there, once.

        A response that was counted but could not be sent, because its worker was killed in between, may be there too.
        """
        more, excess = counted.requests - len(self.answered), counted.fresh - sum(self.answered)
        found = []
        if not _is_sum(excess, more, self.unanswered):
            found.append(f"{more} requests more than were answered, with {excess} tokens, are none of those unanswered")
        if counted.output != counted.requests or counted.cost != (counted.fresh + 2 * counted.output) * 1_000_000:
            found.append(f"the counts are of different requests: {counted}")
        return found


def _is_sum(total: int, size: int, numbers: set[int]) -> bool:
    """Return whether so many of these numbers have this sum."""
    sums = {(0, 0)}
    for number in numbers:
        sums |= {(count + 1, total_so_far + number) for count, total_so_far in sums if count < size}
    return (size, total) in sums


async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Respond to requests with their number as the input tokens, streamed or not."""
    with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            number = _NUMBER.search(body)
            writer.write(_response(int(number[1]) if number else 0, b'"stream":true' in body.replace(b" ", b"")))
            await writer.drain()
    writer.close()


def _response(number: int, streamed: bool) -> bytes:
    usage = {"prompt_tokens": number, "completion_tokens": 1, "total_tokens": number + 1}
    if streamed:
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        said = {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}}]}
        ended = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        parts = [json.dumps(one) for one in (said, ended, {**chunk, "choices": [], "usage": usage})]
        body, kind = "".join(f"data: {part}\n\n" for part in (*parts, "[DONE]")), "text/event-stream"
    else:
        message = {"role": "assistant", "content": "Hi"}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
        body, kind = json.dumps(whole), "application/json"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return (head + body).encode()


async def ask(number: int, connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], storm: Storm) -> None:
    """Send a request, and read its response to the end. Raises an error if that does not come, or is an error.

    Clients take a stream for complete when they have its last event, whatever becomes of the connection.
    """
    reader, writer = connection
    streamed = number % 2 == 0
    asked = {"model": "m", "messages": [{"role": "user", "content": f"number {number}"}], "stream": streamed}
    if streamed:
        asked["stream_options"] = {"include_usage": True}
    body = json.dumps(asked).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {CLIENT_KEY}\r\n"
    writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    answered = await reader.readuntil(b"\r\n\r\n")
    if not answered.startswith(b"HTTP/1.1 200"):
        raise ConnectionError("an error")
    length = _LENGTH.search(answered)
    if length:
        await reader.readexactly(int(length[1]))
        storm.answered.add(number)
        return
    while (size := int(await reader.readuntil(b"\r\n"), 16)) > 0:
        if b"data: [DONE]" in await reader.readexactly(size + 2):
            storm.answered.add(number)
    await reader.readexactly(2)


async def client(port: int, numbers: list[int], storm: Storm) -> None:
    """Send requests one after the other, until there are no more numbers."""
    connection = None
    while numbers:
        number = numbers.pop()
        try:
            if connection is None:
                connection = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.wait_for(ask(number, connection, storm), 10)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            if number not in storm.answered:
                storm.unanswered.add(number)
            if connection is not None:
                connection[1].close()
            connection = None
    if connection is not None:
        connection[1].close()


async def killer(requests: int, kills: int, storm: Storm, kill: Callable[[], None]) -> None:
    """Kill at equal distances of requests."""
    for done in range(1, kills + 1):
        await eventually_async(partial(storm.has_ended, done * requests // (kills + 1)), 600)
        kill()
        storm.kills += 1


async def run(folder: Path, requests: int, kills: int, workers: int) -> tuple[Storm, Counts]:
    """Send requests to a gateway while its workers are killed, and return what happened and what was counted."""
    server = await asyncio.start_server(upstream, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    storm, numbers = Storm(), list(range(1, requests + 1))
    options = ("--workers", str(workers))
    with started(folder, CONFIG, address, options=options) as gateway:
        port = urlsplit(gateway.url).port or 0
        kill = _killing(gateway)
        clients = [client(port, numbers, storm) for _ in range(CONNECTIONS)]
        await asyncio.gather(killer(requests, kills, storm, kill), *clients)
        while_running = usage(folder)
        # The whole gateway dies before anything can be moved to the table.
        os.killpg(gateway.pid, signal.SIGKILL)
        gateway.process.wait()
        counted = usage(folder)
    server.close()
    assert while_running == counted
    return storm, counted


def _killing(gateway: Started) -> Callable[[], None]:
    """Return a function that kills the oldest worker, which has the most connections."""

    def kill() -> None:
        with suppress(ProcessLookupError):
            os.kill(min(gateway.children()), signal.SIGKILL)

    return kill


def usage(folder: Path) -> Counts:
    """Return the sum of the ledger, as `trilogue usage` reads it."""
    file = state_file({"XDG_STATE_HOME": str(folder)}, "usage.db", folder / "trilogue.yaml")
    tables = LedgerTables(SqliteDatabase(file))
    try:
        return next((line.counts for line in read_usage(tables, file.with_suffix(".live"), UsageQuery())), Counts())
    finally:
        tables.close()


def main() -> None:
    """Run a storm and print its figures."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("requests", type=int)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        storm, counted = asyncio.run(run(Path(folder), asked.requests, asked.kills, asked.workers))
    print(f"{asked.requests} requests, {storm.kills} workers killed, {time.perf_counter() - began:.1f} s")
    print(f"complete responses: {len(storm.answered)}, with {sum(storm.answered)} tokens")
    print(f"in the ledger:      {counted.requests}, with {counted.fresh} tokens")
    print(f"not complete:       {len(storm.unanswered)}")
    print("problems: " + ("; ".join(storm.problems(counted)) or "none"))


if __name__ == "__main__":
    main()
