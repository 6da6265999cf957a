"""`repair_history`: tool calls without results get one, in pass-through too where models are known to need it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.pairs import EVERY_CLIENT, EVERY_PAIR, PATHS, Pair
from tests.gateway.running import PROVIDERS, Gateway, running
from tests.scripted.server import ScriptedUpstream
from trilogue.lint import lint_request
from trilogue.model import Protocol

CONFIG = PROVIDERS + "repair_history: true\n"
AUTO = f"""{PROVIDERS}\
  openai-chat: {{protocol: openai_chat_completions, base_url: UPSTREAM/v1, accounts: [{{key: env:UP_KEY}}]}}
  anthropic-messages: {{protocol: anthropic_messages, base_url: UPSTREAM, accounts: [{{key: env:UP_KEY}}]}}
  openai-responses: {{protocol: openai_responses, base_url: UPSTREAM/v1, accounts: [{{key: env:UP_KEY}}]}}
"""
KNOWN = {
    Protocol.CHAT: "openai-chat",
    Protocol.MESSAGES: "anthropic-messages",
    Protocol.RESPONSES: "openai-responses",
}
"""providers whose vendors are known to refuse broken histories"""
BROKEN: dict[Protocol, dict[str, Any]] = {
    Protocol.CHAT: {
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "user", "content": "Go on"},
        ]
    },
    Protocol.MESSAGES: {
        "max_tokens": 100,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]},
            {"role": "user", "content": "Go on"},
        ],
    },
    Protocol.RESPONSES: {
        "input": [
            {"role": "user", "content": "Hi"},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"role": "user", "content": "Go on"},
        ]
    },
}
RESULTS = {
    Protocol.CHAT: lambda sent: [one for one in sent["messages"] if one["role"] == "tool"],
    Protocol.MESSAGES: lambda sent: [
        block
        for one in sent["messages"]
        if isinstance(one["content"], list)
        for block in one["content"]
        if block["type"] == "tool_result"
    ],
    Protocol.RESPONSES: lambda sent: [one for one in sent["input"] if one.get("type") == "function_call_output"],
}


@pytest.fixture(scope="module")
def mending(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that mends histories."""
    with running(tmp_path_factory.mktemp("mending"), CONFIG, _upstream.url) as gateway:
        yield gateway


@EVERY_CLIENT
def test_a_call_without_result_gets_one(mending: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """Messages to Messages is the case that clients meet: they cut old turns, and Anthropic answers 400."""
    response = mending.http.post(PATHS[client], json={"model": f"{client.short}/text", **BROKEN[client]})
    assert response.status_code == 200, response.text
    assert "tool_result.synthetic" in response.headers["trilogue-loss"]
    sent = up.last().json
    assert len(RESULTS[client](sent)) == 1
    assert sent["model"] == "text"
    assert lint_request(client, sent) == []


@EVERY_CLIENT
def test_a_sound_history_is_passed_through_untouched(mending: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """Byte for byte: only what is broken is written anew."""
    whole = dict(BROKEN[client])
    field = "input" if client is Protocol.RESPONSES else "messages"
    whole[field] = [whole[field][0]]
    data = str({"model": "text", **whole, "of_tomorrow": 1}).replace("'", '"').replace("None", "null")
    response = mending.http.post(
        PATHS[client],
        content=data.replace('"text"', f'"{client.short}/text"', 1),
        headers={"content-type": "application/json"},
    )
    assert response.status_code == 200, response.text
    assert up.last().body.decode() == data
    assert "trilogue-loss" not in response.headers


@pytest.fixture(scope="module")
def usual(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway without the setting."""
    with running(tmp_path_factory.mktemp("usual"), AUTO, _upstream.url) as gateway:
        yield gateway


def post(gateway: Gateway, client: Protocol, model: str, asked: dict[str, Any], mode: str = "") -> Any:
    headers = {"trilogue-mode": mode} if mode else {}
    return gateway.http.post(PATHS[client], json={"model": model, **asked}, headers=headers)


@EVERY_PAIR
def test_translated_requests_are_repaired_by_default(usual: Gateway, up: ScriptedUpstream, pair: Pair) -> None:
    """The error result is next to its call, as every vendor requires. A provider's own protocol is left alone."""
    response = post(usual, pair.client, f"{pair.upstream.short}/text", BROKEN[pair.client])
    assert response.status_code == 200, response.text
    sent, losses = up.last().json, response.headers.get("trilogue-loss", "")
    if pair.client is pair.upstream:
        assert (sent, losses) == ({"model": "text", **BROKEN[pair.client]}, "")
        return
    assert "tool_result.synthetic" in losses
    assert len(RESULTS[pair.upstream](sent)) == 1
    assert "history was truncated" in json.dumps(sent)
    assert lint_request(pair.upstream, sent) == []


@EVERY_CLIENT
def test_vendors_that_refuse_get_a_whole_history(usual: Gateway, up: ScriptedUpstream, client: Protocol) -> None:
    """Bytes of a sound history stay; strict mode refuses the repair before anything is sent."""
    model = f"{KNOWN[client]}/text"
    response = post(usual, client, model, BROKEN[client])
    assert response.status_code == 200, response.text
    assert "tool_result.synthetic" in response.headers["trilogue-loss"]
    repaired = up.last().json
    assert len(RESULTS[client](repaired)) == 1
    sound = json.dumps({**repaired, "model": model}, indent=1)
    up.requests.clear()
    response = usual.http.post(PATHS[client], content=sound, headers={"content-type": "application/json"})
    assert up.last().body.decode() == sound.replace(model, "text")
    assert "trilogue-loss" not in response.headers
    up.requests.clear()
    assert post(usual, client, model, BROKEN[client], "strict").status_code == 400
    assert not up.requests


def test_results_of_a_stored_response_stay(usual: Gateway, mending: Gateway, up: ScriptedUpstream) -> None:
    """Their calls are known to the upstream only, which keeps the response."""
    item = {"type": "function_call_output", "call_id": "c9", "output": "1"}
    asked = {"input": [item], "previous_response_id": "resp_of_the_upstream"}
    for gateway, provider in ((usual, "openai-responses"), (mending, "responses")):
        response = post(gateway, Protocol.RESPONSES, f"{provider}/text", asked)
        assert up.last().json["input"] == [item], response.text


@pytest.mark.parametrize("client", [Protocol.CHAT, Protocol.MESSAGES], ids=lambda one: one.short)
def test_without_it_a_broken_history_is_refused(up: ScriptedUpstream, tmp_path: Path, client: Protocol) -> None:
    """Before anything is sent, if it has to be translated; in pass-through, the upstream says what it thinks of it."""
    with running(tmp_path, AUTO + "repair_history: false\n", up.url) as gateway:
        response = post(gateway, client, "responses/text", BROKEN[client])
        assert response.status_code == 400
        assert "is a tool call without a result" in response.text
        assert not up.requests
        assert post(gateway, client, f"{KNOWN[client]}/text", BROKEN[client]).status_code == 200
        assert up.last().json == {"model": "text", **BROKEN[client]}
