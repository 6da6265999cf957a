"""Several real gateways, each with a state folder and a port of its own, that share PostgreSQL and Redis."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.cluster.redis import new_prefix
from tests.gateway.process import Started, started
from tests.machines.nginx import balancer, free_port

STOP_SECONDS = 60.0


class Node:
    """One gateway. It can be stopped, killed and started again, with the same folder and port."""

    def __init__(self, folder: Path, config: str, upstream: str, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.port = free_port()
        self.config = config
        self._upstream = upstream
        self.environ = dict(environ)
        self._running: ExitStack | None = None
        self._process: Started | None = None
        self.past_logs = ""
        """the log of earlier runs"""
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def process(self) -> Started:
        assert self._process is not None, "the gateway is not running"
        return self._process

    @property
    def log(self) -> str:
        """What it has logged, in all its runs."""
        return self.past_logs + (self._process.log if self._process is not None else "")

    def start(self) -> None:
        """Start the gateway and wait until it listens."""
        self._running = ExitStack()
        self._process = self._running.enter_context(
            started(self.folder, self.config, self._upstream, options=("--port", str(self.port)), environ=self.environ)
        )

    def stop(self) -> int:
        """Stop the gateway in good order, and return its exit code."""
        self.process.signal(signal.SIGTERM)
        code = self.process.process.wait(STOP_SECONDS)
        self._end()
        return code

    def kill(self) -> None:
        """Kill all processes of the gateway at once."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._end()

    def _end(self) -> None:
        if self._running is not None and self._process is not None:
            self.past_logs += self._process.log
            self._running.close()
        self._running = self._process = None


def shared(postgresql: str, redis: str) -> str:
    """Return the setting that makes gateways one cluster. Each call makes another one."""
    return f"cluster: {{redis: '{redis}', postgresql: '{postgresql}', prefix: {new_prefix()}}}\n"


class Cluster:
    """Gateways behind nginx. `url`: that of nginx."""

    def __init__(self, nodes: list[Node], url: str) -> None:
        self.nodes = nodes
        self.url = url

    @property
    def logs(self) -> str:
        """What all gateways have logged."""
        return "".join(node.log for node in self.nodes)

    def restart_all(self, before: Callable[[Node], None] = lambda node: None) -> None:
        """Restart one gateway after the other. `before`: called with each while it is stopped."""
        for node in self.nodes:
            assert node.stop() == 0
            before(node)
            node.start()


@contextmanager
def cluster(
    folder: Path, count: int, config: str, upstream: str, environ: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """Run gateways with this configuration behind nginx. `config`: NODE stands for the number of the gateway."""
    nodes = [
        Node(folder / f"node{number}", config.replace("NODE", str(number)), upstream, environ or {})
        for number in range(count)
    ]
    try:
        for node in nodes:
            node.start()
        with balancer(folder / "nginx", [node.port for node in nodes]) as url:
            yield Cluster(nodes, url)
    finally:
        for node in nodes:
            node.kill()
