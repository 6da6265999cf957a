"""Requests with the structure of those of Codex 0.166.0, run without a terminal against a custom provider."""

from __future__ import annotations

import json

from tests.vendors.client_draw import JSON
from tests.vendors.everyday_kit import PNG_DATA, SEALED, SUMMARY, Everyday, closed, prop

_ID = "01a1e527-60e7-75f0-b54c-e52e3a469700"
_TURN = json.dumps(
    {
        "installation_id": _ID,
        "session_id": _ID,
        "thread_id": _ID,
        "agent_name": "/root",
        "turn_id": _ID,
        "window_id": f"{_ID}:0",
        "window_number": 0,
        "request_kind": "turn",
        "sandbox": "seccomp",
        "workspaces": {"/work": {"has_changes": True}},
        "turn_started_at_unix_ms": 1794845926252,
        "analytics_enabled": True,
        "model": "gpt-5.4",
    },
    separators=(",", ":"),
)
_HEADERS = {
    "x-codex-beta-features": "remote_compaction_v2",
    "x-codex-window-id": f"{_ID}:0",
    "x-codex-turn-metadata": _TURN,
    "x-client-request-id": _ID,
    "session-id": _ID,
    "thread-id": _ID,
    "accept": "text/event-stream",
    "content-type": "application/json",
    "authorization": "Bearer the-key",
    "originator": "codex_exec",
    "user-agent": "codex_exec/0.166.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.166.0)",
}
_LITE_HEADERS = _HEADERS | {"x-openai-internal-codex-responses-lite": "true"}
# Only this client has the field: neither the documentation nor the types know it.
_CLIENT: JSON = {
    "client_metadata": {
        "session_id": _ID,
        "thread_id": _ID,
        "turn_id": _ID,
        "root_turn_id": _ID,
        "x-codex-installation-id": _ID,
        "x-codex-window-id": f"{_ID}:0",
        "x-codex-turn-metadata": _TURN,
    }
}


def _tool(name: str, parameters: JSON) -> JSON:
    return {
        "type": "function",
        "name": name,
        "description": "Does a thing.",
        "strict": False,
        "parameters": parameters,
    }


_CHOICE = closed({"description": prop("string"), "label": prop("string")}, "label", "description")
_ASK = closed({"id": prop("string"), "options": prop("array", items=_CHOICE)}, "id", "options")
_EXEC = closed(
    {
        "cmd": prop("string"),
        "login": prop("boolean"),
        "max_output_tokens": prop("number"),
        "prefix_rule": prop("array", items={"type": "string"}),
        "sandbox_permissions": prop("string", enum=["use_default", "require_escalated"]),
    },
    "cmd",
)
_ITEM = closed({"text": prop("string"), "type": prop("string")})
_SPAWN = closed({"items": prop("array", items=_ITEM), "message": prop("string")})
_TOOLS = [
    _tool("exec_command", _EXEC),
    _tool("request_user_input", closed({"questions": prop("array", items=_ASK)}, "questions")),
    _tool("view_image", closed({"path": prop("string")}, "path")),
    {"type": "namespace", "name": "multi_agent_v1", "description": "Helpers.", "tools": [_tool("spawn_agent", _SPAWN)]},
    # Without parameters, the list of required ones is present and empty.
    _tool("get_goal", closed({}) | {"required": []}),
    {"type": "web_search", "external_web_access": False},
]
_PATCH_GRAMMAR = (
    "start: begin line+ end\n"
    'begin: "*** Begin Patch" LF\n'
    "line: /(.*)/ LF\n"
    'end: "*** End Patch" LF?\n'
    "%import common.LF\n"
)
_NEW_TOOLS = [
    _tool("exec_command", _EXEC),
    {
        "type": "custom",
        "name": "apply_patch",
        "description": "Changes files.",
        "format": {"type": "grammar", "syntax": "lark", "definition": _PATCH_GRAMMAR},
    },
    _tool("view_image", closed({"path": prop("string"), "detail": prop("string", enum=["high", "original"])}, "path")),
    {
        "type": "tool_search",
        "execution": "client",
        "description": "Finds tools.",
        "parameters": closed({"limit": prop("number"), "query": prop("string")}, "query"),
    },
    {"type": "web_search", "external_web_access": True, "search_content_types": ["text", "image"]},
]
# In a sandbox, web search uses stored pages.
_SAFE_TOOLS = [*_NEW_TOOLS[:-1], _NEW_TOOLS[-1] | {"external_web_access": False}]
_QUESTION = closed({"title": prop("string"), "options": prop("array", items={"type": "string"}, minItems=1)}, "title")
_LITE_TOOLS = [
    {
        "type": "namespace",
        "name": "functions",
        "description": "",
        "tools": [
            {
                "type": "custom",
                "name": "exec",
                "description": "Runs code.",
                "format": {"type": "grammar", "syntax": "lark", "definition": "\nstart: SOURCE\nSOURCE: /(.|\\n)+/\n"},
            },
            _tool("wait", closed({"cell_id": prop("string"), "terminate": prop("boolean")}, "cell_id")),
            _tool("ask", closed({"questions": prop("array", items=_QUESTION, minItems=1)}, "questions")),
        ],
    },
    {
        "type": "namespace",
        "name": "clock",
        "description": "Time.",
        "tools": [_tool("sleep", closed({"duration_ms": prop("number")}, "duration_ms"))],
    },
    {
        "type": "namespace",
        "name": "collaboration",
        "description": "Helpers.",
        # Only this client has the keyword.
        "tools": [_tool("send_message", closed({"message": prop("string", encrypted=True)}, "message"))],
    },
]


def _said(role: str, *texts: str) -> JSON:
    parts = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "id": f"msg_{_ID}", "role": role, "content": parts}


_FRONT = [
    _said("developer", "You are a coding helper."),
    _said("developer", "<skills>\nNone.\n</skills>", "<permissions>\nRead only.\n</permissions>"),
    _said("user", "<environment>\n  <cwd>/work</cwd>\n</environment>"),
]
_HELLO = _said("user", "Say hello")
_THOUGHT: JSON = {"type": "reasoning", "id": "rs_01", "summary": SUMMARY, "content": None, "encrypted_content": SEALED}


def _told(phase: str) -> JSON:
    part = {"type": "output_text", "text": "Done.", "annotations": [], "logprobs": []}
    return {
        "type": "message",
        "status": "completed",
        "id": "msg_01",
        "role": "assistant",
        "content": [part],
        "phase": phase,
    }


def _call(name: str, arguments: str) -> JSON:
    return {
        "type": "function_call",
        "status": "completed",
        "id": "fc_00",
        "name": name,
        "arguments": arguments,
        "call_id": "call_00abc",
    }


def _output(value: object) -> JSON:
    return {"type": "function_call_output", "id": f"fco_{_ID}", "call_id": "call_00abc", "output": value}


def _custom(name: str, text: str, output: object) -> list[JSON]:
    call = {"type": "custom_tool_call", "id": "ctc_00", "status": "completed", "call_id": "call_00abc"}
    done = {"type": "custom_tool_call_output", "id": f"ctco_{_ID}", "call_id": "call_00abc", "output": output}
    return [call | {"name": name, "input": text}, done]


_PICTURE: JSON = {"type": "input_image", "image_url": PNG_DATA, "detail": "high"}
_LOOK: JSON = {
    "type": "message",
    "id": f"msg_{_ID}",
    "role": "user",
    "content": [
        {"type": "input_text", "text": '<image name=[Image #1] path="/dot.png">'},
        _PICTURE,
        {"type": "input_text", "text": "</image>"},
        {"type": "input_text", "text": "Look"},
    ],
}
_SHELL = [_THOUGHT, _told("commentary"), _call("exec_command", '{"cmd": "echo hi"}'), _output("Exit code 0\nhi\n")]
_BASE: JSON = {
    "model": "gpt-5.4",
    "stream": True,
    "tools": _TOOLS,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"summary": "auto"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": _ID,
} | _CLIENT
_NEW = _BASE | {
    "model": "gpt-5.5",
    "tools": _NEW_TOOLS,
    "reasoning": {"effort": "medium"},
    "text": {"verbosity": "low"},
}
# The newest models get their tools in the conversation instead of in the field for tools.
_LITE = {key: value for key, value in _BASE.items() if key != "tools"} | {
    "model": "gpt-6.1-sol",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "low", "context": "all_turns"},
    "text": {"verbosity": "low"},
}
_ADDED: JSON = {"type": "additional_tools", "id": f"at_{_ID}", "role": "developer", "tools": _LITE_TOOLS}
_SCHEMA: JSON = {
    "type": "json_schema",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
        "additionalProperties": False,
    },
    "name": "codex_output_schema",
}
_RAN = [{"type": "input_text", "text": "Done.\n"}, {"type": "input_text", "text": "hi\n"}]


def _day(base: JSON, items: list[JSON], headers: dict[str, str] | None = None, **more: object) -> Everyday:
    return Everyday("Codex", "responses", base | {"input": items} | more, headers or _HEADERS)


CODEX: dict[str, Everyday] = {
    "codex first turn": _day(_BASE, [*_FRONT, _HELLO]),
    "codex results": _day(_BASE, [*_FRONT, _HELLO, *_SHELL], reasoning={"effort": "high", "summary": "detailed"}),
    "codex other model": _day(_BASE, [*_FRONT, _HELLO, *_SHELL], model="claude-opus-4-8"),
    "codex patch": _day(
        _NEW,
        [
            *_FRONT,
            _HELLO,
            _THOUGHT,
            _told("commentary"),
            *_custom("apply_patch", "*** Begin Patch\n+hello\n*** End Patch\n", "Exit code: 0\nDone.\n"),
        ],
    ),
    "codex schema": _day(
        _NEW | {"tools": _SAFE_TOOLS}, [*_FRONT, _HELLO], text={"verbosity": "low", "format": _SCHEMA}
    ),
    "codex picture": _day(
        _BASE,
        [
            *_FRONT,
            _LOOK,
            _THOUGHT,
            _told("commentary"),
            _call("view_image", '{"path": "/dot.png"}'),
            _output([_PICTURE]),
        ],
    ),
    "codex lite": _day(
        _LITE,
        [
            _ADDED,
            *_FRONT,
            _said("developer", "<role>You lead.</role>"),
            _HELLO,
            _THOUGHT,
            _told("commentary"),
            *_custom("exec", "const r = await tools.exec_command({cmd: 'echo hi'});\n", _RAN),
        ],
        _LITE_HEADERS,
        service_tier="priority",
        reasoning={"effort": "xhigh", "context": "all_turns"},
    ),
    "codex switched model": _day(
        _LITE,
        [
            _ADDED,
            *_FRONT,
            _HELLO,
            *_SHELL,
            _THOUGHT,
            _told("final_answer"),
            _said("developer", "<model_switch>\nGo on.\n</model_switch>"),
            _said("user", "Again"),
        ],
        _LITE_HEADERS,
    ),
}
