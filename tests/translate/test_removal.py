"""Earlier reasoning is left out, everything else stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue import Protocol
from trilogue.translate.reasoning.removal import strip_reasoning

CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
MESSAGES: dict[str, Any] = {
    "model": "claude-opus-5",
    "max_tokens": 100,
    "thinking": {"type": "adaptive"},
    "messages": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "xyz"},
                CALL,
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}]},
    ],
}
RESPONSES: dict[str, Any] = {
    "model": "gpt-5.6",
    "store": False,
    "input": [
        {"type": "message", "role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc"},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
    ],
}


@pytest.mark.parametrize(
    ("protocol", "body", "paths"),
    [
        (Protocol.MESSAGES, MESSAGES, ["messages[1].content[0]", "messages[1].content[1]"]),
        (Protocol.RESPONSES, RESPONSES, ["input[1]"]),
    ],
)
def test_only_reasoning_goes(protocol: Protocol, body: dict[str, Any], paths: list[str]) -> None:
    """Declared, and the rest of the request is as it was."""
    stripped, losses = strip_reasoning(json.dumps(body).encode(), protocol=protocol)
    assert [(loss.code, loss.path) for loss in losses] == [("reasoning.foreign_dropped", path) for path in paths]
    text = json.dumps(stripped)
    assert not any(value in text for value in ("sig", "xyz", "enc", "hm"))
    kept = json.loads(json.dumps(body))
    if protocol is Protocol.MESSAGES:
        kept["messages"][1]["content"] = [CALL]
    else:
        del kept["input"][1]
    # In the client's own form, order included, so that a prompt cache finds what stays.
    assert json.dumps(stripped) == json.dumps(kept)


def test_what_stays_keeps_its_form() -> None:
    """Tools and items of the client are not written anew, and only ids go."""
    tool = {"name": "f", "type": "function", "parameters": {}, "strict": False, "description": "d", "unknown": 1}
    message = {"status": "completed", "type": "message", "id": "msg_1", "role": "assistant", "content": "Hi"}
    body = {**RESPONSES, "tools": [tool], "input": [*RESPONSES["input"], message]}
    stripped, _ = strip_reasoning(json.dumps(body).encode(), protocol=Protocol.RESPONSES)
    kept = json.loads(json.dumps(body))
    del kept["input"][1]
    del kept["input"][-1]["id"]
    assert json.dumps(stripped) == json.dumps(kept)
    lone = {"role": "assistant", "content": MESSAGES["messages"][1]["content"][:1]}
    said = {**MESSAGES, "messages": [*MESSAGES["messages"], lone, MESSAGES["messages"][0]]}
    stripped, _ = strip_reasoning(json.dumps(said).encode(), protocol=Protocol.MESSAGES)
    assert [turn["role"] for turn in stripped["messages"]] == ["user", "assistant", "user", "user"]


def test_thinking_with_a_budget_goes_where_the_last_call_has_none_left() -> None:
    """The API answers 400 to a budget if the turn whose calls are answered does not begin with thinking."""
    body = {**MESSAGES, "thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 4000}
    stripped, losses = strip_reasoning(json.dumps(body).encode(), protocol=Protocol.MESSAGES)
    assert "thinking" not in stripped
    assert losses[-1].code == "thinking.replay_missing"
    said = {**body, "messages": [*body["messages"][:1], {"role": "assistant", "content": "Hi"}, body["messages"][0]]}
    kept, losses = strip_reasoning(json.dumps(said).encode(), protocol=Protocol.MESSAGES)
    assert kept["thinking"] == body["thinking"]
    assert losses == []
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}
    begun = [body["messages"][0], body["messages"][1], result]
    going_on = {**body, "messages": [*begun, {"role": "assistant", "content": [{**CALL, "id": "u"}]}, result]}
    kept, _ = strip_reasoning(json.dumps(going_on).encode(), protocol=Protocol.MESSAGES, only=["other"])
    assert kept["thinking"] == body["thinking"]


def test_items_lose_the_ids_by_which_the_server_would_miss_their_reasoning() -> None:
    """A function_call or message that it knows is refused without the reasoning before it."""
    body = json.loads(json.dumps(RESPONSES))
    body["input"][2]["id"] = "fc_1"
    part = {"type": "output_text", "text": "x", "annotations": []}
    body["input"].append(
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [part]}
    )
    stripped, _ = strip_reasoning(json.dumps(body).encode(), protocol=Protocol.RESPONSES)
    assert [item.get("id") for item in stripped["input"]] == [None] * 4


def test_only_what_was_refused() -> None:
    """Other reasoning stays, and items keep their ids as long as nothing was left out."""
    kept, losses = strip_reasoning(json.dumps(MESSAGES).encode(), protocol=Protocol.MESSAGES, only=["si"])
    assert kept["messages"][1]["content"] == MESSAGES["messages"][1]["content"][1:]
    assert len(losses) == 1
    same, losses = strip_reasoning(json.dumps(RESPONSES).encode(), protocol=Protocol.RESPONSES, only=["other"])
    assert (same, losses) == (RESPONSES, [])
