"""Start programs on chosen cores, end them in any case, and read what they use (Linux: /proc)."""

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
"""seconds that a program gets to end after SIGTERM"""
KTHREADD = 2
"""parent of all kernel threads"""
AWAKE = "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
"""program that keeps a core busy but yields to everything else"""


class Cores(NamedTuple):
    """The cores of the gateway and of the tools. The gateway has its own core if the machine has two."""

    gateway: frozenset[int]
    tools: frozenset[int]

    @property
    def separate(self) -> bool:
        """Return whether the gateway and the tools cannot take time from each other."""
        return not self.gateway & self.tools


def split_cores(available: Sequence[int] | None = None) -> Cores:
    """Return the last core for the gateway and the others for the tools."""
    cores = sorted(os.sched_getaffinity(0)) if available is None else sorted(available)
    return Cores(frozenset(cores[-1:]), frozenset(cores[:-1] or cores))


@contextmanager
def on_cores(cores: frozenset[int]) -> Iterator[None]:
    """Run everything that is started in this context on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Processes:
    """All programs of a run. Leaving the context ends those that still run, with their children."""

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
        """Start a program in its own process group. `talk` connects us to its standard input and output.

        All programs but the tools also get their own session, as the other gateways do. Linux may divide time between
        sessions first: tools that poll would take it from a gateway in their session, and tools in separate sessions
        could not yield to each other.
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
        """End a program and its whole group, first with SIGTERM, so that no worker is left behind."""
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
    """Return standard input and output of a program that was started with `talk`."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("started without pipes")
    return process.stdin, process.stdout


def kill_group(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    """Send a signal to a program and its children, if they still run."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, how)


def tree(pid: int) -> list[int]:
    """Return a process and all processes below it."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The name in parentheses may contain anything, including parentheses and spaces.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children[int(fields[1])].append(int(entry.name))
    found = [pid]
    for one in found:
        found += children[one]
    return found


@contextmanager
def undisturbed(processes: Processes, pids: Sequence[int], cores: frozenset[int]) -> Iterator[None]:
    """Give these processes priority over all others, on cores that do not sleep.

    A sleeping core of a virtual machine may take tens of milliseconds to wake up, and the machine's own gateway use it
    for a few at a time; kernel threads do so at any priority. Those delays are the machine's, not the gateway's. What
    is not permitted is left unchanged.
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
    """Move these threads to other cores for a while, as far as they can be moved."""
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
    """Return the kernel threads of this machine, as far as they are visible."""
    return [pid for pid in tree(KTHREADD) if pid != KTHREADD] if _name(KTHREADD) == "kthreadd" else []


def _name(pid: int) -> str:
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def set_policy(pids: Sequence[int], policy: int, priority: int) -> bool:
    """Set the scheduling of all threads of these processes, and return whether that was permitted for any."""
    changed = False
    for pid in pids:
        with suppress(OSError):
            for task in (PROC / str(pid) / "task").iterdir():
                os.sched_setscheduler(int(task.name), policy, os.sched_param(priority))
                changed = True
    return changed


class Usage(NamedTuple):
    """CPU time of all current threads of some processes, in µs: running (user and system), and ready but waiting for
    a core."""

    cpu: float = 0.0
    waited: float = 0.0

    def since(self, before: Usage) -> Usage:
        """Return the difference to an earlier reading."""
        return Usage(self.cpu - before.cpu, self.waited - before.waited)


def usage(pids: Sequence[int]) -> Usage:
    """Return the CPU time of these processes so far."""
    cpu = waited = 0
    for pid in pids:
        with suppress(OSError):
            for task in (PROC / str(pid) / "task").iterdir():
                with suppress(OSError):
                    fields = (task / "schedstat").read_text().split()
                    cpu, waited = cpu + int(fields[0]), waited + int(fields[1])
    return Usage(cpu / 1e3, waited / 1e3)


def stolen_us() -> float:
    """Return the time that the host has taken from this machine's cores so far, in µs, in clock ticks of mostly 10
    ms."""
    fields = (PROC / "stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) * 1e6 / os.sysconf("SC_CLK_TCK")


def rss_kib(pid: int) -> int:
    """Return the resident memory of a process and all processes below it."""
    total = 0
    for one in tree(pid):
        with suppress(OSError):
            for line in (PROC / str(one) / "status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1])
    return total


def raise_file_limit(wanted: int) -> int:
    """Allow this process and its children to open this many files, if permitted, and return how many it may open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < wanted:
        with suppress(ValueError, OSError):  # only root may raise the hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
            return wanted
    allowed = min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


def free_port() -> int:
    """Return a port of 127.0.0.1 that is not in use."""
    with socket.socket() as finder:
        finder.bind(("127.0.0.1", 0))
        port: int = finder.getsockname()[1]
        return port
