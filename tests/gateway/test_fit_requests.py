"""Requests that are passed through: byte for byte as they came, unless a setting asks for a change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.pairs import PATHS
from tests.gateway.running import CLIENT_KEY, Gateway, running
from tests.judges.loss_header import codes
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

CLAUDE = "protocol: anthropic_messages, base_url: UPSTREAM"
CHAT = "protocol: openai_chat_completions, base_url: UPSTREAM/v1"
RESPONSES = "protocol: openai_responses, base_url: UPSTREAM/v1"
PROVIDERS = {
    "plain": f"{CLAUDE}, vendor: anthropic",
    "unmarked": f"{CLAUDE}, profile: {{cache_marks: false}}",
    "still": f"{CLAUDE}, profile: {{reasons: never}}",
    "fitted": f"{CLAUDE}, vendor: anthropic, fit_requests: true",
    "short": f"{CHAT}, profile: {{max_tokens_field: max_tokens, developer_role: false}}",
    "forgetful": f"{RESPONSES}, profile: {{encrypted_reasoning: false, efforts: [low, medium]}}",
}
CONFIG = "\n".join(
    [
        "keys: [env:TRILOGUE_KEY]",
        "providers:",
        *(f"  {name}: {{{settings}, accounts: [{{key: env:UP_KEY}}]}}" for name, settings in PROVIDERS.items()),
    ]
)
MARK = {"type": "ephemeral"}
MESSAGES: dict[str, Any] = {
    "max_tokens": 100_000,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": MARK}],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {**MARK, "ttl": "1h"}}]}],
    "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": MARK, "unheard_of": 1}],
    "thinking": {"type": "adaptive"},
    "temperature": 0.5,
    "of_tomorrow": {"x": 1},
}


@pytest.fixture(scope="module")
def fitting(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with providers of several settings."""
    _upstream.aliases |= {"claude-3-5-haiku-20241022": "text"}
    with running(tmp_path_factory.mktemp("fitting"), CONFIG, _upstream.url) as gateway:
        yield gateway


def ask(gateway: Gateway, client: Protocol, model: str, asked: dict[str, Any]) -> Any:
    data = json.dumps({"model": model, **asked}, separators=(", ", ":"))
    headers = {"authorization": f"Bearer {CLIENT_KEY}", "content-type": "application/json"}
    return gateway.http.post(PATHS[client], content=data, headers=headers)


def test_without_a_setting_nothing_changes(fitting: Gateway, up: ScriptedUpstream) -> None:
    """The client knows its own protocol: not a byte but the model's name is touched."""
    response = ask(fitting, Protocol.MESSAGES, "plain/text", MESSAGES)
    assert response.status_code == 200, response.text
    assert up.last().body == json.dumps({"model": "text", **MESSAGES}, separators=(", ", ":")).encode()
    assert "trilogue-loss" not in response.headers


def test_cache_marks_are_taken_off(fitting: Gateway, up: ScriptedUpstream) -> None:
    """Those of prompts, messages and tools; everything else stays, also what nobody knows."""
    response = ask(fitting, Protocol.MESSAGES, "unmarked/text", MESSAGES)
    assert response.status_code == 200, response.text
    assert "cache.mark" in response.headers["trilogue-loss"]
    sent = up.last().json
    assert "cache_control" not in json.dumps(sent)
    assert sent["of_tomorrow"] == {"x": 1}
    assert sent["tools"][0]["unheard_of"] == 1
    assert sent["thinking"] == {"type": "adaptive"}
    assert sent["temperature"] == 0.5


def test_a_model_that_is_said_not_to_think(fitting: Gateway, up: ScriptedUpstream) -> None:
    """Is not asked to."""
    response = ask(fitting, Protocol.MESSAGES, "still/text", MESSAGES)
    assert "thinking.unavailable" in response.headers["trilogue-loss"]
    assert "thinking" not in up.last().json


def test_the_whole_table(fitting: Gateway, up: ScriptedUpstream) -> None:
    """`fit_requests` makes every rule count: here no thinking, and the output limit of an old model."""
    response = ask(fitting, Protocol.MESSAGES, "fitted/claude-3-5-haiku-20241022", MESSAGES)
    assert response.status_code == 200, response.text
    sent = up.last().json
    assert "thinking" not in sent
    assert sent["max_tokens"] == 8192
    assert {"thinking.unavailable", "max_tokens.lowered"} <= set(codes(response.headers))


def test_names_of_an_older_server(fitting: Gateway, up: ScriptedUpstream) -> None:
    """A Chat server that knows neither the newer name of the output limit nor the developer role."""
    asked = {"messages": [{"role": "developer", "content": "x"}, {"role": "user", "content": "Hi"}]}
    response = ask(fitting, Protocol.CHAT, "short/text", {**asked, "max_completion_tokens": 50, "seed": 1})
    assert response.status_code == 200, response.text
    sent = up.last().json
    assert (sent["max_tokens"], sent["seed"], sent["messages"][0]["role"]) == (50, 1, "system")
    assert "max_completion_tokens" not in sent


def test_responses(fitting: Gateway, up: ScriptedUpstream) -> None:
    """Encrypted reasoning is not asked for, and an effort is clamped."""
    asked = {
        "input": "Hi",
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "xhigh"},
        "store": False,
    }
    response = ask(fitting, Protocol.RESPONSES, "forgetful/text", asked)
    assert response.status_code == 200, response.text
    sent = up.last().json
    assert sent["reasoning"] == {"effort": "medium"}
    assert "include" not in sent
    assert {"param.dropped", "effort.clamped"} <= set(codes(response.headers))


def test_strict_mode_refuses_instead(fitting: Gateway, up: ScriptedUpstream) -> None:
    """A change is a loss, wherever it is made."""
    headers = {"authorization": f"Bearer {CLIENT_KEY}", "trilogue-mode": "strict"}
    response = fitting.http.post(PATHS[Protocol.MESSAGES], json={"model": "still/text", **MESSAGES}, headers=headers)
    assert response.status_code == 400
    assert "thinking.unavailable" in response.json()["error"]["message"]
    assert up.requests == []


def test_counts_of_tokens_are_adjusted_too(fitting: Gateway, up: ScriptedUpstream) -> None:
    """What the model refuses in a request, it refuses there as well."""
    asked = {name: value for name, value in MESSAGES.items() if name not in ("max_tokens", "temperature")}
    response = fitting.http.post(
        "/v1/messages/count_tokens",
        json={"model": "still/text", **asked},
        headers={"authorization": f"Bearer {CLIENT_KEY}"},
    )
    assert response.status_code == 200, response.text
    assert "thinking.unavailable" in response.headers["trilogue-loss"]
    assert not {"thinking", "max_tokens"} & up.last().json.keys()
    assert up.last().json["model"] == "text"
