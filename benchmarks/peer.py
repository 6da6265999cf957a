"""What the gateways that Trilogue is measured beside have in common: how one is started and asked.

Give `prepare` and `start` the same folder (such as `.bench/`): `prepare` installs into it and `start` finds it there.
The upstream has to run before `start`, which waits for a plain chat request to come back from it.
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

from benchmarks.answers import MODELS
from trilogue.model import Protocol

READY_MODEL = MODELS[0]
READY_WITHIN = 300.0  # LiteLLM takes 15 to 30 s on a small machine, and once took 117 s
STOP_WITHIN = 5.0


@dataclass(frozen=True)
class Route:
    """How a client asks for one pair. `{model}` stands for the model, `{upstream}` for the upstream's base URL."""

    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    model: str = "{model}"

    def headers_for(self, upstream: str) -> dict[str, str]:
        """The headers to send when this is the upstream."""
        return {name: value.format(upstream=upstream) for name, value in self.headers.items()}

    def model_for(self, model: str) -> str:
        """The name to ask for when the upstream is to see this one."""
        return self.model.format(model=model)


@dataclass(frozen=True)
class Started:
    """A running gateway, the leader of a process group of its own."""

    port: int
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End the whole group, gently first."""
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
    """One gateway to measure beside."""

    name: str
    version: Callable[[], str]
    prepare: Callable[[Path], str | None]
    start: Callable[[Path, str], Started]
    routes: Mapping[tuple[Protocol, Protocol], Route]


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """Nothing of the caller's but PATH: no egress proxies, no keys, no settings that would change a figure."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8", **more}


def launch(
    command: Sequence[str], folder: Path, port: int, ready: Callable[[int], bool], env: dict[str, str]
) -> Started:
    """Start it in a process group of its own and wait until `ready`; its output goes to output.log."""
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


def answers(route: Route, upstream: str) -> Callable[[int], bool]:
    """Whether a plain chat request comes back from the upstream."""
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
    """An empty folder for one run."""
    run = folder.resolve() / name
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    return run
