"""Tools that the client runs, on models that do not know them: functions up, the client's own items down."""

from __future__ import annotations

import json
from typing import Any

import pytest

import trilogue
from trilogue import Protocol, RequestTranslation

USER = {"role": "user", "content": "Hi"}
BASE = {"model": "m", "max_tokens": 99}


def asked(source: str, target: str, tools: list[dict[str, Any]]) -> RequestTranslation:
    content = {"input": [USER]} if source == "responses" else {"messages": [USER], "max_tokens": 99}
    return trilogue.translate_request({"model": "m", "tools": tools, **content}, source=source, target=target)


def functions(body: dict[str, Any]) -> dict[str, Any]:
    """Name and schema of each function in a request."""
    tools = [tool.get("function", tool) for tool in body["tools"]]
    return {tool["name"]: tool.get("parameters") or tool.get("input_schema") for tool in tools}


@pytest.mark.parametrize("target", ["chat", "responses"])
@pytest.mark.parametrize(
    ("tool", "name", "fields"),
    [
        ({"type": "bash_20250124", "name": "bash"}, "bash", {"command", "restart"}),
        (
            {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
            "str_replace_based_edit_tool",
            {"command", "path", "file_text", "old_str", "new_str", "insert_line", "insert_text", "view_range"},
        ),
        (
            {"type": "text_editor_20250124", "name": "str_replace_editor"},
            "str_replace_editor",
            {"command", "path", "file_text", "old_str", "new_str", "insert_line", "view_range"},
        ),
        (
            {"type": "memory_20250818", "name": "memory"},
            "memory",
            {
                *("command", "path", "file_text", "old_str", "new_str", "insert_line", "insert_text", "view_range"),
                *("old_path", "new_path"),
            },
        ),
    ],
)
def test_tools_of_messages(target: str, tool: dict[str, Any], name: str, fields: set[str]) -> None:
    """Alone or not, they are functions; calls and results are ordinary ones on Messages."""
    up = asked("messages", target, [tool])
    assert set(functions(up.body)[name]["properties"]) == fields
    assert [loss.code for loss in up.losses] == ["tool.builtin_emulated"]


CALLS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "shell",
        {"commands": ["ls", "pwd"], "timeout_ms": 5},
        {"action": {"commands": ["ls", "pwd"], "timeout_ms": 5, "max_output_length": None}},
    ),
    (
        "local_shell",
        {"command": ["ls"], "working_directory": "/"},
        {"action": {"type": "exec", "command": ["ls"], "env": {}, "working_directory": "/"}},
    ),
    (
        "apply_patch",
        {"type": "create_file", "path": "a", "diff": "+x"},
        {"operation": {"type": "create_file", "path": "a", "diff": "+x"}},
    ),
]


def chat_answer(name: str, arguments: str) -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}


@pytest.mark.parametrize(("tool", "arguments", "item"), CALLS)
def test_calls_come_down_as_the_client_s_items(tool: str, arguments: dict[str, Any], item: dict[str, Any]) -> None:
    """Whole and streamed; and what the client sends back goes up as the same call."""
    up = asked("responses", "chat", [{"type": tool}])
    assert tool in functions(up.body)
    answer = chat_answer(tool, json.dumps(arguments))
    whole = trilogue.translate_response(answer, source="chat", target="responses", exchange=up.exchange).body
    (called,) = whole["output"]
    assert {**item, "type": f"{tool}_call", "call_id": "call_1"}.items() <= called.items()
    message = answer["choices"][0]["message"]
    pieces = [{**message, "tool_calls": [{"index": 0, **message["tool_calls"][0]}]}, {}]
    chunks = [
        {**answer, "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls" if not delta else None}]}
        for delta in pieces
    ]
    stream = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"
    translator = trilogue.StreamTranslator(source=Protocol.CHAT, target=Protocol.RESPONSES, exchange=up.exchange)
    told = trilogue.collect_stream(translator.feed(stream) + translator.close(), protocol="responses")
    assert told["output"] == [called]
    output = {"type": f"{tool}_call_output", "call_id": "call_1", "output": "done", "status": "completed"}
    back = {"model": "m", "tools": [{"type": tool}], "input": [USER, called, output]}
    again = trilogue.translate_request(back, source="responses", target="chat").body["messages"]
    function = again[1]["tool_calls"][0]["function"]
    assert function["name"] == tool
    assert json.loads(function["arguments"]).items() >= arguments.items()
    assert again[2] == {"role": "tool", "tool_call_id": "call_1", "content": "done"}


def test_a_bracket_that_a_server_has_left_out() -> None:
    """Arguments that only lack their closing brackets are complete here as elsewhere."""
    up = asked("responses", "chat", [{"type": "shell"}])
    answer = chat_answer("shell", '{"commands": ["ls"]')
    down = trilogue.translate_response(answer, source="chat", target="responses", exchange=up.exchange)
    assert down.body["output"][0]["type"] == "shell_call"


@pytest.mark.parametrize("arguments", ["{", '{"commands": "ls"}', '{"commands": []}', "[]"])
def test_arguments_that_make_no_item(arguments: str) -> None:
    """They stay the function call that the model wrote: nothing is run that it did not say."""
    up = asked("responses", "chat", [{"type": "shell"}])
    down = trilogue.translate_response(
        chat_answer("shell", arguments), source="chat", target="responses", exchange=up.exchange
    )
    (called,) = down.body["output"]
    assert (called["type"], called["arguments"]) == ("function_call", arguments)
    assert "arguments.invalid_json" in {loss.code for loss in down.losses}


def test_a_function_of_the_client_keeps_its_name() -> None:
    """The built-in tool gets another one, and its calls are still told apart."""
    own = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}, "strict": False}
    up = asked("responses", "chat", [own, {"type": "shell"}])
    assert list(functions(up.body)) == ["shell", "shell_tool"]
    answer = chat_answer("shell_tool", '{"commands": ["ls"]}')
    down = trilogue.translate_response(answer, source="chat", target="responses", exchange=up.exchange)
    assert down.body["output"][0]["type"] == "shell_call"
    mine = trilogue.translate_response(
        chat_answer("shell", "{}"), source="chat", target="responses", exchange=up.exchange
    )
    assert mine.body["output"][0]["type"] == "function_call"


def test_a_shell_in_the_provider_s_container_is_no_tool_of_the_client() -> None:
    """It cannot be offered as one."""
    with pytest.raises(trilogue.Unsupported):
        asked("responses", "chat", [{"type": "shell", "environment": {"type": "container_auto"}}])
