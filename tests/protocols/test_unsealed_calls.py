"""Calls of a request that may lack their reasoning, which is found without decoding the request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue.model import Protocol
from trilogue.protocols.registry import CODECS

Json = dict[str, Any]
CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES


def call(name: str) -> Json:
    return {"type": "tool_use", "id": name, "name": "f", "input": {}}


def function_call(name: str) -> Json:
    return {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": "f", "arguments": "{}"}


OUTPUT = {"type": "function_call_output", "call_id": "c1"}
CHAT_CALLS = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
SEALED = "trl2.abc"
HISTORIES: dict[str, tuple[Protocol, Json, list[str]]] = {
    "chat without calls": (CHAT, {"messages": [{"role": "user", "content": "Hi"}]}, []),
    "chat": (CHAT, {"messages": [{"role": "assistant", "content": None, "tool_calls": CHAT_CALLS}]}, ["c1"]),
    "chat, sealed": (
        CHAT,
        {"messages": [{"role": "assistant", "tool_calls": CHAT_CALLS, "reasoning_details": [{"data": SEALED}]}]},
        [],
    ),
    "chat, of its own": (
        CHAT,
        {"messages": [{"role": "assistant", "tool_calls": CHAT_CALLS, "reasoning_details": [{"data": "abc"}]}]},
        ["c1"],
    ),
    "chat, broken": (CHAT, {"messages": [{"role": "assistant", "tool_calls": 5}]}, []),
    "messages": (MESSAGES, {"messages": [{"role": "assistant", "content": [call("c1")]}]}, ["c1"]),
    "messages, unasked": (
        MESSAGES,
        {"messages": [{"role": "assistant", "content": [{"type": "redacted_thinking", "data": SEALED}, call("c1")]}]},
        ["c1"],
    ),
    "messages, asked": (
        MESSAGES,
        {
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "messages": [
                {"role": "assistant", "content": [{"type": "thinking", "signature": SEALED}, call("c1")]},
                {"role": "assistant", "content": [call("c2")]},
                {"role": "user", "content": "text"},
            ],
        },
        ["c2"],
    ),
    "responses": (
        RESPONSES,
        {"input": [function_call("c1"), OUTPUT]},
        ["c1"],
    ),
    "responses, sealed": (
        RESPONSES,
        {
            "input": [
                {"type": "reasoning", "encrypted_content": SEALED},
                function_call("c1"),
                OUTPUT,
                {"type": "message", "role": "assistant", "content": "x"},
                {"type": "local_shell_call", "call_id": "c2"},
                {"role": "user", "content": "Go"},
                function_call("c3"),
            ]
        },
        ["c2", "c3"],
    ),
    "responses, text": (RESPONSES, {"input": 'the "call_id"'}, []),
}


@pytest.mark.parametrize(("protocol", "body", "expected"), HISTORIES.values(), ids=HISTORIES.keys())
def test_calls_that_may_lack_their_reasoning(protocol: Protocol, body: Json, expected: list[str]) -> None:
    assert CODECS[protocol].reasoning.unsealed_calls(json.dumps(body).encode()) == expected
