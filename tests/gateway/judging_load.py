"""What streams wait that nobody judges, while many others are held by a judge that takes its time.

Three processes: the gateway; one that makes the load, with the upstream and the judge of those streams; and this one,
which has an upstream that writes the time into every event, and clients that compare it with the time at which they get
the event. The same is measured three times in one run: without load, with as many streams whose upstream is as slow as
the judge, and with the judge.

    python -m tests.gateway.judging_load --streams 200 --seconds 10
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.gateway.process import started
from tests.gateway.wire import post
from tests.timing import pause_for

TICK_SECONDS = 0.01
BYSTANDERS = 5
JUDGE_SECONDS = 1.0
PATH = "/v1/chat/completions"
PHASES = {"no other streams": "", "streams of a slow upstream": "plain", "streams held by a judge": "judged"}
"""what is measured, and the key that the load uses"""
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_TIME = re.compile(rb'"content":"(\d+)"')
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\nconnection: close\r\n\r\n"
_CALL = (
    b'data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":'
    b'{"name":"get_weather","arguments":"{\\"city\\": \\"Paris\\"}"}}]}}]}\n\n'
    b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
)
_SCORE = json.dumps(
    {
        "id": "s",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "SCORE: 0.1"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105},
    }
).encode()

CONFIG = """\
server: {keepalive_seconds: 0.5}
keys:
  - {key: key-of-plain, name: plain}
  - {key: key-of-judged, name: judged, policies: [judged]}
providers:
  ticks: {protocol: openai_chat_completions, base_url: TICKS/v1, accounts: [{key: up-key}]}
  load: {protocol: openai_chat_completions, base_url: LOAD/v1, accounts: [{key: up-key}]}
policies:
  judged: {use: judge, model: load/judge, cache: 0, timeout: 30}
admin: {enabled: false}
"""


@dataclass(frozen=True)
class Waits:
    """How long events took through the gateway, in seconds, and how many loading streams came to their end."""

    events: list[float]
    streams: int
    failed: int

    def share(self, part: float) -> float:
        """Return what that part of the events did not exceed."""
        found = sorted(self.events)
        return found[min(len(found) - 1, int(len(found) * part))]


# --- upstreams ---


async def _read_body(reader: asyncio.StreamReader) -> dict[str, Any]:
    head = await reader.readuntil(b"\r\n\r\n")
    found = _LENGTH.search(head)
    body: dict[str, Any] = json.loads(await reader.readexactly(int(found[1]) if found else 0))
    return body


async def _ticks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send an event with the time every hundredth of a second, until the client has enough."""
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        await _read_body(reader)
        writer.write(_HEAD % b"text/event-stream")
        while not writer.is_closing():
            event = {"id": "t", "choices": [{"index": 0, "delta": {"content": str(time.monotonic_ns())}}]}
            writer.write(b"data: %b\n\n" % json.dumps(event, separators=(",", ":")).encode())
            await writer.drain()
            await pause_for(TICK_SECONDS)
    writer.close()


async def _load(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Respond with a call, at once or after a second, or as a judge, which takes a second too."""
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        model = (await _read_body(reader))["model"]
        if model != "quick":
            await pause_for(JUDGE_SECONDS)
        kind = (b"application/json", _SCORE) if model == "judge" else (b"text/event-stream", _CALL)
        writer.write(_HEAD % kind[0] + kind[1])
        await writer.drain()
    writer.close()


async def _serve(handle: Any) -> tuple[asyncio.Server, str]:
    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1000)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


# --- clients ---


def _request(model: str, key: str) -> bytes:
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
    message = {"role": "user", "content": "How is the weather in Paris?"}
    body = {"model": model, "stream": True, "messages": [message], "tools": [tool]}
    return post(PATH, json.dumps(body).encode(), {"connection": "close"}, key=f"key-of-{key}")


async def _stream(url: str, model: str, key: str, until: float) -> tuple[list[float], bytes]:
    """Return how long the events of a stream took, and its last bytes. It is left at this time."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(_request(model, key))
    waits: list[float] = []
    last = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(until - time.monotonic()):
            while piece := await reader.read(65536):
                now = time.monotonic_ns()
                waits += [(now - int(one)) / 1e9 for one in _TIME.findall(piece)]
                last = (last + piece)[-4096:]
    writer.close()
    return waits, last


async def _keep_busy(url: str, key: str, number: int, streams: int, until: float) -> tuple[int, int]:
    """Have one stream after the other, a second each. Return how many were complete, and how many were not."""
    done = failed = 0
    await pause_for(JUDGE_SECONDS * number / streams)
    while time.monotonic() + 3 * JUDGE_SECONDS < until:
        _, last = await _stream(url, f"load/{'quick' if key == 'judged' else 'slow'}", key, until)
        complete = b"Paris" in last and b"[DONE]" in last
        done, failed = done + complete, failed + (not complete)
    return done, failed


async def _load_process() -> None:
    """Serve the load's upstream, and make load as the lines of the standard input say."""
    server, address = await _serve(_load)
    print(address, flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        url, key, streams, seconds = line.split()
        until = time.monotonic() + float(seconds)
        busy = [_keep_busy(url, key, number, int(streams), until) for number in range(int(streams))]
        counts = await asyncio.gather(*busy)
        print(json.dumps([sum(done for done, _ in counts), sum(failed for _, failed in counts)]), flush=True)
    server.close()


# --- the measurement ---


@contextmanager
def _loader() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.gateway.judging_load", "--load"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _say(process: subprocess.Popen[str], line: str) -> None:
    if process.stdin is not None:
        process.stdin.write(f"{line}\n")
        process.stdin.flush()


def _heard(process: subprocess.Popen[str]) -> str:
    return process.stdout.readline() if process.stdout is not None else ""


async def _phase(url: str, loader: subprocess.Popen[str], key: str, streams: int, seconds: float) -> Waits:
    """Measure once. The load begins a second before, and ends after it."""
    if key:
        _say(loader, f"{url} {key} {streams} {seconds + 3 + 2 * JUDGE_SECONDS}")
        await pause_for(2 * JUDGE_SECONDS)
    until = time.monotonic() + seconds
    found = await asyncio.gather(*[_stream(url, "ticks/ticks", "plain", until) for _ in range(BYSTANDERS)])
    done, failed = json.loads(await asyncio.to_thread(_heard, loader)) if key else (0, 0)
    return Waits([wait for waits, _ in found for wait in waits], done, failed)


async def _measure(folder: Path, streams: int, seconds: float, phases: Mapping[str, str]) -> dict[str, Waits]:
    server, ticks = await _serve(_ticks)
    with _loader() as loader:
        load = (await asyncio.to_thread(_heard, loader)).strip()
        config = CONFIG.replace("TICKS", ticks).replace("LOAD", load)
        with started(folder, config) as gateway:
            found = {name: await _phase(gateway.url, loader, key, streams, seconds) for name, key in phases.items()}
    server.close()
    return found


def measure(folder: Path, streams: int, seconds: float, phases: Mapping[str, str] = PHASES) -> dict[str, Waits]:
    """Return what unjudged streams waited, by phase."""
    return asyncio.run(_measure(folder, streams, seconds, phases))


def main() -> None:
    """Measure, and print a table in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--load", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.load:
        asyncio.run(_load_process())
        return
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), given.streams, given.seconds)
    print(f"{'':28} {'events':>7} {'50 %':>7} {'95 %':>7} {'99 %':>7} {'99.9 %':>7} {'most':>7}  other streams")
    for name, waits in found.items():
        shares = [f"{1000 * waits.share(part):7.2f}" for part in (0.5, 0.95, 0.99, 0.999, 1.0)]
        print(f"{name:28} {len(waits.events):7} {' '.join(shares)}  {waits.streams} complete, {waits.failed} not")


if __name__ == "__main__":
    main()
