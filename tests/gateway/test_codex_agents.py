"""A real Codex session with two helpers (multi-agent V2), on upstreams that know nothing of agents."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gateway.pairs import PATHS
from tests.gateway.running import CLIENT_KEY, PROVIDERS, running
from tests.scripted import thread
from tests.scripted.scenario import HELPERS
from trilogue.model import Protocol

CODEX = shutil.which("codex")
# A name for which Codex's catalogue switches multi-agent V2 on.
NAME = "gpt-5.6-sol"
SETTINGS = """\
model = "{name}"
model_provider = "trilogue"
[model_providers.trilogue]
name = "Trilogue"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "TRILOGUE_KEY"
request_max_retries = 0
stream_max_retries = 0
"""


def codex(folder: Path, url: str) -> str:
    """Run Codex until it is done, and return what it prints."""
    assert CODEX is not None
    home = folder / "codex"
    home.mkdir()
    (home / "config.toml").write_text(SETTINGS.format(name=NAME, url=url))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "CODEX"))}
    environ |= {"CODEX_HOME": str(home), "TRILOGUE_KEY": CLIENT_KEY, "NO_PROXY": "127.0.0.1,localhost"}
    command = [CODEX, "exec", "--skip-git-repo-check", "Let two helpers count."]
    done = subprocess.run(
        command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    return done.stdout.decode().strip()


@pytest.mark.slow
@pytest.mark.skipif(CODEX is None, reason="Codex is not installed")
@pytest.mark.parametrize("protocol", Protocol, ids=lambda one: one.short)
def test_two_helpers_finish(tmp_path: Path, protocol: Protocol) -> None:
    """Each helper gets its task as a user's words, and the first agent gets both answers."""
    config = f"{PROVIDERS}aliases: {{{NAME}: {protocol.short}/team}}\n"
    with thread.running() as up, running(tmp_path, config, up.url) as gateway:
        assert codex(tmp_path, gateway.url) == "Both have counted."
        bodies = [json.dumps(request.json) for request in up.requests if request.path == PATHS[protocol]]
    assert len(bodies) == len(up.requests)
    for helper in HELPERS:
        task = f"Payload:\\nCount for {helper}."
        assert len([body for body in bodies if task in body]) == 1
    assert not [body for body in bodies if "agent_message" in body or '"encrypted"' in body]
