"""Claude Code and Codex as they are installed, each in a home of its own, with a gateway as its only server.

They are found on the PATH. `npm install --prefix FOLDER @anthropic-ai/claude-code @openai/codex` and
`PATH=FOLDER/node_modules/.bin:$PATH` is enough.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CLAUDE = "claude"
CODEX = "codex"
CLAUDE_MISSING = "Claude Code is not installed"
CODEX_MISSING = "Codex is not installed"
MOST_SECONDS = 300.0
_FOREIGN = ("ANTHROPIC", "CLAUDE", "CODEX", "OPENAI", "TRILOGUE")
"""variables of whoever runs the tests, which would lead a client elsewhere"""


def find(name: str) -> str:
    """Return the path of a client, or "" if it is not installed."""
    return shutil.which(name) or ""


needs_claude = pytest.mark.skipif(not find(CLAUDE), reason=CLAUDE_MISSING)
needs_codex = pytest.mark.skipif(not find(CODEX), reason=CODEX_MISSING)


@dataclass(frozen=True)
class Finished:
    """How a run of a client ended. `words`: the last thing that the agent said."""

    code: int
    words: str
    session: str
    printed: str
    seconds: float


@dataclass
class Client:
    """Base: a client with a home. `limit`: tokens of context after which it compacts, 0 for its own limit."""

    url: str
    key: str
    home: Path
    limit: int = 0
    session: str = ""
    """the session that the next run goes on with; "" for a new one"""
    more: dict[str, str] = field(default_factory=dict)
    """further environment variables"""

    def version(self) -> str:
        """Return what the client says about itself."""
        self.home.mkdir(exist_ok=True)
        done = self._start([self.program(), "--version"], self.home)
        return done.stdout.decode().strip()

    def run(self, folder: Path, prompt: str, model: str, *options: str) -> Finished:
        """Run the client in a folder until it has no more calls."""
        self.home.mkdir(exist_ok=True)
        self.prepare(model)
        began = time.monotonic()
        try:
            done = self._start(self.command(prompt, model, options), folder)
            code, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as stopped:
            code, out, err = -1, stopped.stdout or b"", b"it did not end in time"
        lines = [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]
        words, session = self.read(lines)
        self.session = session or self.session
        printed = out.decode()[-3000:] + err.decode()[-1000:]
        return Finished(code, words, self.session, printed, time.monotonic() - began)

    def _start(self, command: list[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        environ = {**own, "HOME": str(self.home), "NO_PROXY": "127.0.0.1,localhost", **self.variables(), **self.more}
        return subprocess.run(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=MOST_SECONDS,
            check=False,
        )

    def program(self) -> str:
        """Return the path of the program."""
        raise NotImplementedError

    def prepare(self, model: str) -> None:
        """Write the client's own configuration."""

    def variables(self) -> Mapping[str, str]:
        """Return the environment variables that make the client use the gateway."""
        raise NotImplementedError

    def command(self, prompt: str, model: str, options: tuple[str, ...]) -> list[str]:
        """Return the command line of a run."""
        raise NotImplementedError

    def read(self, lines: list[dict[str, Any]]) -> tuple[str, str]:
        """Return the last words and the session from the JSON lines that the client printed."""
        raise NotImplementedError


class ClaudeCode(Client):
    """Claude Code. It may use all its tools, or those of `--allowedTools` if the options have that."""

    def program(self) -> str:
        return find(CLAUDE)

    def variables(self) -> Mapping[str, str]:
        found = {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_AUTH_TOKEN": self.key,
            "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            # Without it, root may not skip the questions.
            "IS_SANDBOX": "1",
        }
        if self.limit:
            window = max(self.limit, 100_000)
            found["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(window)
            found["CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"] = str(100 * self.limit // window)
        return found

    def command(self, prompt: str, model: str, options: tuple[str, ...]) -> list[str]:
        command = [self.program(), "-p", prompt, "--model", model, "--output-format", "stream-json", "--verbose"]
        if self.session:
            command += ["--resume", self.session]
        self.more["ANTHROPIC_DEFAULT_HAIKU_MODEL"] = model
        return [*command, *(options or ("--dangerously-skip-permissions",))]

    def read(self, lines: list[dict[str, Any]]) -> tuple[str, str]:
        results = [line for line in lines if line.get("type") == "result"]
        if not results:
            return "", ""
        return str(results[-1].get("result", "")), str(results[-1].get("session_id", ""))


@dataclass
class Codex(Client):
    """Codex with a provider of its own. One whose name is OpenAI compacts at the server, others by a prompt."""

    provider: str = "Trilogue"

    def program(self) -> str:
        return find(CODEX)

    def prepare(self, model: str) -> None:
        folder = self.home / ".codex"
        folder.mkdir(exist_ok=True)
        lines = [
            f'model = "{model}"',
            'model_provider = "trilogue"',
            'sandbox_mode = "danger-full-access"',
            'approval_policy = "never"',
            *([f"model_auto_compact_token_limit = {self.limit}"] if self.limit else []),
            "[model_providers.trilogue]",
            f'name = "{self.provider}"',
            f'base_url = "{self.url}/v1"',
            'wire_api = "responses"',
            'env_key = "CLIENT_KEY"',
        ]
        (folder / "config.toml").write_text("\n".join(lines) + "\n")

    def variables(self) -> Mapping[str, str]:
        return {"CODEX_HOME": str(self.home / ".codex"), "CLIENT_KEY": self.key}

    def command(self, prompt: str, model: str, options: tuple[str, ...]) -> list[str]:
        more = ["resume", self.session] if self.session else []
        return [self.program(), "exec", "--json", "--skip-git-repo-check", *options, *more, prompt]

    def read(self, lines: list[dict[str, Any]]) -> tuple[str, str]:
        items = [line["item"] for line in lines if line.get("type") == "item.completed"]
        said = [str(item.get("text", "")) for item in items if item.get("type") == "agent_message"]
        started = [str(line["thread_id"]) for line in lines if line.get("type") == "thread.started"]
        return said[-1] if said else "", started[-1] if started else ""
