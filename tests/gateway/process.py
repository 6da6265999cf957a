"""The gateway as a process of its own, with short clocks, options, several workers, or constants changed for a test."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.forking import Process, start
from tests.gateway.running import CLIENT_KEY, CONFIG, listening
from tests.scripted.server import KEY as UPSTREAM_KEY
from tests.timing import PATIENCE, eventually
from trilogue.storage.locations import ACCOUNTS_FILE, state_file

SHORT = """\
server:
  keepalive_seconds: 5
  drain_seconds: 2
  timeouts: {connect: 0.5, first_byte: 0.6, first_event: 0.6, between_events: 0.6, total: 2.5}
"""
"""Clocks that a test can wait for. A busy machine misses them: they are for upstreams that hang."""
QUICK = SHORT + CONFIG
PATIENT = re.sub(r"(connect|first_byte|first_event|between_events): [\d.]+", r"\1: 20", QUICK).replace(
    "total: 2.5", "total: 60"
)
"""Clocks that no upstream misses that responds at all."""
SQLITE_LOCKS = 0x40000000
"""the first byte of a file that SQLite locks"""


@dataclass
class Started:
    """A process that listens."""

    url: str
    process: Process
    log_file: Path
    config_file: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The log, parsed: every line of it must be JSON, but for one that is still being written."""
        return [json.loads(line) for line in self.log.splitlines(keepends=True) if line.endswith("\n")]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait_for_log(self, text: str, seconds: float = 30) -> None:
        until(lambda: text in self.log, seconds)

    def rss(self) -> int:
        """Resident bytes of the process."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def children(self) -> list[int]:
        """The workers."""
        found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(pid) for pid in found]


def each_worker(gateway: Started) -> Iterator[int]:
    """Yield each worker while the others are stopped, so that it is the one that responds."""
    workers = gateway.children()
    for worker in workers:
        others = [one for one in workers if one != worker]
        try:
            for one in others:
                until(partial(_stopped_between_writes, one))
            yield worker
        finally:
            for one in others:
                os.kill(one, signal.SIGCONT)


def _stopped_between_writes(pid: int) -> bool:
    """Stop a process, and return True; but let it go on if it is writing a file of SQLite, which others wait for."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: process_state(pid) == "T")
    held = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    if not any(words[-5:-3] == ["WRITE", str(pid)] and int(words[-2]) >= SQLITE_LOCKS for words in held):
        return True
    os.kill(pid, signal.SIGCONT)
    return False


def process_state(pid: int) -> str:
    """Return the state of a process: R (running), S (sleeping), T (stopped), Z (zombie) …, or "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""


Patch = Mapping[str, float] | str
"""Constants of modules, {"guard.HEAD_SECONDS": 0.5}, or code: what is changed before the gateway starts."""


def command(*options: str, patch: Patch = "") -> list[str]:
    """The command line."""
    if not patch:
        return [sys.executable, "-m", "trilogue", "serve", *options]
    lines = ["import trilogue.net.server.connection as guard, trilogue.net.server.request as http, sys"]
    lines += [patch] if isinstance(patch, str) else [f"{name} = {value}" for name, value in patch.items()]
    lines += [f"sys.argv = ['trilogue', 'serve', *{options!r}]", "from trilogue.__main__ import main", "main()"]
    return [sys.executable, "-c", "\n".join(lines)]


def environment(directory: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Keys for the configuration, and a state folder of its own."""
    keys = {"TRILOGUE_KEY": CLIENT_KEY, "UP_KEY": UPSTREAM_KEY, "XDG_STATE_HOME": str(directory)}
    return {**os.environ, **keys, **(more or {})}


def pool_file(directory: Path) -> Path:
    """Return where a gateway that was started in this folder keeps the state of its accounts."""
    return state_file({"XDG_STATE_HOME": str(directory)}, ACCOUNTS_FILE, directory / "trilogue.yaml")


@contextmanager
def started(
    directory: Path,
    config: str,
    upstream: str = "",
    *,
    options: tuple[str, ...] = (),
    patch: Patch = "",
    environ: Mapping[str, str] | None = None,
) -> Iterator[Started]:
    """A gateway with this configuration, in which UPSTREAM stands for an address."""
    file, log_file = directory / "trilogue.yaml", directory / "gateway.log"
    file.write_text(config.replace("UPSTREAM", upstream))
    arguments = command("--config", str(file), "--port", "0", *options, patch=patch)
    with log_file.open("w") as log:
        process = start(arguments, environment(directory, environ), log)
    try:
        yield Started(listening(process, log_file), process, log_file, file)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until something is so."""
    eventually(condition, seconds)
