"""Requests with the structure of those of opencode 1.18.33, which speaks all three protocols."""

from __future__ import annotations

from tests.vendors.client_draw import JSON, Protocol
from tests.vendors.everyday_kit import SEALED, SIGNATURE, SUMMARY, Everyday, prop

_SESSION = "ses_e1ad88352ffe3uz2Gb4MvU4rJK"
_MARK: JSON = {"cache_control": {"type": "ephemeral"}}
_AGENTS = {"messages": "4.0.46", "responses": "4.0.40", "chat": "4.0.23"}
_HUGE = 9007199254740991


def _headers(protocol: Protocol, **more: str) -> dict[str, str]:
    key = {"x-api-key": "the-key"} if protocol == "messages" else {"authorization": "Bearer the-key"}
    version = {"anthropic-version": "2023-06-01"} if protocol == "messages" else {}
    agent = f"opencode/1.18.33 ai-sdk/provider-utils/{_AGENTS[protocol]} runtime/bun/1.3.14"
    session = {"x-session-affinity": _SESSION, "x-session-id": _SESSION}
    return {"content-type": "application/json", "user-agent": agent, "accept": "*/*"} | key | version | session | more


def _schema(properties: JSON, *required: str) -> JSON:
    # Open objects: properties that are not listed are allowed.
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return draft | {"type": "object", "properties": properties, "required": list(required)}


_TODO: JSON = {
    "type": "object",
    "properties": {"content": prop("string"), "status": prop("string")},
    "required": ["content", "status"],
}
_SCHEMAS: dict[str, JSON] = {
    "bash": _schema(
        {
            "command": prop("string"),
            "timeout": prop("integer", minimum=-_HUGE, exclusiveMinimum=0, maximum=_HUGE),
            "workdir": prop("string"),
        },
        "command",
    ),
    "read": _schema({"filePath": prop("string"), "offset": prop("integer", minimum=0, maximum=_HUGE)}, "filePath"),
    "todowrite": _schema({"todos": prop("array", items=_TODO)}, "todos"),
    "webfetch": _schema(
        {
            "url": prop("string"),
            "format": prop("string", enum=["text", "markdown", "html"], default="markdown"),
            "timeout": prop("number"),
        },
        "url",
    ),
}
_ABOUT = "Does a thing."
_CHAT_TOOLS: list[JSON] = [
    {"type": "function", "function": {"name": name, "description": _ABOUT, "parameters": schema}}
    for name, schema in _SCHEMAS.items()
]
# For OpenAI the schemas are simplified: no draft, no limits, no defaults.
_KEPT = ("type", "description", "properties", "required", "items", "enum")


def _plain(schema: JSON) -> JSON:
    kept = {key: value for key, value in schema.items() if key in _KEPT}
    if "properties" in kept:
        kept["properties"] = {name: _plain(inner) for name, inner in kept["properties"].items()}
    return kept


_RESPONSES_TOOLS: list[JSON] = [
    {"type": "function", "name": name, "description": _ABOUT, "parameters": _plain(schema), "strict": False}
    for name, schema in _SCHEMAS.items()
]
_MESSAGES_TOOLS: list[JSON] = [
    {"name": name, "description": _ABOUT, "input_schema": schema, "eager_input_streaming": True}
    for name, schema in _SCHEMAS.items()
]
_ARGUMENTS = '{"command":"echo hi","description":"Say hi"}'


def _text(text: str, marked: bool = False) -> JSON:
    return {"type": "text", "text": text} | (_MARK if marked else {})


def _part(text: str) -> JSON:
    return {"type": "input_text", "text": text}


_CHAT: JSON = {"max_tokens": 32000, "stream": True, "stream_options": {"include_usage": True}}
_CHAT_HISTORY: list[JSON] = [
    {"role": "system", "content": "You help with code."},
    {"role": "user", "content": "Say hello"},
    {
        "role": "assistant",
        "content": "Done.",
        "reasoning_content": "Hm.",
        "tool_calls": [
            {"id": "call_00abc", "type": "function", "function": {"name": "bash", "arguments": _ARGUMENTS}},
        ],
    },
    {"role": "tool", "tool_call_id": "call_00abc", "content": "hi\n"},
]
_RESPONSES: JSON = {
    "model": "gpt-5.4",
    "max_output_tokens": 32000,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "stream": True,
}
# Items without an id, and turns without a type.
_RESPONSES_HISTORY: list[JSON] = [
    {"role": "developer", "content": "You help with code."},
    {"role": "user", "content": [_part("Say hello")]},
    {"type": "reasoning", "encrypted_content": SEALED, "summary": SUMMARY},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Done."}], "phase": "commentary"},
    {"type": "function_call", "call_id": "call_00abc", "name": "bash", "arguments": _ARGUMENTS},
    {"type": "function_call_output", "call_id": "call_00abc", "output": "hi\n"},
]
_MESSAGES: JSON = {
    "model": "claude-opus-4-8",
    "max_tokens": 32000,
    "system": [_text("You help with code.", True)],
    "stream": True,
}
_WITH_TOOLS: JSON = {"tools": _MESSAGES_TOOLS, "tool_choice": {"type": "auto"}}
_USE: JSON = {
    "type": "tool_use",
    "id": "toolu_00abc",
    "name": "bash",
    "input": {"command": "echo hi", "description": "Say hi"},
} | _MARK
_RESULT: JSON = {"type": "tool_result", "tool_use_id": "toolu_00abc", "content": "hi\n"} | _MARK
_THOUGHT: JSON = {"type": "thinking", "thinking": "Let me see.", "signature": SIGNATURE}


def _messages_history(*thoughts: JSON) -> list[JSON]:
    return [
        {"role": "user", "content": [_text("Say hello")]},
        {"role": "assistant", "content": [*thoughts, _text("Looking."), _USE]},
        {"role": "user", "content": [_RESULT]},
    ]


def _day(protocol: Protocol, body: JSON, **more: str) -> Everyday:
    return Everyday("opencode", protocol, body, _headers(protocol, **more))


_BETA = {"anthropic-beta": "structured-outputs-2025-11-13"}
OPENCODE: dict[str, Everyday] = {
    "opencode title": _day(
        "chat",
        _CHAT
        | {
            "model": "some-model",
            "messages": [
                {"role": "system", "content": "You make titles."},
                {"role": "user", "content": "Make a title:\n"},
                {"role": "user", "content": "Say hello"},
            ],
        },
    ),
    "opencode chat results": _day(
        "chat",
        _CHAT
        | {
            "model": "some-model",
            "reasoning_effort": "high",
            "messages": _CHAT_HISTORY,
            "tools": _CHAT_TOOLS,
            "tool_choice": "auto",
        },
    ),
    "opencode responses title": _day(
        "responses",
        _RESPONSES
        | {
            "input": [
                {"role": "developer", "content": "You make titles."},
                {"role": "user", "content": [_part("Make a title:\n")]},
                {"role": "user", "content": [_part("Say hello")]},
            ],
        },
    ),
    "opencode responses results": _day(
        "responses",
        _RESPONSES
        | {
            "input": _RESPONSES_HISTORY,
            "text": {"verbosity": "low"},
            "prompt_cache_key": _SESSION,
            "reasoning": {"effort": "medium", "summary": "auto"},
            "tools": _RESPONSES_TOOLS,
            "tool_choice": "auto",
        },
    ),
    "opencode messages title": _day(
        "messages",
        _MESSAGES
        | {"messages": [{"role": "user", "content": [_text("Make a title:\n", True), _text("Say hello", True)]}]},
    ),
    "opencode messages results": _day("messages", _MESSAGES | _WITH_TOOLS | {"messages": _messages_history()}, **_BETA),
    "opencode messages budget": _day(
        "messages",
        _MESSAGES
        | _WITH_TOOLS
        | {
            "model": "claude-sonnet-4-5",
            "max_tokens": 48000,
            "thinking": {"type": "enabled", "budget_tokens": 16000},
            "messages": _messages_history(_THOUGHT),
        },
        **_BETA,
    ),
}
