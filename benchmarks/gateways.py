"""The gateways that are measured: how each is started before the scripted upstream, and which pairs it can do."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.answers import MARKER, PATHS, PLAIN_END, STREAM_END, Ask, http_request, question
from benchmarks.interpreter import own_environ
from benchmarks.processes import Processes, free_port
from benchmarks.tools import Load
from trilogue import Protocol

KEY = "bench-key"
PATIENCE = 180.0
"""seconds after which a gateway that does not answer counts as broken"""

TRILOGUE = "trilogue"
NGINX = "nginx"
DIRECT = "direct"


class NotStarted(Exception):
    """A gateway does not answer."""


class Pair(NamedTuple):
    """What the client speaks and what the upstream speaks."""

    client: Protocol
    upstream: Protocol

    @property
    def name(self) -> str:
        """As it is written in tables and on the command line."""
        return f"{self.client.short}>{self.upstream.short}"

    @property
    def translated(self) -> bool:
        """Whether the two differ."""
        return self.client is not self.upstream


PAIRS = tuple(Pair(client, upstream) for client in Protocol for upstream in Protocol)
SAME = tuple(pair for pair in PAIRS if not pair.translated)


@dataclass(frozen=True)
class Route:
    """How a client asks a gateway for a pair."""

    pair: Pair
    path: str
    model: str = "{model}"
    """the model's name, around the one that the upstream reads"""
    headers: Mapping[str, str] = field(default_factory=dict)

    def at(self, upstream: int) -> Route:
        """With the address of the upstream, which some gateways are told with every request."""
        base = f"http://127.0.0.1:{upstream}"
        return replace(self, headers={name: value.format(upstream=base) for name, value in self.headers.items()})

    def request(self, ask: Ask, body: Mapping[str, object] | None = None) -> bytes:
        """The bytes of a request for this answer, with this body or a short question."""
        named = {"model": self.model.format(model=ask.model), "stream": ask.stream}
        return http_request(self.path, self.headers, {**named, **(body or question(self.pair.client))})

    def end(self, ask: Ask) -> str:
        """What a whole answer holds."""
        return (STREAM_END if ask.stream else PLAIN_END)[self.pair.client]

    def load(self, ask: Ask, **how: int) -> Load:
        """This request over and over."""
        return Load(self.request(ask), self.end(ask), MARKER, **how)


class Running(NamedTuple):
    """A gateway at work."""

    process: subprocess.Popen[bytes]
    port: int


Start = Callable[[Processes, frozenset[int], int, Path], Running]
"""processes, cores, the upstream's port, a folder for files; it need not answer yet when this returns"""


@dataclass(frozen=True)
class Gateway:
    """One that can be measured."""

    name: str
    version: str
    routes: tuple[Route, ...]
    start: Start

    def route(self, pair: Pair) -> Route:
        """The route of a pair that it can do."""
        return next(route for route in self.routes if route.pair == pair)


def plain_headers(protocol: Protocol) -> dict[str, str]:
    """What a client of this protocol sends."""
    version = {"anthropic-version": "2023-06-01"} if protocol is Protocol.MESSAGES else {}
    return {"authorization": f"Bearer {KEY}", **version}


def ask_once(port: int, request: bytes, end: str, patience: float = PATIENCE) -> bytes:
    """One request; the whole answer, read until its end was seen and the connection is silent or closed."""
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


def first_answer(running: Running, request: bytes, end: str) -> float:
    """Wait until it answers; when that was (`time.perf_counter`)."""
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


def trilogue(python: str = sys.executable, workers: int = 1) -> Gateway:
    """The checkout that this file belongs to, with its usual settings, under this interpreter."""
    routes = tuple(
        Route(pair, PATHS[pair.client], f"{pair.upstream.short}/{{model}}", plain_headers(pair.client))
        for pair in PAIRS
    )

    def start(processes: Processes, cores: frozenset[int], upstream: int, folder: Path) -> Running:
        port = free_port()
        config = folder / "trilogue.yaml"
        config.write_text(trilogue_config(upstream))
        options = ["serve", "--config", str(config), "--port", str(port), "--workers", str(workers), "--quiet"]
        with (folder / "trilogue.log").open("wb") as output:
            command = [python, "-m", "trilogue", *options]
            process = processes.start(command, cores, environ=python_environ(folder), output=output)
        return Running(process, port)

    return Gateway(TRILOGUE, "this checkout", routes, start)


def trilogue_config(upstream: int) -> str:
    """One provider per protocol, all of them the scripted upstream."""
    providers = "".join(
        f"  {protocol.short}: {{protocol: {protocol.value}, base_url: http://127.0.0.1:{upstream}/v1,"
        " accounts: [{key: upstream-key}]}\n"
        for protocol in Protocol
    )
    return f"keys: [{KEY}]\nproviders:\n{providers}"


def python_environ(folder: Path) -> dict[str, str]:
    """Bytecode is kept between starts, as an installer writes it; state goes to this folder."""
    return own_environ(folder.parent / "bytecode", folder)


def direct(upstream: Running) -> Gateway:
    """No gateway at all: what the tools and the kernel need."""
    routes = tuple(Route(pair, PATHS[pair.client], headers=plain_headers(pair.client)) for pair in SAME)
    return Gateway(DIRECT, "", routes, lambda *_: upstream)
