"""The scripted upstream and the load generator, as started programs (see native/)."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.build import Tools
from benchmarks.processes import Cores, Processes, pipes


class ToolFailed(Exception):
    """The load generator or the upstream has ended, as a rule because the gateway is gone."""


@dataclass(frozen=True)
class Times:
    """Percentiles in µs; none if nothing was counted."""

    count: int = 0
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    max: float | None = None


class Report(NamedTuple):
    """What the load generator saw since its last report."""

    good: int
    failed: int
    events: int
    bytes: int
    open: int
    us: int
    work_us: int
    """CPU time, without that of waiting"""
    first: Times
    whole: Times


class Load(NamedTuple):
    """What the load generator shall do."""

    request: bytes
    end: str
    marker: str
    connections: int = 16
    rate: float = 0
    spread_ms: int = 0


@dataclass
class Kit:
    """The programs, where they run, and the folder for their files."""

    tools: Tools
    processes: Processes
    cores: Cores
    folder: Path

    @property
    def waiting(self) -> str:
        """How the tools wait. On cores of their own they spin: waking them would be charged to the gateway that writes
        to them, and only to one that is slow enough to find them asleep. Elsewhere they would take the gateway's time.
        """
        return "spin" if self.cores.apart else "sleep"

    def upstream(self, answers: Path) -> Upstream:
        """Start an upstream that answers from this folder."""
        command = [str(self.tools.upstream), str(answers), self.waiting]
        process = self.processes.start(command, self.cores.tools, talk=True)
        line = pipes(process)[1].readline()
        if not line.strip().isdigit():
            raise ToolFailed("the scripted upstream did not start")
        return Upstream(process, int(line))

    def client(self, port: int, load: Load) -> Client:
        """Start sending."""
        file = self.folder / "request"
        file.write_bytes(load.request)
        options = [port, file, load.connections, load.rate, load.spread_ms, load.marker, load.end, self.waiting]
        command = [str(self.tools.client), *map(str, options)]
        client = Client(self.processes, self.processes.start(command, self.cores.tools, talk=True))
        client.report()  # it has read its file, so the next one may have the same name
        return client


class Upstream(NamedTuple):
    """It runs as long as the run."""

    process: subprocess.Popen[bytes]
    port: int

    def work_us(self) -> int:
        """CPU time since it was last asked, without that of waiting."""
        work: int = said_by(self.process, "the scripted upstream ended")["work_us"]
        return work


class Client:
    """A load generator at work; leaving the context ends it."""

    def __init__(self, processes: Processes, process: subprocess.Popen[bytes]) -> None:
        self.processes = processes
        self.process = process

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.processes.stop(self.process)

    def report(self) -> Report:
        """What happened since the last report."""
        return as_report(said_by(self.process, "the load generator ended: does the gateway still run?"))


def said_by(process: subprocess.Popen[bytes], otherwise: str) -> dict[str, Any]:
    """What a tool says when it is asked; it has ended if it says nothing."""
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
    """A line of the load generator."""
    return Report(**{**said, "first": Times(**said["first"]), "whole": Times(**said["whole"])})
