"""Keys that change while the gateway runs: a file that is replaced, and a command that prints a token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.gateway.process import Started, started, until
from tests.gateway.running import CLIENT_KEY
from tests.scripted import thread
from tests.scripted.ask import PATHS, body
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

CONFIG = """\
keys: [env:TRILOGUE_KEY]
providers:
  file: {protocol: messages, base_url: UPSTREAM, accounts: ["file:key"]}
  command: {protocol: chat, base_url: UPSTREAM, accounts: ["cmd:sh print-key"]}
  spare: {protocol: chat, base_url: UPSTREAM, accounts: [{key: "cmd:sh print-key"}, {key: env:UP_KEY, priority: 2}]}
"""
PATCH = "import trilogue.upstreams.live_keys as live\nlive.RETRY_SECONDS = 0.0"
"""A command may be run again at once."""
SCRIPT = "echo x >>runs; echo canary-on-stderr >&2; cat token || { echo canary-on-stdout; exit 3; }\n"
NOTICED = '"event":"an account has a new key"'
FIRST, SECOND, THIRD = "fake-token-canary-1", "fake-token-canary-2", "fake-token-canary-3"


@pytest.fixture
def up() -> Iterator[ScriptedUpstream]:
    with thread.running() as upstream:
        yield upstream


def write(path: Path, text: str) -> None:
    """Replace a file as a program that rotates keys does."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def ask(gateway: Started, provider: str, client: Protocol) -> httpx2.Response:
    headers = {"authorization": f"Bearer {CLIENT_KEY}"}
    asked = body(client, f"{provider}/text", stream=False)
    return httpx2.post(f"{gateway.url}{PATHS[client]}", json=asked, headers=headers, timeout=20)


def test_rotation(tmp_path: Path, up: ScriptedUpstream) -> None:
    """No restart and no lost request, whether the old key still works when the new one is there or not."""
    write(tmp_path / "key", FIRST)
    write(tmp_path / "token", FIRST)
    (tmp_path / "print-key").write_text(SCRIPT)
    runs = tmp_path / "runs"
    with started(tmp_path, CONFIG, up.url, patch=PATCH) as gateway:
        assert not runs.exists()
        up.keys = {FIRST}
        assert ask(gateway, "file", Protocol.MESSAGES).status_code == 200
        assert up.last().header("x-api-key") == FIRST
        for client in Protocol:
            assert ask(gateway, "command", client).status_code == 200
        assert up.last().header("authorization") == f"Bearer {FIRST}"
        assert runs.read_text() == "x\n"

        # The upstream refuses the old keys before anyone has looked at the new ones.
        up.keys = {SECOND}
        write(tmp_path / "key", SECOND)
        write(tmp_path / "token", SECOND)
        up.requests.clear()
        assert ask(gateway, "command", Protocol.CHAT).status_code == 200
        assert [sent.header("authorization") for sent in up.requests] == [f"Bearer {FIRST}", f"Bearer {SECOND}"]
        assert ask(gateway, "file", Protocol.MESSAGES).status_code == 200
        assert up.last().header("x-api-key") == SECOND

        # A refused key disables the account until the file changes.
        up.keys = {THIRD}
        assert ask(gateway, "file", Protocol.MESSAGES).status_code == 503
        seen = gateway.log.count(NOTICED)
        write(tmp_path / "key", THIRD)
        until(lambda: gateway.log.count(NOTICED) > seen)
        assert ask(gateway, "file", Protocol.MESSAGES).status_code == 200

        # Without a key from the command, other accounts are used, and nothing that it printed is shown.
        (tmp_path / "token").unlink()
        up.keys = {THIRD, "up-key"}
        assert ask(gateway, "spare", Protocol.CHAT).status_code == 200
        assert up.last().header("authorization") == "Bearer up-key"
        gateway.wait_for_log("the command sh ended with exit code 3")
        assert "canary" not in gateway.log
