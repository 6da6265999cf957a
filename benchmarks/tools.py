"""The scripted upstream and the load generator as running programs (see native/)."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.build import Tools
from benchmarks.processes import Cores, Processes, pipes


class ToolFailed(Exception):
    """The load generator or the upstream has ended, usually because the gateway has."""


@dataclass(frozen=True)
class Times:
    """Percentiles in µs; None if nothing was counted."""

    count: int = 0
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    max: float | None = None


class Report(NamedTuple):
    """What the load generator has seen since its last report."""

    good: int
    failed: int
    events: int
    bytes: int
    open: int
    us: int
    work_us: int
    """CPU time without polling"""
    first: Times
    whole: Times


class Load(NamedTuple):
    """What the load generator has to do."""

    request: bytes
    end: str
    marker: str
    connections: int = 16
    rate: float = 0
    spread_ms: int = 0


@dataclass
class Toolkit:
    """The programs, their cores, and the folder for their files."""

    tools: Tools
    processes: Processes
    cores: Cores
    folder: Path

    @property
    def waiting(self) -> str:
        """Return how the tools wait.

        On their own cores they poll. Waking them up would be charged to the gateway that writes to them, and only to
        one that is slow enough to find them asleep. On shared cores they sleep: polling would take the gateway's time.
        """
        return "spin" if self.cores.separate else "sleep"

    def upstream(self, responses: Path) -> Upstream:
        """Start an upstream that responds from this folder."""
        command = [str(self.tools.upstream), str(responses), self.waiting]
        process = self.processes.start(command, self.cores.tools, talk=True)
        line = pipes(process)[1].readline()
        if not line.strip().isdigit():
            raise ToolFailed("the scripted upstream did not start")
        return Upstream(process, int(line))

    def client(self, port: int, load: Load) -> Client:
        """Start a load generator."""
        file = self.folder / "request"
        file.write_bytes(load.request)
        options = [port, file, load.connections, load.rate, load.spread_ms, load.marker, load.end, self.waiting]
        command = [str(self.tools.client), *map(str, options)]
        client = Client(self.processes, self.processes.start(command, self.cores.tools, talk=True))
        client.report()  # it has read its file, so the next one can have the same name
        return client


class Upstream(NamedTuple):
    """The running upstream, which is kept for the whole run."""

    process: subprocess.Popen[bytes]
    port: int

    def work_us(self) -> int:
        """Return its CPU time since the last call, without polling."""
        work: int = reply_of(self.process, "the scripted upstream ended")["work_us"]
        return work


class Client:
    """A running load generator. Leaving the context ends it."""

    def __init__(self, processes: Processes, process: subprocess.Popen[bytes]) -> None:
        self.processes = processes
        self.process = process

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.processes.stop(self.process)

    def report(self) -> Report:
        """Return what happened since the last report."""
        return as_report(reply_of(self.process, "the load generator ended: does the gateway still run?"))


def reply_of(process: subprocess.Popen[bytes], otherwise: str) -> dict[str, Any]:
    """Return the reply of a tool to a command. Raises ToolFailed if it has ended."""
    to_it, from_it = pipes(process)
    try:
        to_it.write(b"\n")
        to_it.flush()
        line = from_it.readline()
    except BrokenPipeError:
        line = b""
    if not line:
        raise ToolFailed(otherwise)
    found: dict[str, Any] = json.loads(line)
    return found


def as_report(said: dict[str, Any]) -> Report:
    """Parse a report of the load generator."""
    return Report(**{**said, "first": Times(**said["first"]), "whole": Times(**said["whole"])})
