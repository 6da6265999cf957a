"""A user's configuration and state folder, and the commands and gateways that use them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2

from tests.gateway.running import listening
from tests.scripted.server import KEY as UPSTREAM_KEY
from tests.timing import eventually

ROOT = Path(__file__).resolve().parents[2]
CLOCK = "tests.earlier.clock"
CI_KEY = "ci-key-canary-3b9d51"


@dataclass
class Running:
    """A gateway that runs: clients' interface, administrators' interface, and the process."""

    url: str
    admin_url: str
    admin_key: str
    process: subprocess.Popen[str]

    def ask(self, key: str, path: str, body: Mapping[str, Any] | None = None) -> httpx2.Response:
        """Send a request with a client key; a GET if there is no body."""
        headers = {"authorization": f"Bearer {key}"}
        method = "GET" if body is None else "POST"
        return httpx2.request(method, self.url + path, headers=headers, json=body, timeout=30)

    def administer(self, path: str, body: Mapping[str, Any] | None = None) -> httpx2.Response:
        """Send a request to the admin interface with its key; a GET if there is no body."""
        headers = {"authorization": f"Bearer {self.admin_key}"}
        method = "GET" if body is None else "POST"
        return httpx2.request(method, self.admin_url + path, headers=headers, json=body, timeout=30)

    def browse(
        self, method: str, path: str, cookie: str = "", body: Mapping[str, Any] | None = None
    ) -> httpx2.Response:
        """Send a request as the console does, with the value of a session's cookie."""
        port = self.admin_url.rpartition(":")[2]
        headers = {"origin": self.admin_url, "trilogue-console": "1", "cookie": f"trilogue_session_{port}={cookie}"}
        return httpx2.request(method, self.admin_url + path, headers=headers, json=body, timeout=30)


class Place:
    """A home with a configuration. `shift`: seconds that its commands and gateways add to the clock.

    `file`: the configuration file; without one, it is the one in the user's config folder.
    """

    def __init__(self, home: Path, config: str, file: Path | None = None, shift: float = 0) -> None:
        self.state = home / "state" / "trilogue"
        self.file = file or home / "config" / "trilogue" / "trilogue.yaml"
        self.shift = shift
        self._log = home / "gateway.log"
        self._environ = {
            **os.environ,
            "HOME": str(home),
            "LOGNAME": "ada",
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "PYTHONPATH": str(ROOT),
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(config)

    @property
    def suffix(self) -> str:
        """What the names of this configuration's state files have behind the plain names: see docs/deployment.md."""
        if self.file.parent.parent.name == "config":
            return ""
        return f"-{self.file.stem}-{sha256(os.fsencode(self.file)).hexdigest()[:12]}"

    def command(self, *arguments: str, stdin: str = "", config: bool = True) -> str:
        """Run a command to its end, and return what it printed. It must succeed."""
        more = ["--config", str(self.file)] if config else []
        command = self._command(*arguments, *more)
        done = subprocess.run(
            command, env=self._environ, input=stdin, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        """Run a command that prints JSON, one object per line, and return the objects."""
        return [json.loads(line) for line in self.command(*arguments, "--json").splitlines()]

    @property
    def log(self) -> str:
        """What the gateways have logged."""
        return self._log.read_text()

    @contextmanager
    def gateway(self, end: int = signal.SIGTERM) -> Iterator[Running]:
        """Run a gateway, and end it with this signal."""
        command = self._command("serve", "--config", str(self.file), "--port", "0")
        with self._log.open("w") as log:
            process = subprocess.Popen(command, env=self._environ, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            url = listening(process, self._log)
            port = eventually(self._admin_port)
            key = (self.state / "admin.key").read_text().strip()
            yield Running(url, f"http://127.0.0.1:{port}", key, process)
        finally:
            process.send_signal(end)
            process.wait(30)
            if process.stdout is not None:
                process.stdout.close()

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", CLOCK, str(self.shift), *arguments]

    def _admin_port(self) -> int:
        lines = [json.loads(line) for line in self.log.splitlines(keepends=True) if line.endswith("\n")]
        return next((int(line["port"]) for line in lines if line["event"] == "admin interface"), 0)


CONFIG = f"""\
keys: [{{key: {CI_KEY}, name: ci}}]
admin: {{port: 0}}
providers:
  chat:
    protocol: openai_chat_completions
    base_url: UPSTREAM/v1
    accounts: [{{name: house, key: "store:house"}}]
    prices: {{"*": {{input: 1, output: 2}}}}
  messages:
    protocol: anthropic_messages
    base_url: UPSTREAM
    accounts: [{{name: one, key: {UPSTREAM_KEY}}}, {{name: two, key: {UPSTREAM_KEY}-2}}]
  responses: {{protocol: openai_responses, base_url: UPSTREAM/v1, accounts: [{{name: one, key: {UPSTREAM_KEY}}}]}}
"""
