"""`repair_history`: tool calls without results are answered, on same-protocol pairs as well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.pairs import EVERY_CLIENT, PATHS
from tests.gateway.running import PROVIDERS, Gateway, running
from tests.scripted.server import ScriptedUpstream
from trilogue.lint import lint_request
from trilogue.model import Protocol

CONFIG = PROVIDERS + "repair_history: true\n"
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
