"""The other gateways, prepared for a run: installed once, started on the gateway's core, ended with the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.gateways import Gateway, NotStarted, Pair, Route, Running, plain_headers
from benchmarks.install import environment_python
from benchmarks.interpreter import Interpreter
from benchmarks.litellm import home as litellm_home
from benchmarks.paths import CACHE
from benchmarks.peer import Peer
from benchmarks.peers import peers
from benchmarks.plan import Progress
from benchmarks.processes import Processes, on_cores
from benchmarks.startup import import_seconds

IMPORT_LITELLM = "import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'; import litellm"
"""keeps LiteLLM from downloading a list of prices"""


def prepare(names: Sequence[str], interpreter: Interpreter, progress: Progress) -> tuple[list[Gateway], list[str]]:
    """Prepare the gateways of these names. Returns those that are available, and why the others are not."""
    found, notes = [], []
    for peer in peers(interpreter):
        if peer.name not in names:
            continue
        progress.say(f"preparing {peer.name}")
        CACHE.mkdir(exist_ok=True)
        problem = peer.prepare(CACHE)
        if problem is None:
            found.append(as_gateway(peer))
        else:
            notes.append(f"{peer.name} was left out: {problem}")
            progress.say(notes[-1])
    return found, notes


def as_gateway(peer: Peer) -> Gateway:
    """Convert a peer to a gateway of the benchmark, with all its routes.

    It learns the upstream's address when it starts.
    """
    routes = tuple(
        Route(Pair(client, upstream), route.path, route.model, {**plain_headers(client), **route.headers})
        for (client, upstream), route in peer.routes.items()
    )

    def start(processes: Processes, cores: frozenset[int], upstream: int, _: Path) -> Running:
        try:
            with on_cores(cores):
                started = peer.start(CACHE, f"http://127.0.0.1:{upstream}")
        except (RuntimeError, OSError) as problem:
            raise NotStarted(str(problem)) from problem
        processes.running.append(started.process)
        return Running(started.process, started.port)

    return Gateway(peer.name, peer.version(), routes, start)


def import_ms(repeat: int, interpreter: Interpreter, with_litellm: bool) -> dict[str, float]:
    """Return the CPU time of importing the library, in ms, for gateways that are also libraries."""
    found = {"trilogue": import_seconds(repeat, python=interpreter.program) * 1e3}
    python = environment_python(litellm_home(CACHE, interpreter))
    if with_litellm and python.exists():
        few = max(1, repeat // 3)
        found["LiteLLM"] = import_seconds(few, IMPORT_LITELLM, str(python)) * 1e3
    return found
