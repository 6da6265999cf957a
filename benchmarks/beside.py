"""The other gateways, as this run needs them: prepared once, started on their core, ended with the rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.gateways import Gateway, NotStarted, Pair, Route, Running, plain_headers
from benchmarks.install import environment_python
from benchmarks.interpreter import Interpreter
from benchmarks.litellm import home as litellm_home
from benchmarks.peer import Peer
from benchmarks.peers import peers
from benchmarks.plan import Progress
from benchmarks.processes import Processes, on_cores
from benchmarks.startup import import_seconds
from benchmarks.where import CACHE

IMPORT_LITELLM = "import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'; import litellm"
"""otherwise it fetches a list of prices from the network"""


def others(names: Sequence[str], interpreter: Interpreter, progress: Progress) -> tuple[list[Gateway], list[str]]:
    """Those of these names that can be had here, and why the others cannot."""
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
    """With its routes and its start in our terms. The upstream's address is known when it is started, not before."""
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
    """CPU time of importing the library, where there is one."""
    found = {"trilogue": import_seconds(repeat, python=interpreter.program) * 1e3}
    beside = environment_python(litellm_home(CACHE, interpreter))
    if with_litellm and beside.exists():
        few = max(1, repeat // 3)
        found["LiteLLM"] = import_seconds(few, IMPORT_LITELLM, str(beside)) * 1e3
    return found
