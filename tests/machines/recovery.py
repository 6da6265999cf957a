"""What faults of PostgreSQL do to gateways, and how soon they recover: `python -m tests.machines.recovery`.

Two gateways get requests without state and requests that store a response, while PostgreSQL has every fault in turn.
After each, every response that was acknowledged must be readable. What faults of Redis do: `tests.cluster.report`.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2

from tests.gateway.process import until
from tests.gateway.running import CLIENT_KEY
from tests.machines.engines import BadLink, NetworkServer, bad_link
from tests.machines.nodes import cluster
from tests.timing import pass_time

DISK_BYTES = 160 * 2**20
BACK_SECONDS = 90.0
GAP_SECONDS = 0.02
CONFIG = """\
keys: [{key: env:TRILOGUE_KEY, name: one}]
providers: {demo: {protocol: openai_responses, base_url: "demo:"}}
"""
Fault = tuple[Callable[[], object], float, Callable[[], object]]
"""what begins a fault, how many seconds it lasts, and what ends it"""


class SmallDisk(NetworkServer):
    """A server whose disk can be filled, if this process may mount a file system."""

    def _prepare(self) -> None:
        self.folder.chmod(0o755)
        owner = self.folder.stat()
        options = f"size={DISK_BYTES},uid={owner.st_uid},gid={owner.st_gid},mode=700"
        self._data.mkdir()
        command = ["/bin/mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self._data)]
        self.has_own_disk = False
        if os.geteuid() == 0:
            self.has_own_disk = subprocess.run(command, capture_output=True, check=False).returncode == 0
        if not self.has_own_disk:
            self._data.rmdir()
        super()._prepare()

    def fill(self) -> None:
        """Leave no room on the disk."""
        with suppress(OSError), (self._data / "filler").open("wb", buffering=0) as file:
            while file.write(bytes(2**16)):
                pass

    def free(self) -> None:
        """Make room, and start the server again if the full disk has ended it, as a service manager does."""
        (self._data / "filler").unlink()
        if self._process is not None and self._process.poll() is not None:
            self._process = None
            self.start()

    def remove(self) -> None:
        """Stop the server, and delete its folder and its disk."""
        self.kill()
        if self.has_own_disk:
            subprocess.run(["/bin/umount", str(self._data)], check=True)
        super().remove()


class Traffic:
    """Requests of one kind, one at a time, for as long as the block runs."""

    def __init__(self, client: httpx2.Client, *, store: bool) -> None:
        self._client = client
        self._store = store
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seconds: list[float] = []
        self.statuses: list[int] = []
        self.stored: list[str] = []

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(BACK_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            response = self._client.post(
                "/v1/responses", json={"model": "demo", "input": "Hello", "store": self._store}
            )
            self.seconds.append(time.monotonic() - began)
            self.statuses.append(response.status_code)
            if response.status_code == 200 and self._store:
                self.stored.append(response.json()["id"])
            pass_time(GAP_SECONDS)

    @property
    def shown(self) -> str:
        """Requests, failures, and how long the slowest took."""
        failed = sum(status != 200 for status in self.statuses)
        return f"{len(self.statuses)} | {failed} | {1_000 * max(self.seconds):,.0f} ms"


def recovery(clients: list[httpx2.Client], fault: Fault) -> str:
    """Return what a fault did, as cells of a table. Raises AssertionError if a response is lost."""
    begin, seconds, end = fault
    with Traffic(clients[0], store=False) as stateless, Traffic(clients[0], store=True) as stateful:
        pass_time(0.5)
        begin()
        pass_time(seconds)
        end()
        ended = time.monotonic()
        done = len(stateful.stored)
        until(lambda: len(stateful.stored) > done, BACK_SECONDS)
        back = time.monotonic() - ended
    lost = [one for one in stateful.stored if clients[1].get(f"/v1/responses/{one}").status_code != 200]
    assert not lost, f"{len(lost)} responses were lost"
    return f"{stateless.shown} | {stateful.shown} | {back:.2f} s"


def faults(server: SmallDisk, link: BadLink) -> dict[str, Fault]:
    """Return all faults by name."""
    found: dict[str, Fault] = {
        "killed, 5 s": (server.kill, 5.0, server.start),
        "killed, 20 s": (server.kill, 20.0, server.start),
        "paused, 10 s": (server.pause, 10.0, server.resume),
        "read-only, 5 s": (lambda: server.set_read_only(True), 5.0, lambda: server.set_read_only(False)),
        "network split, 10 s": (lambda: setattr(link, "cut", True), 10.0, lambda: setattr(link, "cut", False)),
        "slow, 5 s": (lambda: setattr(link, "delay", 0.2), 5.0, lambda: setattr(link, "delay", 0.0)),
    }
    if server.has_own_disk:
        found["full, 5 s"] = (server.fill, 5.0, server.free)
    else:
        print("A full disk is not measured: that needs the right to mount a file system.")
    return found


def main() -> None:
    """Measure, and print a table in Markdown."""
    server = SmallDisk()
    server.options += ["-c", "max_wal_size=64MB", "-c", "wal_recycle=off"]
    server.start()
    try:
        with tempfile.TemporaryDirectory() as folder, bad_link(server.port) as (link, port), ExitStack() as stack:
            url = server.network_url(server.new_database(), port)
            running = stack.enter_context(cluster(Path(folder), 2, f"state: {url}\n{CONFIG}", ""))
            headers = {"authorization": f"Bearer {CLIENT_KEY}"}
            clients = [
                stack.enter_context(httpx2.Client(base_url=node.url, headers=headers, timeout=60))
                for node in running.nodes
            ]
            print("| PostgreSQL was | without state | failed | slowest | with state | failed | slowest | back after |")
            print("|---|---|---|---|---|---|---|---|")
            for name, fault in faults(server, link).items():
                print(f"| {name} | {recovery(clients, fault)} |", flush=True)
    finally:
        server.remove()


if __name__ == "__main__":
    main()
