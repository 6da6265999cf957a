"""The first difference between two requests of a conversation, and that a longer history is none."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from trilogue.gateway.conversations.cache_sessions import first_difference

Body = dict[str, Any]
MARK = {"type": "ephemeral"}


def tool(name: str, **more: Any) -> Body:
    return {"name": name, "description": f"{name} " * 50, "input_schema": {"type": "object"}, **more}


MESSAGES: Body = {
    "model": "m",
    "tools": [tool("read"), tool("write"), tool("run")],
    "system": [{"type": "text", "text": "You are an agent."}, {"type": "text", "text": "Be brief."}],
    "messages": [
        {"role": "user", "content": "Look at the code."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "code " * 500}]},
    ],
}
CHAT: Body = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Look at the code. " * 100},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "t1", "type": "function", "function": {}}]},
        {"role": "tool", "tool_call_id": "t1", "content": "code " * 500},
    ],
    "tools": [{"type": "function", "function": tool("read")}, {"type": "function", "function": tool("write")}],
}
RESPONSES: Body = {
    "model": "m",
    "instructions": "You are an agent.",
    "prompt_cache_key": "k",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look at the code. " * 100}]},
        {"type": "function_call", "call_id": "t1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t1", "output": "code " * 500},
    ],
    "tools": [{"type": "function", **tool("read")}, {"type": "function", **tool("write")}],
}


def edited(body: Body, *path: Any, to: Any) -> Body:
    """Return a body in which something else is at this place."""
    found = deepcopy(body)
    place: Any = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return found


def difference(before: Body, now: Body) -> str:
    return first_difference(json.dumps(before).encode(), json.dumps(now).encode())


def longer(body: Body, *turns: Body) -> Body:
    name = "input" if "input" in body else "messages"
    return {**body, name: [*body[name], *turns]}


ASSISTANT, USER = {"role": "assistant", "content": "Done."}, {"role": "user", "content": "Go on."}
CHANGES: dict[str, tuple[Body, Body]] = {
    "model changed": (MESSAGES, edited(MESSAGES, "model", to="n")),
    "prompt_cache_key changed": (RESPONSES, edited(RESPONSES, "prompt_cache_key", to="j")),
    "tools reordered": (MESSAGES, edited(MESSAGES, "tools", to=MESSAGES["tools"][::-1])),
    "tools[1] added": (MESSAGES, edited(MESSAGES, "tools", to=[tool("read"), tool("more"), *MESSAGES["tools"][1:]])),
    "tools[3] added": (MESSAGES, edited(MESSAGES, "tools", to=[*MESSAGES["tools"], tool("more")])),
    "tools[0] removed": (MESSAGES, edited(MESSAGES, "tools", to=MESSAGES["tools"][1:])),
    "tools[2] changed": (MESSAGES, edited(MESSAGES, "tools", 2, to=tool("run", strict=True))),
    "tools[0] changed": (CHAT, edited(CHAT, "tools", 0, "function", "description", to="")),
    "system[0] changed": (MESSAGES, edited(MESSAGES, "system", 0, "text", to="You are a poet.")),
    "system[1] removed": (MESSAGES, edited(MESSAGES, "system", to=MESSAGES["system"][:1])),
    "system[2] added": (MESSAGES, edited(MESSAGES, "system", to=[*MESSAGES["system"], {"type": "text", "text": "?"}])),
    "instructions[0] changed": (RESPONSES, edited(RESPONSES, "instructions", to="You are a poet.")),
    "thinking changed": (MESSAGES, {**MESSAGES, "thinking": {"type": "adaptive"}}),
    "tool_choice changed": (MESSAGES, {**MESSAGES, "tool_choice": {"type": "none"}}),
    "messages[0] changed": (CHAT, edited(CHAT, "messages", 0, "content", to="You are a poet.")),
    "messages[1] changed": (MESSAGES, edited(MESSAGES, "messages", 1, "content", 0, "id", to="t2")),
    "messages[2] changed": (MESSAGES, edited(MESSAGES, "messages", 2, "content", 0, "content", to="none")),
    "messages[2] removed": (MESSAGES, edited(MESSAGES, "messages", to=MESSAGES["messages"][:2])),
    "input[1] changed": (RESPONSES, edited(RESPONSES, "input", 1, "arguments", to="[]")),
    "input[0] changed": (RESPONSES, edited(RESPONSES, "input", to="Look at something else.")),
}


@pytest.mark.parametrize("words", CHANGES)
def test_what_has_changed(words: str) -> None:
    """Also if turns follow."""
    before, now = CHANGES[words]
    assert difference(before, now) == words
    if "removed" not in words and "input" not in words:
        assert difference(before, longer(now, ASSISTANT, USER)) == words


def marked(body: Body) -> Body:
    """The same with marks for the cache on other blocks."""
    found = deepcopy(body)
    found["tools"][-1]["cache_control"] = MARK
    turns = found.get("messages") or found["input"]
    for turn in turns:
        if isinstance(turn.get("content"), str):
            turn["content"] = [{"type": "text", "text": turn["content"], "cache_control": MARK}]
        elif turn.get("content"):
            turn["content"][-1]["cache_control"] = MARK
    return found


@pytest.mark.parametrize("body", [MESSAGES, CHAT, RESPONSES], ids=["messages", "chat", "responses"])
def test_what_has_not_changed(body: Body) -> None:
    """Turns and blocks may follow, marks may move, and a text may become a list of one block."""
    assert difference(body, body) == ""
    assert difference(body, longer(body, ASSISTANT, USER)) == ""
    assert difference(body, longer(marked(body), ASSISTANT, USER)) == ""
    assert difference(marked(body), longer(body, ASSISTANT, USER)) == ""


def test_blocks_may_follow_in_the_last_turn() -> None:
    more = {"type": "text", "text": "Go on."}
    result = MESSAGES["messages"][2]["content"]
    assert difference(MESSAGES, edited(MESSAGES, "messages", 2, "content", to=[*result, more])) == ""
    assert difference(longer(MESSAGES, ASSISTANT), edited(MESSAGES, "messages", 2, "content", to=[*result, more])) == (
        "messages[2] changed"
    )


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"messages": 3}', b"[" * 5_000, b'{"tools": [[' * 2_000, b"\xff"])
def test_what_cannot_be_read_is_no_difference(body: bytes) -> None:
    whole = json.dumps(MESSAGES).encode()
    assert isinstance(first_difference(body, whole), str)
    assert isinstance(first_difference(whole, body), str)
