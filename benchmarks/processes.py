"""Starting programs on chosen cores, ending them whatever happens, and reading what they use (Linux: /proc)."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

PROC = Path("/proc")
PATIENCE = 5.0
"""seconds that a program gets to end by itself"""
KTHREADD = 2
"""the parent of all threads of the kernel"""
AWAKE = "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
"""keeps a core busy, and gives way to everything"""


class Cores(NamedTuple):
    """Who runs where: the gateway has its core for itself if there are two."""

    gateway: frozenset[int]
    tools: frozenset[int]

    @property
    def apart(self) -> bool:
        """Whether gateway and tools cannot take time from each other."""
        return not self.gateway & self.tools


def split_cores(available: Sequence[int] | None = None) -> Cores:
    """The last core for the gateway, the others for the tools."""
    cores = sorted(os.sched_getaffinity(0)) if available is None else sorted(available)
    return Cores(frozenset(cores[-1:]), frozenset(cores[:-1] or cores))


@contextmanager
def on_cores(cores: frozenset[int]) -> Iterator[None]:
    """What is started in here inherits these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Processes:
    """All programs of a run; leaving the context ends those that are left, with their children."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        for process in list(self.running):
            self.stop(process)

    def start(
        self,
        command: Sequence[str],
        cores: frozenset[int],
        *,
        environ: Mapping[str, str] | None = None,
        output: IO[bytes] | int = subprocess.DEVNULL,
        talk: bool = False,
    ) -> subprocess.Popen[bytes]:
        """A program in a process group of its own; `talk` connects its standard input and output with us.

        Others have a session of their own too, as the gateways beside ours have: Linux may share time between sessions
        first, and tools that do not sleep would take it from a gateway in theirs, and could not yield to each other if
        each had its own.
        """
        with on_cores(cores):
            process = subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.PIPE if talk else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talk else output,
                stderr=None if talk else output,
                process_group=0 if talk else None,
                start_new_session=not talk,
            )
        self.running.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Ask, then force; the whole group, so that no worker is left behind."""
        self.running.remove(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        kill_group(process, signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            kill_group(process, signal.SIGKILL)
            process.wait()


def pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    """Standard input and output of a program that was started to talk with."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("started without pipes")
    return process.stdin, process.stdout


def kill_group(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    """A signal to a program and its children; none if they are gone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, how)


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The name in brackets may hold anything, also brackets and spaces.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children[int(fields[1])].append(int(entry.name))
    found = [pid]
    for one in found:
        found += children[one]
    return found


@contextmanager
def undisturbed(processes: Processes, pids: Sequence[int], cores: frozenset[int]) -> Iterator[None]:
    """These processes go before all others, on cores that do not sleep.

    The core of a virtual machine that has gone to sleep may take tens of milliseconds to come back, and the machine's
    own services take it for some at a time, the kernel's without giving way to anyone. That is the machine's delay, not
    a gateway's. Where this is not allowed, it is left as it is.
    """
    if not set_policy(pids, os.SCHED_RR, 1):
        yield
        return
    awake = processes.start([sys.executable, "-c", AWAKE], cores)
    try:
        with kept_off(kernel_threads(), cores):
            yield
    finally:
        processes.stop(awake)
        set_policy(pids, os.SCHED_OTHER, 0)


@contextmanager
def kept_off(threads: Sequence[int], cores: frozenset[int]) -> Iterator[None]:
    """These threads run elsewhere meanwhile, if they may run elsewhere and can be moved."""
    before: dict[int, set[int]] = {}
    for thread in threads:
        with suppress(OSError):
            allowed = os.sched_getaffinity(thread)
            if allowed & cores and allowed - cores:
                os.sched_setaffinity(thread, allowed - cores)
                before[thread] = allowed
    try:
        yield
    finally:
        for thread, allowed in before.items():
            with suppress(OSError):
                os.sched_setaffinity(thread, allowed)


def kernel_threads() -> list[int]:
    """Of this machine, as far as they can be seen."""
    return [pid for pid in tree(KTHREADD) if pid != KTHREADD] if _name(KTHREADD) == "kthreadd" else []


def _name(pid: int) -> str:
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def set_policy(pids: Sequence[int], policy: int, priority: int) -> bool:
    """How the threads of these processes are scheduled from now on; whether that was allowed for any."""
    changed = False
    for pid in pids:
        with suppress(OSError):
            for task in (PROC / str(pid) / "task").iterdir():
                os.sched_setscheduler(int(task.name), policy, os.sched_param(priority))
                changed = True
    return changed


class Usage(NamedTuple):
    """Of all threads that some processes have now, in µs: on a core (user and system), and ready but not on one."""

    cpu: float = 0.0
    waited: float = 0.0

    def since(self, before: Usage) -> Usage:
        """The difference."""
        return Usage(self.cpu - before.cpu, self.waited - before.waited)


def usage(pids: Sequence[int]) -> Usage:
    """So far."""
    cpu = waited = 0
    for pid in pids:
        with suppress(OSError):
            for task in (PROC / str(pid) / "task").iterdir():
                with suppress(OSError):
                    fields = (task / "schedstat").read_text().split()
                    cpu, waited = cpu + int(fields[0]), waited + int(fields[1])
    return Usage(cpu / 1e3, waited / 1e3)


def stolen_us() -> float:
    """What the host has taken of this machine's cores so far, in µs, in steps of a clock tick (mostly 10 ms)."""
    fields = (PROC / "stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) * 1e6 / os.sysconf("SC_CLK_TCK")


def rss_kib(pid: int) -> int:
    """Resident memory of a process and all below it."""
    total = 0
    for one in tree(pid):
        with suppress(OSError):
            for line in (PROC / str(one) / "status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1])
    return total


def raise_file_limit(wanted: int) -> int:
    """Let this process and what it starts open this many files, or as many as allowed; how many that are."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < wanted:
        with suppress(ValueError, OSError):  # only root may raise the hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
            return wanted
    allowed = min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as finder:
        finder.bind(("127.0.0.1", 0))
        port: int = finder.getsockname()[1]
        return port
