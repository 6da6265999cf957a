"""What starting costs: `python -m benchmarks.startup`, with `--python PATH` under another interpreter.

Prints the CPU time of imports in addition to a bare interpreter, and the wall time from the start of `trilogue serve`
with a configuration file to its first responses: from `/health`, and to a chat request that is translated for the demo
model.

Bytecode is written in advance, into its own folder, as an installer does. If the environment forbids writing it
(PYTHONDONTWRITEBYTECODE), every start would compile the sources again, which takes longer than everything else.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.interpreter import NoInterpreter, chosen, own_environ
from benchmarks.plan import Progress

REPEAT = 10
PATIENCE = 30.0
"""seconds after which a gateway that does not respond counts as broken"""

CONFIG = """\
server: {log: {level: error}}
providers:
  openai:
    protocol: openai_responses
    base_url: https://api.openai.com
    accounts: [{name: a, key: sk-none}]
  demo: {protocol: openai_responses, base_url: "demo:"}
routes:
  - {match: "demo*", provider: demo}
"""
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
_CHAT = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}).encode()
CHAT = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(_CHAT), _CHAT)
)

ENTRY = "from trilogue.__main__ import main; main()"
"""the code of the installed command `trilogue`"""

IMPORTS = {
    "import trilogue": "import trilogue",
    "all of its names": "from trilogue import *",
    "translate_request": "from trilogue import translate_request",
    "trilogue --help": f"import sys; sys.argv[1:] = ['--help']; {ENTRY}",
    "trilogue serve, modules only": "import trilogue.app.cli.serve",
}


class ColdStart(NamedTuple):
    """Seconds from the start of the process to its responses."""

    health: float
    chat: float


def import_seconds(repeat: int, code: str = "import trilogue", python: str = sys.executable) -> float:
    """Return the CPU seconds (user and system) of `code` in a fresh process beyond a bare start, best of `repeat`."""
    with _bytecode() as environ:
        _cpu(python, code, environ)  # writes the bytecode
        # Take turns, so that both see the same load of the machine.
        times = [(_cpu(python, "pass", environ), _cpu(python, code, environ)) for _ in range(repeat)]
    return min(whole for _, whole in times) - min(bare for bare, _ in times)


def cold_starts(repeat: int, python: str = sys.executable) -> list[ColdStart]:
    """Return the wall seconds from the start of `trilogue serve` to its first responses, once per start."""
    with _bytecode() as environ:
        _cold_start(python, environ)  # writes the bytecode and the state folder
        return [_cold_start(python, environ) for _ in range(repeat)]


@contextmanager
def _bytecode() -> Iterator[dict[str, str]]:
    """Provide an environment that keeps bytecode between starts, and has its own state folder."""
    with tempfile.TemporaryDirectory() as folder:
        yield own_environ(Path(folder, "bytecode"), Path(folder))


def _cpu(python: str, code: str, environ: dict[str, str]) -> float:
    process = subprocess.Popen([python, "-c", code], env=environ, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"failed: {code}")
    return usage.ru_utime + usage.ru_stime


def _cold_start(python: str, environ: dict[str, str]) -> ColdStart:
    file = Path(environ["XDG_STATE_HOME"], "trilogue.yaml")
    file.write_text(CONFIG)
    port = _free_port()
    options = ["serve", "--config", str(file), "--port", str(port), "--quiet"]
    start = time.perf_counter()
    process = subprocess.Popen([python, "-c", ENTRY, *options], env=environ)
    try:
        with _connected(port, process) as connection:
            _ask(connection, HEALTH, b'{"status":"ok"}')
            health = time.perf_counter() - start
            _ask(connection, CHAT, b"chat.completion")
            return ColdStart(health, time.perf_counter() - start)
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as finder:
        finder.bind(("127.0.0.1", 0))
        port: int = finder.getsockname()[1]
        return port


def _connected(port: int, process: subprocess.Popen[bytes]) -> socket.socket:
    """Connect as soon as the gateway listens. Its first response may come later."""
    while process.poll() is None:
        with suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port), PATIENCE)
        time.sleep(0.001)
    raise RuntimeError("the gateway did not start")


def _ask(connection: socket.socket, request: bytes, expected: bytes) -> None:
    """Send a request and wait until this text has come back."""
    connection.sendall(request)
    response = b""
    while expected not in response:
        data = connection.recv(65536)
        if not data:
            raise RuntimeError(f"the gateway responded {response!r}")
        response += data


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(prog="python -m benchmarks.startup", description="What starting Trilogue costs.")
    found.add_argument(
        "--python", metavar="PATH", help="as for python -m benchmarks, whose other options do nothing here"
    )
    return found


def main() -> None:
    """Measure imports and cold starts, and print the results."""
    options, _ = parser().parse_known_args()  # `make bench` passes all of its options
    try:
        python = chosen(options.python, Progress(sys.stderr))
    except NoInterpreter as problem:
        raise SystemExit(f"benchmarks: {problem}") from problem
    print(python.description)
    print(f"imports: CPU ms beyond a bare interpreter, best of {REPEAT} (aim for `import trilogue`: under 80)")
    for name, code in IMPORTS.items():
        print(f"{name:>30} {import_seconds(REPEAT, code, python.program) * 1e3:>8.1f}")
    starts = cold_starts(REPEAT, python.program)
    print(f"\ncold start of `trilogue serve`: wall ms, {REPEAT} starts (aim for the translated response: under 600)")
    print(f"{'':>30} {'best':>8} {'median':>8}")
    for name, times in (
        ("/health", [start.health for start in starts]),
        ("translated response", [start.chat for start in starts]),
    ):
        print(f"{name:>30} {min(times) * 1e3:>8.0f} {statistics.median(times) * 1e3:>8.0f}")


if __name__ == "__main__":
    main()
