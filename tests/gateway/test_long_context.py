"""Names that end with `[1m]`, which Claude Code's users write for the context window of a million tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.gateway.pairs import PATHS
from tests.gateway.running import Gateway, running
from tests.scripted.ask import body
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

CONFIG = """\
keys: [{key: env:TRILOGUE_KEY, models: [sonnet, llama]}]
providers:
  chat: {protocol: openai_chat_completions, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]}
  messages: {protocol: anthropic_messages, base_url: UPSTREAM, vendor: none, accounts: [{key: env:UP_KEY}]}
aliases: {sonnet: messages/claude-sonnet-4-5, llama: chat/text}
"""
BETA = "context-1m-2025-08-07"


@pytest.fixture(scope="module")
def gateway(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("long-context"), CONFIG, _upstream.url) as started:
        yield started


@pytest.mark.parametrize("client", [Protocol.CHAT, Protocol.MESSAGES], ids=lambda one: one.short)
def test_the_name_leads_where_it_does_without(gateway: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """Claude gets the beta, among those of the client; no other model does."""
    up.aliases["claude-sonnet-4-5"] = "text"
    betas = {"anthropic-beta": "one-2026-01-01"} if client is Protocol.MESSAGES else {}
    asked = body(client, "sonnet[1m]", stream=False, tools=False)
    response = gateway.http.post(PATHS[client], json=asked, headers=betas)
    assert response.status_code == 200, response.text
    assert up.last().json["model"] == "claude-sonnet-4-5"
    assert (up.last().header("anthropic-beta") or "").split(",") == [*betas.values(), BETA]
    response = gateway.http.post(PATHS[client], json=asked | {"model": "llama[1m]"}, headers=betas)
    assert response.status_code == 200, response.text
    assert up.last().json["model"] == "text"
    assert up.last().header("anthropic-beta") is None


def test_a_server_without_the_beta_is_asked_without(gateway: Gateway, up: ScriptedUpstream) -> None:
    """It says so once."""
    up.aliases["claude-sonnet-4-5"] = "text"
    words = f"Unexpected value(s) `{BETA}` for the `anthropic-beta` header."
    data = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": words}})
    head = f"HTTP/1.1 400 No\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    up.say(f"{head}{data}".encode())
    asked = body(Protocol.MESSAGES, "sonnet[1m]", stream=False, tools=False)
    for _ in range(2):
        response = gateway.http.post(PATHS[Protocol.MESSAGES], json=asked)
        assert response.status_code == 200, response.text
    assert [request.header("anthropic-beta") for request in up.requests] == [BETA, None, None]


def test_no_rule_is_got_around_by_it(gateway: Gateway, up: ScriptedUpstream) -> None:
    """A key that may not use a model may not use it with the suffix either."""
    asked = body(Protocol.CHAT, "chat/other[1m]", stream=False, tools=False)
    response = gateway.http.post(PATHS[Protocol.CHAT], json=asked)
    assert response.status_code == 403
    assert "chat/other" in response.text
    assert "[1m]" not in response.text
    assert not up.requests
