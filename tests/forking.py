"""Start `trilogue` commands by forking a process that has imported it already.

A gateway spends a third of a second of processor time on imports, and the tests start hundreds of gateways. `Forked` is
a real process all the same, with its own arguments, environment, folder and streams, and a child of the test. What
only a new interpreter shows (its imports, its own options) is tested with ordinary processes.

`python -m tests.forking FD` is the process that forks. It gets orders through a socket, and ends with the test run.
"""

from __future__ import annotations

import atexit
import ctypes
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
CAN_FORK = sys.platform == "linux"
"""whether a process can adopt the children of its children"""

_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
_MOST_BYTES = 1 << 20
_PRELOADED = ("trilogue.app.cli.app", "trilogue.app.cli.serve", "trilogue.base.cipher", "uvloop")
_adopting = threading.Lock()


class Forked:
    """A running command, with the part of `subprocess.Popen` that tests use.

    `arguments`: those behind `trilogue`. `streams`: what it has as 0, 1 and 2. It leads a
    session, so that `os.killpg` ends its workers as well.
    """

    def __init__(
        self, arguments: Sequence[str], environ: Mapping[str, str], streams: Sequence[int], folder: str = ""
    ) -> None:
        self.pid = _forker()(
            {"arguments": arguments, "environ": dict(environ), "folder": folder or os.getcwd()}, streams
        )
        self.stdout: IO[str] | None = None
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return how it ended, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return its exit code; if a signal ended it, the negative number."""
        if self.poll() is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                ended = select.poll()
                ended.register(descriptor, select.POLLIN)
                ended.poll(None if timeout is None else 1000 * timeout)
            finally:
                os.close(descriptor)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(["trilogue"], timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


Process = subprocess.Popen[str] | Forked


def start(command: Sequence[str], environ: Mapping[str, str], log: IO[Any]) -> Process:
    """Start a command with a pipe as its standard output, and `log` as its standard error.

    It is an ordinary process where forking does not work, and where the interpreter itself is told something.
    """
    if not _forks_alike(command, environ):
        return subprocess.Popen(
            command, env=environ, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    reading, writing = os.pipe()
    with open(os.devnull) as nothing:
        forked = Forked(command[3:], environ, (nothing.fileno(), writing, log.fileno()))
    os.close(writing)
    forked.stdout = os.fdopen(reading)
    return forked


def run(
    command: Sequence[str], *, environ: Mapping[str, str] | None = None, stdin: bytes = b"", folder: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, in this folder or else the current one, and return what it printed."""
    environ = os.environ if environ is None else environ
    if not _forks_alike(command, environ):
        return subprocess.run(
            command, cwd=folder, env=environ, input=stdin, capture_output=True, timeout=60, check=False
        )
    with TemporaryFile() as given, TemporaryFile() as printed, TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        streams = [file.fileno() for file in (given, printed, errors)]
        code = Forked(command[3:], environ, streams, str(folder or "")).wait(60)
        printed.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, code, printed.read(), errors.read())


def run_text(
    command: Sequence[str], *, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and return what it printed as text."""
    done = run(command, environ=environ, folder=folder)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def _forks_alike(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    # Commands that change modules before they are imported need an interpreter that has imported nothing yet.
    if not CAN_FORK or list(command[:3]) != [sys.executable, "-m", "trilogue"]:
        return False
    names = {name for name in {**os.environ, **environ} if name.startswith("PYTHON")}
    return all(environ.get(name) == os.environ.get(name) for name in names)


@cache
def _forker() -> Callable[[dict[str, Any], Sequence[int]], int]:
    """Start the process that forks. The function that is returned gives it an order, and returns the child's id."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.forking", str(theirs.fileno())]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(command, cwd=ROOT, env=environ, pass_fds=[theirs.fileno()])
    theirs.close()
    prctl = ctypes.CDLL(None).prctl

    def order(told: dict[str, Any], streams: Sequence[int]) -> int:
        with _adopting:
            prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
            try:
                socket.send_fds(ours, [json.dumps(told).encode()], streams)
                return int(ours.recv(_MOST_BYTES))
            finally:
                # Other orphans, such as the workers of a gateway that was killed, are not ours to wait for.
                prctl(_ADOPT_ORPHANS, 0, 0, 0, 0)

    def stop() -> None:
        ours.close()
        process.wait()

    atexit.register(stop)
    return order


def _next_order(orders: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for every order. Return in the new process only, with its order and streams."""
    while True:
        data, streams, _, _ = socket.recv_fds(orders, _MOST_BYTES, 3)
        if not data:
            sys.exit()
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child == 0:
                for descriptor in (reading, writing, orders.detach()):
                    os.close(descriptor)
                return json.loads(data), streams
            os.write(writing, str(child).encode())
            os._exit(0)
        # Once the process in between has ended, its child has been adopted: it is a child of the test.
        os.waitpid(between, 0)
        orders.send(os.read(reading, _MOST_BYTES))
        for descriptor in (reading, writing, *streams):
            os.close(descriptor)


def _run(order: dict[str, Any], streams: list[int]) -> None:
    """Become the command."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environ"])
    sys.stdin, sys.stdout, sys.stderr = _text(0), _text(1), _text(2)
    sys.path[0] = order["folder"]
    sys.argv = ["-m", *order["arguments"]]
    runpy.run_module("trilogue", run_name="__main__", alter_sys=True)


def _text(number: int) -> io.TextIOWrapper:
    """Return a standard stream as Python sets it up at its start."""
    raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    buffered = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
    errors = "backslashreplace" if number == 2 else "strict"
    at_once = bool(os.environ.get("PYTHONUNBUFFERED")) and number > 0
    by_line = number == 2 or os.isatty(number)
    return io.TextIOWrapper(buffered, "utf-8", errors, line_buffering=by_line, write_through=at_once)


def main() -> None:
    """Import what most commands need, then fork for every order."""
    orders = socket.socket(fileno=int(sys.argv[1]))
    for module in _PRELOADED:
        import_module(module)
    _run(*_next_order(orders))


if __name__ == "__main__":
    main()
