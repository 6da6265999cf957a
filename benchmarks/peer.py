"""What the other gateways have in common: how they are installed, started and asked.

Pass the same folder (such as `.bench/`) to `prepare`, which installs into it, and to `start`, which runs from it. The
upstream must run before `start`, which waits until a plain chat request has come back from it.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.traffic import MODELS
from trilogue.model import Protocol

READY_MODEL = MODELS[0]
READY_WITHIN = 300.0  # LiteLLM takes 15 to 30 s on a small machine, and once took 117 s
STOP_WITHIN = 5.0


@dataclass(frozen=True)
class Route:
    """How a client asks for one pair.

    `{model}` and `{upstream}` are replaced by the model and the upstream's base URL.
    """

    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    model: str = "{model}"

    def headers_for(self, upstream: str) -> dict[str, str]:
        """Return the headers to send with this upstream."""
        return {name: value.format(upstream=upstream) for name, value in self.headers.items()}

    def model_for(self, model: str) -> str:
        """Return the model name to request so that the upstream gets this one."""
        return self.model.format(model=model)


@dataclass(frozen=True)
class Started:
    """A running gateway, which is the leader of its own process group."""

    port: int
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End the whole process group, first with SIGTERM."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sign)
                self.process.wait(STOP_WITHIN)
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue


@dataclass(frozen=True)
class Peer:
    """A gateway to compare with."""

    name: str
    version: Callable[[], str]
    prepare: Callable[[Path], str | None]
    start: Callable[[Path, str], Started]
    routes: Mapping[tuple[Protocol, Protocol], Route]


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment with PATH alone: proxies, keys and other settings could change the figures."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8", **more}


def launch(
    command: Sequence[str], folder: Path, port: int, ready: Callable[[int], bool], env: dict[str, str]
) -> Started:
    """Start a program in its own process group and wait until `ready` returns True. Its output goes to output.log."""
    log = folder / "output.log"
    begun = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    while not ready(port):
        waited = time.monotonic() - begun
        if process.poll() is not None or waited > READY_WITHIN:
            Started(port, process).stop()
            why = (
                "ended" if process.returncode and waited <= READY_WITHIN else f"did not answer in {READY_WITHIN:.0f} s"
            )
            raise RuntimeError(f"{command[0]} {why}; its last words: {log.read_text('utf-8', 'replace')[-2000:]}")
        time.sleep(0.01)
    return Started(port, process)


def responds(route: Route, upstream: str) -> Callable[[int], bool]:
    """Return a check that a plain chat request comes back from the upstream."""
    body = json.dumps({"model": route.model_for(READY_MODEL), "messages": [{"role": "user", "content": "Hello"}]})
    headers = {"content-type": "application/json", **route.headers_for(upstream)}

    def ask(port: int) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("POST", route.path, body, headers)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return ask


def fresh(folder: Path, name: str) -> Path:
    """Return an empty folder for one run."""
    run = folder.resolve() / name
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    return run
