"""Build the test cases of the rules: a body that a rule refuses, and nearly the same body that every rule accepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.vendors.rule import Body, Headers, Protocol

Fields = Mapping[str, Any]

USER: Body = {"role": "user", "content": "Hello"}
PNG = "data:image/png;base64,aGVsbG8="
OBJECT: Body = {"type": "object", "properties": {"city": {"type": "string"}}}
CLOSED: Body = {**OBJECT, "required": ["city"], "additionalProperties": False}

BASES: dict[Protocol, Body] = {
    "chat": {"messages": [USER]},
    "responses": {"input": "Hello"},
    "messages": {"max_tokens": 2048, "messages": [USER]},
}


@dataclass(frozen=True)
class Case:
    """Fields on top of a minimal body: some that the rule refuses, and some that all rules accept."""

    rule: str
    vendor: str
    protocol: Protocol
    model: str
    refused: Fields
    accepted: Fields = field(default_factory=dict)
    headers: Headers = field(default_factory=dict)

    def body(self, fields: Fields) -> Body:
        """Return the minimal body of the protocol with these fields."""
        return {"model": self.model, **BASES[self.protocol], **fields}


def chat_tool(name: str = "weather", **fields: Any) -> Body:
    """Return a function tool as Chat writes it."""
    return {"type": "function", "function": {"name": name, "parameters": OBJECT, **fields}}


def response_tool(name: str = "weather", **fields: Any) -> Body:
    """Return a function tool as Responses writes it."""
    return {"type": "function", "name": name, "parameters": OBJECT, **fields}


def claude_tool(name: str = "weather", **fields: Any) -> Body:
    """Return a tool as Messages writes it."""
    return {"name": name, "input_schema": OBJECT, **fields}


def chat_call(call_id: str = "call12345", name: str = "weather", **fields: Any) -> Body:
    """Return an assistant message that calls a function, as Chat writes it."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call], **fields}


def chat_result(call_id: str = "call12345", content: Any = "sunny") -> Body:
    """Return a tool message as Chat writes it."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def chat_history(*added: Body) -> Body:
    """Return a Chat conversation: a question and what follows it."""
    return {"messages": [USER, *added]}


def response_history(*added: Body) -> Body:
    """Return a Responses conversation: a question and what follows it."""
    return {"input": [USER, *added]}


def response_call(call_id: str = "call_1", **fields: Any) -> Body:
    """Return a function call as Responses writes it."""
    return {"type": "function_call", "call_id": call_id, "name": "weather", "arguments": "{}", **fields}


def response_result(call_id: str = "call_1", **fields: Any) -> Body:
    """Return the output of a function call as Responses writes it."""
    return {"type": "function_call_output", "call_id": call_id, "output": "sunny", **fields}


def claude_call(call_id: str = "toolu_1", name: str = "weather") -> Body:
    """Return a call as Messages writes it."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def claude_result(call_id: str = "toolu_1", **fields: Any) -> Body:
    """Return a tool result as Messages writes it."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": "sunny", **fields}


def claude_history(*added: Body) -> Body:
    """Return a Messages conversation: a question and what follows it."""
    return {"messages": [USER, *added]}


def says(role: str, *blocks: Body) -> Body:
    """Return a message of content blocks."""
    return {"role": role, "content": list(blocks)}


def text(content: str, **fields: Any) -> Body:
    """Return a text block."""
    return {"type": "text", "text": content, **fields}
