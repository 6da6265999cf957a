"""A provider with several protocols, at one address or several, is asked in the one that takes the request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.pairs import PATHS
from tests.gateway.running import Gateway, running
from tests.scripted.ask import body
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

CONFIG = """\
keys: [env:TRILOGUE_KEY]
providers:
  openai:
    protocol: openai_responses
    also_speaks: [openai_chat_completions]
    base_url: UPSTREAM/v1
    accounts: [{key: env:UP_KEY}]
  apart:
    protocol: chat
    base_url: UPSTREAM/v1
    base_urls: {messages: UPSTREAM}
    accounts: [{key: env:UP_KEY}]
"""
NEW, OLD = "gpt-5.4", "gpt-4.1"


@pytest.fixture(scope="module")
def both(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose only provider speaks Responses and Chat."""
    _upstream.aliases |= {NEW: "text", OLD: "text"}
    with running(tmp_path_factory.mktemp("both"), CONFIG, _upstream.url) as gateway:
        yield gateway


def ask(gateway: Gateway, client: Protocol, model: str, **settings: Any) -> Any:
    asked = body(client, f"openai/{model}", stream=False, tools=settings.pop("tools", False)) | settings
    return gateway.http.post(PATHS[client], json=asked)


@pytest.mark.parametrize(
    ("client", "model", "settings", "path"),
    [
        # A Chat request that the model takes in Chat is passed through.
        (Protocol.CHAT, NEW, {}, "/v1/chat/completions"),
        (Protocol.CHAT, NEW, {"tools": True}, "/v1/chat/completions"),
        (Protocol.CHAT, NEW, {"reasoning_effort": "high"}, "/v1/chat/completions"),
        (Protocol.CHAT, OLD, {"tools": True, "temperature": 0.2}, "/v1/chat/completions"),
        # Tools with reasoning: only Responses takes both.
        (Protocol.CHAT, NEW, {"tools": True, "reasoning_effort": "high"}, "/v1/responses"),
        (Protocol.RESPONSES, NEW, {"tools": True, "reasoning": {"effort": "high"}}, "/v1/responses"),
        # Of a Messages request the one that loses less; of equal ones the first.
        (Protocol.MESSAGES, NEW, {"tools": True}, "/v1/responses"),
        (Protocol.MESSAGES, OLD, {"stop_sequences": ["END"], "thinking": {"type": "disabled"}}, "/v1/chat/completions"),
    ],
)
def test_the_protocol_that_takes_the_request(
    both: Gateway, up: ScriptedUpstream, client: Protocol, model: str, settings: dict[str, Any], path: str
) -> None:
    """Exactness decides, then cost: a request that is passed through loses nothing and costs least."""
    response = ask(both, client, model, **settings)
    assert response.status_code == 200, response.text
    assert [request.path for request in up.requests] == [path]
    used = Protocol.CHAT if path.endswith("completions") else Protocol.RESPONSES
    assert both.record(response.headers["x-request-id"])["upstream"] == used.short


def test_what_only_the_own_protocol_can_say_stays_there(both: Gateway, up: ScriptedUpstream) -> None:
    """Several choices exist in Chat alone: the request goes there without reasoning, and that is declared."""
    response = ask(both, Protocol.CHAT, NEW, tools=True, reasoning_effort="high", n=2)
    sent = up.last()
    assert sent.path == "/v1/chat/completions"
    assert (sent.json["n"], sent.json["reasoning_effort"]) == (2, "none")
    assert "thinking.dropped_tools" in response.headers["trilogue-loss"]


@pytest.mark.parametrize(
    ("client", "path", "header"),
    [
        (Protocol.CHAT, "/v1/chat/completions", "authorization"),
        (Protocol.MESSAGES, "/v1/messages", "x-api-key"),
        (Protocol.RESPONSES, "/v1/chat/completions", "authorization"),
    ],
)
def test_each_protocol_at_its_own_address(
    both: Gateway, up: ScriptedUpstream, client: Protocol, path: str, header: str
) -> None:
    """The client's own if there is one, with the header that carries keys there and no other."""
    response = both.http.post(PATHS[client], json=body(client, "apart/text", stream=False))
    assert response.status_code == 200, response.text
    sent = up.last()
    assert sent.path == path
    assert [name for name in ("authorization", "x-api-key") if sent.header(name)] == [header]
