"""Codex's agents on upstreams that do not know them: their messages, and the arguments that they want encrypted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue import Protocol, Unsupported, translate_request, translate_response
from trilogue.base.json_text import dump
from trilogue.protocols.responses.codex import UNREADABLE, strip_agents

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
TOP = "/root"
HEADER = f"Message Type: NEW_TASK\nTask name: {TOP}/one\nSender: {TOP}\nPayload:\n"
TOKEN = "gAAAAAB" + "m0x-_" * 20
SPAWN: dict[str, Any] = {
    "type": "function",
    "name": "spawn_agent",
    "description": "Start an agent.",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {
            "message": {"type": "string", "encrypted": True},
            "encrypted": {"type": "object", "properties": {"inner": {"type": "string", "encrypted": True}}},
        },
        "required": ["message"],
    },
}
TEAM = {"type": "namespace", "name": "collaboration", "description": "Agents.", "tools": [SPAWN]}
GIVEN = {"type": "additional_tools", "role": "developer", "tools": [TEAM]}
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}


def message(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "agent_message", "id": "amsg_1", "author": TOP, "recipient": f"{TOP}/one", "content": [*parts]}


def text(value: str) -> dict[str, Any]:
    return {"type": "input_text", "text": value}


def sealed(value: str) -> dict[str, Any]:
    return {"type": "encrypted_content", "encrypted_content": value}


def body(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "input": [*items], **more}


@pytest.mark.parametrize("target", [C, M], ids=lambda one: one.short)
@pytest.mark.parametrize("parts", [(text(f"{HEADER}Count."),), (text(HEADER), sealed("Count."))], ids=["text", "part"])
def test_a_task_is_a_user_turn(target: Protocol, parts: tuple[dict[str, Any], ...]) -> None:
    """Also if Codex has put plain text where encrypted text belongs."""
    done = translate_request(body(message(*parts)), source=R, target=target)
    said = done.body["messages"][-1]
    assert said["role"] == "user"
    content = said["content"]
    assert (content if isinstance(content, str) else content[0]["text"]) == f"{HEADER}Count."
    assert [(loss.code, loss.path) for loss in done.losses if loss.code.startswith("agent")] == [
        ("agent.plaintext", "input[0]")
    ]


@pytest.mark.parametrize("target", [C, M], ids=lambda one: one.short)
def test_an_answer_comes_after_the_result_of_waiting(target: Protocol) -> None:
    """An answer that arrives between a call and its result does not separate the two."""
    call = {"type": "function_call", "call_id": "c1", "name": "wait_agent", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "done"}
    for items in ((USER, call, result, message(text("Four."))), (USER, call, message(text("Four.")), result)):
        messages = translate_request(body(*items), source=R, target=target).body["messages"]
        told = json.dumps(messages[-1])
        assert messages[-1]["role"] == "user"
        assert "Four." in told
        if target is M:
            assert messages[-1]["content"][0]["type"] == "tool_result"
        else:
            assert [one["role"] for one in messages] == ["user", "assistant", "tool", "user"]


def test_a_picture_stays_a_picture() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    done = translate_request(body(message(text("See"), picture)), source=R, target=C)
    assert [part["type"] for part in done.body["messages"][-1]["content"]] == ["text", "image_url"]


@pytest.mark.parametrize("target", [C, M], ids=lambda one: one.short)
def test_a_task_that_nobody_can_read_is_refused(target: Protocol) -> None:
    """In the history, a note stands for it."""
    with pytest.raises(Unsupported) as caught:
        translate_request(body(message(text(HEADER), sealed(TOKEN))), source=R, target=target)
    assert caught.value.path == "input[0].content[1]"
    done = translate_request(body(message(text(HEADER), sealed(TOKEN)), SAID, USER), source=R, target=target)
    assert UNREADABLE in json.dumps(done.body)
    assert "agent.encrypted" in [loss.code for loss in done.losses]


@pytest.mark.parametrize("target", [C, M], ids=lambda one: one.short)
@pytest.mark.parametrize("where", [{"tools": [TEAM]}, {"tools": [SPAWN]}, {}], ids=["namespace", "tools", "items"])
def test_schemas_do_not_ask_for_encryption(target: Protocol, where: dict[str, Any]) -> None:
    """A parameter with this name stays."""
    asked = body(USER, **where) if where else body(GIVEN, USER)
    done = translate_request(asked, source=R, target=target)
    (tool,) = done.body["tools"]
    schema = tool["function"]["parameters"] if target is C else tool["input_schema"]
    assert schema["properties"] == {
        "message": {"type": "string"},
        "encrypted": {"type": "object", "properties": {"inner": {"type": "string"}}},
    }
    assert "agent.plaintext" in [loss.code for loss in done.losses]


CHAT_CALL = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": None}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


@pytest.mark.parametrize("marked", [True, False])
def test_codex_learns_that_arguments_are_plain(marked: bool) -> None:
    """Without the empty list, Codex takes them for encrypted. Calls of other tools have no such field."""
    tool = SPAWN if marked else {**SPAWN, "parameters": {"type": "object", "properties": {}}}
    asked = body(USER, tools=[{**TEAM, "tools": [tool]}])
    up = translate_request(asked, source=R, target=C)
    name = up.body["tools"][0]["function"]["name"]
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": '{"message":"Count."}'}}
    answer = json.loads(json.dumps(CHAT_CALL))
    answer["choices"][0]["message"]["tool_calls"] = [call]
    (item,) = translate_response(answer, source=C, target=R, exchange=up.exchange).body["output"]
    assert (item["namespace"], item["name"]) == ("collaboration", "spawn_agent")
    assert item.get("encrypted_function_args") == ([] if marked else None)


def test_what_codex_sends_back_is_no_loss() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "encrypted_function_args": []}
    result = {"type": "function_call_output", "call_id": "c1", "output": "done"}
    done = translate_request(body(USER, call, result), source=R, target=C)
    assert done.losses == []


def test_pass_through_to_a_server_that_does_not_know_agents() -> None:
    """Everything else keeps its place and value."""
    given = body(GIVEN, USER, message(text(HEADER), sealed("Count.")), store=False, unknown={"a": 1})
    plain, losses = strip_agents(dump(given))
    made = json.loads(plain)
    assert made["input"][2] == {"type": "message", "role": "user", "content": f"{HEADER}Count."}
    assert "encrypted" not in made["input"][0]["tools"][0]["tools"][0]["parameters"]["properties"]["message"]
    assert {**made, "input": None} == {**given, "input": None}
    assert {loss.code for loss in losses} == {"agent.plaintext"}
    same = dump(body(USER))
    assert strip_agents(same) == (same, [])
