"""Numbered requests to gateways that are restarted or killed meanwhile, and what must be true afterwards.

Each request has a number, which the upstream reports as its input tokens, together with one output token. So the sums
of the usage ledger say how many requests were counted, and which.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http.client import responses as reasons
from typing import Any
from urllib.parse import urlsplit

from tests.gateway.running import CLIENT_KEY
from tests.timing import pause_for, turns
from trilogue.gateway.features.usage.ledger.live_file import Counts

REQUEST_SECONDS = 60.0
"""A request that has no end by then hangs."""
CONFIG = """\
server: {drain_seconds: 20}
keys: [{key: env:TRILOGUE_KEY, name: load}]
providers:
  up: {protocol: openai_chat_completions, base_url: UPSTREAM/v1, models: [m], accounts: [{key: upstream-key-canary}],
       prices: {m: {input: 1, output: 2}}}
"""
_NUMBER = re.compile(rb"number (\d+)")
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_STATUS = re.compile(rb"HTTP/1\.1 (\d+)")
_ID = re.compile(rb'"id": ?"(resp_[^"]+)"')
_ENDS = (b"data: [DONE]", b'"type":"response.completed"')

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class CountingUpstream:
    """A Chat upstream that counts what it has sent. `delay`: seconds before each response."""

    def __init__(self, delay: float = 0.0) -> None:
        self.served: Counter[int] = Counter()
        self.delay = delay
        self.url = ""
        self._connections: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[CountingUpstream]:
        """Listen on a free port until the block ends."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for writer in list(self._connections):
                writer.transport.abort()
            # The loop closes their sockets, and their tasks end.
            await turns(5)

    @property
    def requests(self) -> int:
        """How many responses it has sent."""
        return self.served.total()

    @property
    def tokens(self) -> int:
        """The input tokens of all of them."""
        return sum(number * count for number, count in self.served.items())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                number = int(_NUMBER.findall(body)[-1])
                if self.delay:
                    await pause_for(self.delay)
                writer.write(_response(number, b'"stream":true' in body.replace(b" ", b"")))
                await writer.drain()
                self.served[number] += 1
        self._connections.discard(writer)
        writer.close()


def _response(number: int, streamed: bool) -> bytes:
    usage = {"prompt_tokens": number, "completion_tokens": 1, "total_tokens": number + 1}
    text = f"said {number}"
    if streamed:
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        said = {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]}
        ended = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        parts = [json.dumps(one) for one in (said, ended, {**chunk, "choices": [], "usage": usage})]
        body, kind = "".join(f"data: {part}\n\n" for part in (*parts, "[DONE]")), "text/event-stream"
    else:
        message = {"role": "assistant", "content": text}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
        body, kind = json.dumps(whole), "application/json"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return (head + body).encode()


@dataclass
class Load:
    """What became of requests, by number. `stored`: the ids of responses that clients were told are stored."""

    answered: set[int] = field(default_factory=set)
    refused: dict[int, str] = field(default_factory=dict)
    """requests that got an error, with its status and code"""
    cut: dict[int, str] = field(default_factory=dict)
    """requests whose connection ended before the response did"""
    hung: set[int] = field(default_factory=set)
    stored: dict[int, str] = field(default_factory=dict)
    previous: dict[int, str] = field(default_factory=dict)
    """the stored response that each client continues, by client"""

    @property
    def sent(self) -> int:
        """How many requests have ended in any way."""
        return len(self.answered) + len(self.refused) + len(self.cut) + len(self.hung)

    def summary(self) -> str:
        """Return the figures in one line."""
        errors = ", ".join(f"{count} x {what}" for what, count in Counter(self.refused.values()).most_common(4))
        return (
            f"{self.sent} requests: {len(self.answered)} complete, {len(self.refused)} told an error"
            f"{f' ({errors})' if errors else ''}, {len(self.cut)} cut, {len(self.hung)} hung; "
            f"{len(self.stored)} responses acknowledged as stored"
        )

    def problems(self, counted: Counts, upstream: CountingUpstream) -> list[str]:
        """Return what is wrong with what was counted.

        Every response that a client got is counted once. One that the upstream has sent and that no client got, because
        the gateway was killed meanwhile, may be counted or not.
        """
        found = []
        unsure = upstream.served - Counter(self.answered)
        if upstream.served.total() - unsure.total() != len(self.answered):
            found.append("clients got responses that the upstream has not sent")
        most, least = upstream.requests, len(self.answered)
        if not least <= counted.output <= most or not sum(self.answered) <= counted.fresh <= upstream.tokens:
            found.append(
                f"{counted.output} requests with {counted.fresh} tokens were counted; clients got {least} with "
                f"{sum(self.answered)}, the upstream has sent {most} with {upstream.tokens}"
            )
        if counted.cost != (counted.fresh + 2 * counted.output) * 1_000_000:
            found.append(f"the counts are of different requests: {counted}")
        return found


def payload(number: int, load: Load, client: int) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request: Chat and Responses, whole and streamed, chained and not, in turn."""
    kind = number % 4
    if kind < 2:
        chat: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": f"number {number}"}]}
        if kind:
            chat |= {"stream": True, "stream_options": {"include_usage": True}}
        return "/v1/chat/completions", chat
    body: dict[str, Any] = {"model": "m", "input": f"number {number}", "stream": kind == 3}
    previous = load.previous.pop(client, None)
    if previous is not None:
        body["previous_response_id"] = previous
    return "/v1/responses", body


async def ask(number: int, connection: Connection, load: Load, client: int) -> None:
    """Send a request and note what becomes of it. Raises OSError or IncompleteReadError if the connection ends."""
    reader, writer = connection
    path, asked = payload(number, load, client)
    body = json.dumps(asked).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {CLIENT_KEY}\r\n"
    writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    status, content, keep = await read_response(reader, lambda data: _note(data, number, load, client, path))
    if status != 200:
        load.refused[number] = f"{status} {_code(content)}"
    elif number not in load.answered:
        if b"error" in content:
            load.refused[number] = "error in the stream"
        else:
            load.cut[number] = "a stream without an end"
    if not keep:
        raise ConnectionResetError


def _note(content: bytes, number: int, load: Load, client: int, path: str) -> None:
    """Note a response that is complete: clients take it for that when they have its last event."""
    whole = number % 2 == 0
    said = b"said %d" % number
    if said in content and (whole or any(end in content for end in _ENDS)):
        load.answered.add(number)
        found = _ID.search(content) if path.endswith("responses") else None
        if found is not None:
            load.stored[number] = load.previous[client] = found[1].decode()


async def read_response(reader: asyncio.StreamReader, on_data: Callable[[bytes], None]) -> tuple[int, bytes, bool]:
    """Return the status, the body, and whether the connection stays. `on_data`: called with what has come so far."""
    head = await reader.readuntil(b"\r\n\r\n")
    found, length = _STATUS.match(head), _LENGTH.search(head)
    status = int(found[1]) if found else 0
    content = b""
    if length:
        content = await reader.readexactly(int(length[1]))
    else:
        while (size := int(await reader.readuntil(b"\r\n"), 16)) > 0:
            content += (await reader.readexactly(size + 2))[:-2]
            if status == 200:
                on_data(content)
        await reader.readexactly(2)
    if status == 200:
        on_data(content)
    return status, content, b"connection: close" not in head.lower()


def _code(content: bytes) -> str:
    try:
        error = json.loads(content)["error"]
        return str(error.get("code") or error.get("type"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return reasons.get(502, "") if b"502" in content else "without a code"


async def client(url: str, numbers: AsyncIterator[int], load: Load, which: int) -> None:
    """Send requests one after the other, until there are no more numbers."""
    address = urlsplit(url)
    connection: Connection | None = None
    async for number in numbers:
        try:
            if connection is None:
                connection = await asyncio.open_connection(address.hostname, address.port)
            async with asyncio.timeout(REQUEST_SECONDS):
                await ask(number, connection, load, which)
        except TimeoutError:
            load.hung.add(number)
            _close(connection)
            connection = None
        except (OSError, asyncio.IncompleteReadError) as error:
            if number not in load.answered and number not in load.refused and number not in load.cut:
                load.cut[number] = type(error).__name__
            _close(connection)
            connection = None
    _close(connection)


def _close(connection: Connection | None) -> None:
    if connection is not None:
        connection[1].close()


class Numbers:
    """Numbers for all clients, until it is stopped. `pause`: seconds between two requests of a client."""

    def __init__(self, first: int = 1, pause: float = 0.0) -> None:
        self._next = first
        self._pause = pause
        self._stopped = False

    def stop(self) -> None:
        """Let every client end after its current request."""
        self._stopped = True

    async def each(self) -> AsyncIterator[int]:
        """Yield numbers that no other client gets."""
        while not self._stopped:
            number, self._next = self._next, self._next + 1
            yield number
            await pause_for(self._pause)


@asynccontextmanager
async def under_load(url: str, load: Load, clients: int = 8, pause: float = 0.0) -> AsyncIterator[Numbers]:
    """Send requests while the block runs, and wait for the last responses."""
    numbers = Numbers(pause=pause)
    tasks = [asyncio.create_task(client(url, numbers.each(), load, which)) for which in range(clients)]
    try:
        yield numbers
    finally:
        numbers.stop()
        await asyncio.gather(*tasks)
        await turns(5)  # the loop closes the sockets of clients


async def unreadable(load: Load, urls: list[str]) -> list[str]:
    """Return the acknowledged responses that cannot be read, each asked for at one of the gateways in turn."""
    lost: list[str] = []

    async def check(url: str, numbers: list[int]) -> None:
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        for number in numbers:
            head = f"GET /v1/responses/{load.stored[number]} HTTP/1.1\r\nhost: localhost\r\n"
            writer.write(f"{head}authorization: Bearer {CLIENT_KEY}\r\n\r\n".encode())
            status, content, _ = await read_response(reader, lambda data: None)
            if status != 200 or b"said %d" % number not in content:
                lost.append(f"{load.stored[number]}: {status}")
        writer.close()

    numbers = sorted(load.stored)
    await asyncio.gather(*(check(url, numbers[place :: len(urls)]) for place, url in enumerate(urls)))
    return lost
