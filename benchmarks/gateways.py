"""The gateways that are measured: how each is started in front of the scripted upstream, and which pairs it
supports."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.interpreter import own_environ
from benchmarks.processes import Processes, free_port
from benchmarks.tools import Load
from benchmarks.traffic import MARKER, PATHS, PLAIN_END, STREAM_END, Script, http_request, question
from trilogue import Protocol

KEY = "bench-key"
PATIENCE = 180.0
"""seconds after which a gateway that does not respond counts as broken"""

TRILOGUE = "trilogue"
NGINX = "nginx"
DIRECT = "direct"


class NotStarted(Exception):
    """A gateway did not start or does not respond."""


class Pair(NamedTuple):
    """The client's protocol and the upstream's protocol."""

    client: Protocol
    upstream: Protocol

    @property
    def name(self) -> str:
        """Return the name of the pair as in tables and on the command line."""
        return f"{self.client.short}>{self.upstream.short}"

    @property
    def translated(self) -> bool:
        """Return whether the two protocols differ."""
        return self.client is not self.upstream


PAIRS = tuple(Pair(client, upstream) for client in Protocol for upstream in Protocol)
SAME = tuple(pair for pair in PAIRS if not pair.translated)


@dataclass(frozen=True)
class Route:
    """How a client asks a gateway for a pair."""

    pair: Pair
    path: str
    model: str = "{model}"
    """the model's name as a template around the name for the upstream"""
    headers: Mapping[str, str] = field(default_factory=dict)

    def at(self, upstream: int) -> Route:
        """Return the route with the upstream's address filled in. Some gateways get it with every request."""
        base = f"http://127.0.0.1:{upstream}"
        return replace(self, headers={name: value.format(upstream=base) for name, value in self.headers.items()})

    def request(self, script: Script, body: Mapping[str, object] | None = None) -> bytes:
        """Return the bytes of a request for this response, with the given body or a short question."""
        named = {"model": self.model.format(model=script.model), "stream": script.stream}
        return http_request(self.path, self.headers, {**named, **(body or question(self.pair.client))})

    def end(self, script: Script) -> str:
        """Return the text by which a complete response is recognized."""
        return (STREAM_END if script.stream else PLAIN_END)[self.pair.client]

    def load(self, script: Script, **how: int) -> Load:
        """Return the load that sends this request again and again."""
        return Load(self.request(script), self.end(script), MARKER, **how)


class Running(NamedTuple):
    """A running gateway."""

    process: subprocess.Popen[bytes]
    port: int


Start = Callable[[Processes, frozenset[int], int, Path], Running]
"""arguments: processes, cores, the upstream's port, a folder for files; the gateway may not respond yet on return"""


@dataclass(frozen=True)
class Gateway:
    """A gateway that can be measured."""

    name: str
    version: str
    routes: tuple[Route, ...]
    start: Start

    def route(self, pair: Pair) -> Route:
        """Return the route of a pair that it supports."""
        return next(route for route in self.routes if route.pair == pair)


def plain_headers(protocol: Protocol) -> dict[str, str]:
    """Return the headers that a client of this protocol sends."""
    version = {"anthropic-version": "2023-06-01"} if protocol is Protocol.MESSAGES else {}
    return {"authorization": f"Bearer {KEY}", **version}


def ask_once(port: int, request: bytes, end: str, patience: float = PATIENCE) -> bytes:
    """Send one request and return the response, read until its end marker and until the connection is silent or
    closed."""
    with socket.create_connection(("127.0.0.1", port), patience) as connection:
        connection.sendall(request)
        answer = b""
        while end.encode() not in answer:
            data = connection.recv(1 << 16)
            if not data:
                raise NotStarted(f"answer without {end!r}: {answer[:500]!r}")
            answer += data
        if not answer.split(b" ", 2)[1:2] == [b"200"]:
            raise NotStarted(f"refused: {answer[:500]!r}")
        return answer


def first_response(running: Running, request: bytes, end: str) -> float:
    """Wait until the gateway responds, and return the time of the response (`time.perf_counter`). Raises NotStarted."""
    give_up = time.perf_counter() + PATIENCE
    problem: Exception = NotStarted("no answer")
    while running.process.poll() is None and time.perf_counter() < give_up:
        try:
            ask_once(running.port, request, end)
            return time.perf_counter()
        except (OSError, NotStarted) as error:
            problem = error
        time.sleep(0.002)
    raise NotStarted(f"it ended with {running.process.returncode}" if running.process.returncode else str(problem))


def trilogue(python: str = sys.executable, workers: int = 1, settings: str = "") -> Gateway:
    """Return Trilogue from this checkout under this interpreter. `settings`: added to its usual configuration."""
    routes = tuple(
        Route(pair, PATHS[pair.client], f"{pair.upstream.short}/{{model}}", plain_headers(pair.client))
        for pair in PAIRS
    )

    def start(processes: Processes, cores: frozenset[int], upstream: int, folder: Path) -> Running:
        port = free_port()
        config = folder / "trilogue.yaml"
        config.write_text(trilogue_config(upstream) + settings)
        options = ["serve", "--config", str(config), "--port", str(port), "--workers", str(workers), "--quiet"]
        with (folder / "trilogue.log").open("wb") as output:
            command = [python, "-m", "trilogue", *options]
            process = processes.start(command, cores, environ=python_environ(folder), output=output)
        return Running(process, port)

    return Gateway(TRILOGUE, "this checkout", routes, start)


def trilogue_config(upstream: int) -> str:
    """Return a configuration with one provider per protocol, each of them the scripted upstream."""
    providers = "".join(
        f"  {protocol.short}: {{protocol: {protocol.value}, base_url: http://127.0.0.1:{upstream}/v1,"
        " accounts: [{key: upstream-key}]}\n"
        for protocol in Protocol
    )
    return f"keys: [{KEY}]\nproviders:\n{providers}"


def python_environ(folder: Path) -> dict[str, str]:
    """Return an environment that keeps bytecode between starts, as after an installation, and state in this folder."""
    return own_environ(folder.parent / "bytecode", folder)


def direct(upstream: Running) -> Gateway:
    """Return the direct connection to the upstream, which shows what the tools and the kernel need."""
    routes = tuple(Route(pair, PATHS[pair.client], headers=plain_headers(pair.client)) for pair in SAME)
    return Gateway(DIRECT, "", routes, lambda *_: upstream)
