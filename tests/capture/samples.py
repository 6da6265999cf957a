"""One conversation with a tool, from a Messages client to a Chat upstream, plain and streamed."""

from __future__ import annotations

import json
from typing import Any

from tests.capture.making import Traffic, events
from trilogue import Protocol, Target

SECRET_WORDS = ("Bremen", "harbour", "Quayside")
TOOL = {
    "name": "get_weather",
    "description": "Returns the weather in Bremen.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
REQUEST: dict[str, Any] = {
    "model": "alias",
    "max_tokens": 100,
    "top_k": 5,
    "system": "You know the harbour.",
    "messages": [{"role": "user", "content": "How is the weather in Bremen?\nBe brief."}],
    "tools": [TOOL],
}
CALL = '{"city": "Bremen", "note": "say \\"moin\\" \\u00fc", "days": 2}'


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [choice]}


def call(arguments: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "function": {"arguments": arguments, **more.pop("function", {})}, **more}]}


def sse(*bodies: dict[str, Any]) -> bytes:
    lines = [f"data: {json.dumps(body, ensure_ascii=False)}\n\n" for body in bodies]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
STREAM = sse(
    chunk({"role": "assistant", "content": "The Quayside "}),
    chunk({"content": "is wet. é"}),
    chunk(call("", id="call_1", type="function", function={"name": "get_weather"})),
    *(chunk(call(CALL[start : start + 7])) for start in range(0, len(CALL), 7)),
    chunk({}, "tool_calls"),
    {**chunk({}), "choices": [], "usage": USAGE},
)
BODY = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "up",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "It rains on the Quayside."},
            }
        ],
        "usage": USAGE,
    }
).encode()
TARGET = Target.of(Protocol.CHAT, "up", provider="local", account="a")


def streamed(pieces: list[bytes] | None = None) -> Traffic:
    return Traffic(Protocol.MESSAGES, TARGET, REQUEST | {"stream": True}, pieces or events([STREAM]))


def plain() -> Traffic:
    return Traffic(Protocol.MESSAGES, TARGET, REQUEST, [BODY])
