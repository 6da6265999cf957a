"""Upstreams that cannot be reached, or are not where the configuration says: their accounts show why."""

from __future__ import annotations

import json
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.forking import run_text
from tests.gateway.pooling import ADMIN, Pooled, pooled
from tests.gateway.process import environment, until
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

CONFIG = f"""\
keys: [env:TRILOGUE_KEY]
server: {{timeouts: {{connect: 2}}}}
providers:
  unknown: {{protocol: openai_chat_completions, base_url: "http://no-such-host.invalid/v1"}}
  closed: {{protocol: openai_chat_completions, base_url: "http://127.0.0.1:CLOSED/v1"}}
  plain: {{protocol: openai_chat_completions, base_url: "https://127.0.0.1:PLAIN/v1"}}
  moved:
    protocol: openai_chat_completions
    base_url: UPSTREAM/elsewhere
    accounts: [{{name: moved, key: env:UP_KEY}}]
  unlisted: {{protocol: openai_chat_completions, base_url: "http://127.0.0.1:CLOSED/v1"}}
{ADMIN}
"""
SHOWN: dict[str, tuple[str, int | None, str | None]] = {
    "unknown": ("network", None, "the host name of the upstream cannot be resolved"),
    "closed": ("network", None, "the upstream refused the connection"),
    "plain": ("network", None, "TLS with the upstream failed"),
    "moved": ("not_found", 404, None),
}
"""by provider: the last error, its status, and the beginning of its words"""


class Refusing(socketserver.BaseRequestHandler):
    """A server without TLS, as one that was meant to be reached with http."""

    def handle(self) -> None:
        self.request.recv(10)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@contextmanager
def plain_server() -> Iterator[int]:
    """The port of such a server."""
    with socketserver.TCPServer(("127.0.0.1", 0), Refusing) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            serving.join()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    folder = tmp_path_factory.mktemp("errors")
    with thread.running(ScriptedUpstream()) as up, socket.socket() as closed, plain_server() as plain:
        closed.bind(("127.0.0.1", 0))  # bound, but it does not listen
        text = CONFIG.replace("CLOSED", str(closed.getsockname()[1])).replace("PLAIN", str(plain))
        with pooled(folder, text, up) as running:
            yield running


def account(gateway: Pooled, provider: str) -> dict[str, Any]:
    """The only account of a provider, as the admin interface shows it."""
    return gateway.accounts()[f"{provider}/{provider}"]


@pytest.mark.parametrize("provider", SHOWN)
def test_the_account_shows_the_reason(gateway: Pooled, provider: str) -> None:
    error, status, words = SHOWN[provider]
    answer = gateway.ask(Protocol.MESSAGES, f"{provider}/text")
    assert answer.status in (404, 502)
    if words is not None:
        # The client learns which provider it was, and its operator what to do.
        assert f" (provider {provider}: check " in answer.json["error"]["message"]
    line = account(gateway, provider)
    assert (line["last_error"], line["last_error_status"]) == (error, status)
    assert (line["last_error_text"] or "").startswith(words or "")
    assert bool(line["last_error_text"]) is bool(words)
    assert line["last_error_at"] > 0
    assert line["requests"] >= 1


def test_a_list_of_models_that_cannot_be_read_shows_too(gateway: Pooled) -> None:
    """A model that no route knows makes the gateway ask every upstream for its list."""
    assert gateway.ask(Protocol.CHAT, "a-model-that-only-a-list-could-name").status == 404
    line = account(gateway, "unlisted")
    assert (line["last_error"], line["last_error_text"]) == ("network", "the upstream refused the connection")
    assert (line["state"], line["requests"]) == ("ready", 0)


def test_the_command_shows_the_reason(gateway: Pooled) -> None:
    gateway.ask(Protocol.MESSAGES, "closed/text")
    config = gateway.gateway.config_file
    environ = environment(config.parent, {"ADMIN_KEY": "admin-key-of-no-use"})
    command = [sys.executable, "-m", "trilogue", "accounts", "--config", str(config)]

    def shown(*options: str) -> str:
        done = run_text([*command, *options], environ=environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    until(lambda: "closed/closed " in shown() and "network: the upstream refused the connection, " in shown())
    lines = [json.loads(line) for line in shown("--json").splitlines()]
    found = next(line for line in lines if line["account"] == "closed")
    assert found["last_error_text"] == "the upstream refused the connection"
