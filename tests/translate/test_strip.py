"""Earlier reasoning is left out, everything else stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue import Protocol
from trilogue.translate.strip import strip_reasoning

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
    assert stripped == kept
