"""Tools that a client finds by its own search: Codex's `tool_search`, and Claude Code's `ToolSearch`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue import Protocol, translate_request, translate_response

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
EMPTY = {"type": "object", "properties": {}}
QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
SEARCH = {"type": "tool_search", "execution": "client", "description": "Find tools.", "parameters": QUERY}
USER = {"role": "user", "content": "Go"}


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": "", "strict": False, "parameters": EMPTY, **more}


def sought(number: int, *tools: dict[str, Any]) -> list[dict[str, Any]]:
    call_id, where = f"c{number}", {"execution": "client", "status": "completed"}
    call = {"type": "tool_search_call", "call_id": call_id, "arguments": {"query": "mail"}, **where}
    return [call, {"type": "tool_search_output", "call_id": call_id, "tools": [*tools], **where}]


def offered(body: dict[str, Any]) -> list[str]:
    return [(tool.get("function") or tool)["name"] for tool in body["tools"]]


MAIL = {
    "type": "namespace",
    "name": "mcp_mail",
    "description": "Mail.",
    "tools": [function("send", defer_loading=True), function("read", defer_loading=True)],
}


@pytest.mark.parametrize("target", [C, M], ids=lambda one: one.short)
def test_codex_searches_on_every_upstream(target: Protocol) -> None:
    """The search is a function. What it found comes after all other tools, each once, in the order of discovery."""
    tools = [SEARCH, function("shell")]
    first = translate_request({"model": "m", "input": [USER], "tools": tools}, source=R, target=target).body
    items = [USER, *sought(1, MAIL)]
    second = translate_request({"model": "m", "input": items, "tools": tools}, source=R, target=target).body
    items += sought(2, function("draw"), {**MAIL, "tools": [function("send")]}, function("shell"))
    third = translate_request({"model": "m", "input": items, "tools": tools}, source=R, target=target).body
    assert offered(first) == ["tool_search", "shell"]
    assert offered(second) == [*offered(first), "mcp_mail__send", "mcp_mail__read"]
    assert offered(third) == [*offered(second), "draw"]
    assert "You can now call: mcp_mail__send, mcp_mail__read" in json.dumps(second["messages"][-1])
    assert "defer_loading" not in json.dumps(third)


def test_codex_gets_its_own_calls() -> None:
    """Of the search, and of the tool that it found."""
    asked = {"model": "m", "input": [USER, *sought(1, MAIL)], "tools": [SEARCH]}
    up = translate_request(asked, source=R, target=C)
    made = [("tool_search", '{"query":"paint"}'), ("mcp_mail__send", "{}")]
    calls = [
        {"id": f"x{n}", "type": "function", "function": {"name": name, "arguments": text}}
        for n, (name, text) in enumerate(made)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    search, send = translate_response(body, source=C, target=R, exchange=up.exchange).body["output"]
    assert (search["type"], search["execution"], search["arguments"]) == (
        "tool_search_call",
        "client",
        {"query": "paint"},
    )
    assert (send["type"], send["namespace"], send["name"]) == ("function_call", "mcp_mail", "send")


def claude(*turns: dict[str, Any], search: str = "ToolSearch") -> dict[str, Any]:
    tools = [
        {"name": search, "input_schema": QUERY},
        {"name": "a", "input_schema": EMPTY, "defer_loading": True},
        {"name": "b", "input_schema": EMPTY, "defer_loading": True},
        {"name": "Read", "input_schema": EMPTY},
        {"name": "c", "input_schema": EMPTY, "defer_loading": True},
    ]
    return {"model": "m", "max_tokens": 9, "messages": [USER, *turns], "tools": tools}


def found(number: int, *names: str) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"t{number}", "name": "ToolSearch", "input": {"query": "x"}}
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": references}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


@pytest.mark.parametrize("target", [C, R], ids=lambda one: one.short)
def test_claude_code_offers_what_it_has_found(target: Protocol) -> None:
    """The model sees a deferred tool once the search has named it, as at Anthropic."""

    def names(*turns: dict[str, Any]) -> list[str]:
        return offered(translate_request(claude(*turns), source=M, target=target).body)

    assert names() == ["ToolSearch", "Read"]
    assert names(*found(1, "c")) == ["ToolSearch", "Read", "c"]
    assert names(*found(1, "c"), *found(2, "a", "c")) == ["ToolSearch", "Read", "c", "a"]


def test_without_a_search_of_the_client_all_are_offered() -> None:
    body = translate_request(claude(search="Grep"), source=M, target=C).body
    assert offered(body) == ["Grep", "a", "b", "Read", "c"]
