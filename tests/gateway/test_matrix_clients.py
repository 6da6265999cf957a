"""What popular clients send by default is never refused, whatever the upstream: requests as they come from the wire."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.pairs import PATHS
from tests.gateway.running import Gateway
from tests.judges import sdk
from tests.scripted.server import ScriptedUpstream
from trilogue.lint import lint_request, lint_stream
from trilogue.model import Protocol

CACHED = {"type": "ephemeral"}
READ_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"file_path": {"type": "string"}, "offset": {"type": "number"}},
    "required": ["file_path"],
    "additionalProperties": False,
}
CLAUDE_CODE: dict[str, Any] = {
    "max_tokens": 32000,
    "stream": True,
    "metadata": {"user_id": "user_0f_account__session_1"},
    "thinking": {"type": "adaptive"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"},
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=00000;"},
        {"type": "text", "text": "You are Claude Code.", "cache_control": CACHED},
    ],
    "tools": [
        {"name": "Read", "description": "Reads a file", "input_schema": READ_SCHEMA},
        {"name": "Bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "<system-reminder>Hi</system-reminder>"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [{"type": "text", "text": "no such file"}],
                    "is_error": True,
                    "cache_control": CACHED,
                },
            ],
        },
    ],
}
CODEX: dict[str, Any] = {
    "stream": True,
    "store": False,
    "instructions": "You are a coding agent.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it"}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "call_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "a.py"},
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": "call_2"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Done"},
    ],
    "tools": [
        {
            "type": "function",
            "name": "shell",
            "description": "Runs a command",
            "strict": False,
            "parameters": {"type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}}},
        },
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Edits files",
            "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin Patch"'},
        },
        {"type": "web_search", "external_web_access": False},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0199-session",
    "client_metadata": {"session": "1"},
    "text": {"verbosity": "low"},
}
AI_SDK: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "temperature": 0,
    "max_tokens": 500,
    "tool_choice": "auto",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    "tools": [{"type": "function", "function": {"name": "read", "parameters": READ_SCHEMA}}],
}

CLIENTS: dict[str, tuple[Protocol, dict[str, Any], dict[str, str]]] = {
    "claude-code": (
        Protocol.MESSAGES,
        CLAUDE_CODE,
        {
            "anthropic-version": "2023-06-01",
            "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
            "x-app": "cli",
        },
    ),
    "codex": (Protocol.RESPONSES, CODEX, {"originator": "codex_cli_rs", "session_id": "0199"}),
    "ai-sdk": (Protocol.CHAT, AI_SDK, {}),
}


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: f"to-{protocol.short}")
def test_defaults(gateway: Gateway, up: ScriptedUpstream, name: str, upstream: Protocol) -> None:
    """Both sides are as their protocols want them."""
    client, asked, headers = CLIENTS[name]
    query = "?beta=true" if client is Protocol.MESSAGES else ""
    request = {**asked, "model": f"{upstream.short}/text"}
    answer = gateway.http.post(PATHS[client] + query, json=request, headers=headers)
    assert (answer.status_code, answer.text[:300] if answer.status_code > 200 else "") == (200, "")
    if client is upstream:
        return
    sent = up.last(PATHS[upstream]).json
    found = [*lint_stream(client, answer.content, request=request), *lint_request(upstream, sent)]
    assert [str(finding) for finding in found if finding.severity == "error"] == []
    assert sdk.request_problems(upstream, sent) == []
