"""Requests with the structure of those of Claude Code 2.1.197 in print mode."""

from __future__ import annotations

import json

from tests.vendors.client_draw import JSON
from tests.vendors.everyday_kit import PDF, PNG, SIGNATURE, Everyday, closed, prop

_SESSION = "11111111-2222-4333-8444-555555555555"
_MARK: JSON = {"cache_control": {"type": "ephemeral"}}
_BETAS = (
    "claude-code-20250219,interleaved-thinking-2025-05-14,thinking-token-count-2026-05-13,"
    "context-management-2025-06-27,prompt-caching-scope-2026-01-05"
)
_MID = f"{_BETAS},mid-conversation-system-2026-04-07,effort-2025-11-24"
_MID_1M = _MID.replace("20250219,", "20250219,context-1m-2025-08-07,")
# The smallest models get the same betas in another order.
_SMALL = _BETAS.replace("claude-code-20250219,", "") + ",claude-code-20250219"


def _headers(betas: str, **more: str) -> dict[str, str]:
    return {
        "accept": "application/json",
        "authorization": "Bearer the-key",
        "content-type": "application/json",
        "user-agent": "claude-cli/2.1.197 (external, sdk-cli)",
        "x-claude-code-session-id": _SESSION,
        "x-stainless-arch": "x64",
        "x-stainless-lang": "js",
        "x-stainless-os": "Linux",
        "x-stainless-package-version": "0.94.0",
        "x-stainless-retry-count": "0",
        "x-stainless-runtime": "node",
        "x-stainless-runtime-version": "v26.3.0",
        "x-stainless-timeout": "600",
        "anthropic-beta": betas,
        "anthropic-dangerous-direct-browser-access": "true",
        "anthropic-version": "2023-06-01",
        "x-app": "cli",
    } | more


def _tool(name: str, properties: JSON, *required: str) -> JSON:
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {"name": name, "description": "Does a thing.", "input_schema": draft | closed(properties, *required)}


_HUGE = 9007199254740991
_FINDING = closed(
    {
        "file": prop("string"),
        "line": prop("integer", minimum=-_HUGE, maximum=_HUGE),
        "verdict": prop("string", enum=["YES", "NO"]),
    },
    "file",
)
_MAP = {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {}, "description": "A map."}
_STATUS: JSON = {
    "description": "A state.",
    "anyOf": [{"type": "string", "enum": ["pending", "completed"]}, {"type": "string", "const": "deleted"}],
}
TOOLS = [
    _tool("Bash", {"command": prop("string"), "timeout": prop("number"), "background": prop("boolean")}, "command"),
    _tool("CronList", {}),
    _tool("Edit", {"file_path": prop("string"), "replace_all": prop("boolean", default=False)}, "file_path"),
    _tool("EnterWorktree", {"name": prop("string"), "path": prop("string")}),
    _tool(
        "Read",
        {
            "file_path": prop("string"),
            "offset": prop("integer", minimum=0, maximum=_HUGE),
            "limit": prop("integer", exclusiveMinimum=0, maximum=_HUGE),
        },
        "file_path",
    ),
    _tool("ReportFindings", {"findings": prop("array", maxItems=32, items=_FINDING)}, "findings"),
    _tool("SendMessage", {"to": prop("string"), "summary": prop("string", maxLength=200)}, "to"),
    _tool(
        "TaskOutput",
        {
            "block": prop("boolean", default=True),
            "timeout": prop("number", default=30000, minimum=0, maximum=600000),
        },
        "block",
        "timeout",
    ),
    _tool("TaskUpdate", {"taskId": prop("string"), "status": _STATUS, "metadata": _MAP}, "taskId"),
    _tool("WebFetch", {"url": prop("string", format="uri"), "prompt": prop("string")}, "url", "prompt"),
    _tool(
        "WebSearch",
        {"query": prop("string", minLength=2), "domains": prop("array", items={"type": "string"})},
        "query",
    ),
    _tool(
        "Workflow",
        {
            "script": prop("string", maxLength=524288),
            "args": {"description": "Anything."},
            "run": prop("string", pattern="^wf_[a-z0-9-]{6,}$"),
        },
    ),
]
_USER_ID = json.dumps({"device_id": "0123456789abcdef" * 4, "account_uuid": "", "session_id": _SESSION}).replace(
    " ", ""
)
_METADATA = {"user_id": _USER_ID}


def _text(text: str, marked: bool = False) -> JSON:
    return {"type": "text", "text": text} | (_MARK if marked else {})


def _system(*texts: str, extra: str = "", marked: bool = True) -> list[JSON]:
    # The first block changes with every request, so it is not cached.
    billing = f"x-anthropic-billing-header: cc_version=2.1.197.1c0; cc_entrypoint=sdk-cli;{extra}"
    return [_text(billing), *(_text(text, marked) for text in texts)]


def _reminder(text: str) -> JSON:
    return _text(f"<system-reminder>\n{text}\n</system-reminder>\n")


def _user(text: str, marked: bool = True) -> JSON:
    return {"role": "user", "content": [_reminder("Today is Monday."), _text(text, marked)]}


def _thinking(*blocks: JSON) -> JSON:
    thought = {"type": "thinking", "thinking": "Let me see.", "signature": SIGNATURE}
    return {"role": "assistant", "content": [thought, *blocks]}


def _use(number: int, name: str, value: JSON) -> JSON:
    return {"type": "tool_use", "id": f"toolu_0{number}abc", "name": name, "input": value}


def _result(number: int, **more: object) -> JSON:
    return {"tool_use_id": f"toolu_0{number}abc", "type": "tool_result"} | more


def _old_user(marked: bool) -> JSON:
    # Models that do not accept instructions in the middle get them as reminders.
    reminders = [_reminder(text) for text in ("Helpers.", "Skills.", "Today is Monday.")]
    return {"role": "user", "content": [*reminders, _text("Say hello", marked)]}


# Instructions in their own turn, after the first user turn and, in the first request, at the end.
_HELPERS: JSON = {"role": "system", "content": "Helpers:\n- one: does a thing"}
_KEEP: JSON = {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
_SAYS = _system("You are a helper.", "\nYou help with code.")
_BASE: JSON = {"model": "claude-opus-4-8", "system": _SAYS, "tools": TOOLS, "metadata": _METADATA}
_NEW: JSON = (
    _BASE | _KEEP | {"max_tokens": 64000, "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}
)
_CALLS = _thinking(
    _text("Looking."),
    _use(0, "Bash", {"command": "echo hi", "background": False}),
    _use(1, "Read", {"file_path": "/notes.txt"}),
)
# The results come in the order in which the tools finished.
_ANSWERS: JSON = {
    "role": "user",
    "content": [_result(1, content="1\tnotes"), _result(0, content="hi", is_error=False, **_MARK)],
}
_READS = _thinking(_text("Looking."), *(_use(n, "Read", {"file_path": f"/{n}"}) for n in range(3)))
_MEDIA: JSON = {
    "role": "user",
    "content": [
        {"type": "tool_result", "content": "No such file.", "is_error": True, "tool_use_id": "toolu_02abc"},
        _result(0, content=[{"type": "image", "source": {"type": "base64", "data": PNG, "media_type": "image/png"}}]),
        _result(1, content="A paper."),
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}} | _MARK,
    ],
}
_SHAPED: JSON = {
    "name": "StructuredOutput",
    "description": "Returns the answer.",
    "input_schema": {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
}


def _said(body: JSON, betas: str = _MID, **more: str) -> Everyday:
    return Everyday("Claude Code", "messages", body | {"stream": True}, _headers(betas, **more))


CLAUDE_CODE: dict[str, Everyday] = {
    "claude-code first turn": _said(_NEW | {"messages": [_user("Say hello"), _HELPERS]}, _MID_1M),
    "claude-code results": _said(_NEW | {"messages": [_user("Say hello", False), _HELPERS, _CALLS, _ANSWERS]}),
    "claude-code other model": _said(
        _NEW | {"model": "gpt-5.4", "max_tokens": 32000, "messages": [_user("Say hello"), _HELPERS]}
    ),
    "claude-code budget": _said(
        _BASE
        | _KEEP
        | {
            "model": "claude-sonnet-4-5-20250929",
            "max_tokens": 32000,
            "thinking": {"budget_tokens": 31999, "type": "enabled"},
            "messages": [_old_user(False), _CALLS, _ANSWERS],
        },
        _BETAS,
    ),
    "claude-code thinking off": _said(
        _BASE
        | {
            "model": "claude-haiku-4-5",
            "max_tokens": 32000,
            "thinking": {"type": "disabled"},
            "temperature": 1,
            "messages": [_old_user(True)],
        },
        _SMALL,
    ),
    "claude-code web search": _said(
        {
            "model": "claude-opus-4-8",
            "messages": [{"role": "user", "content": [_text("Search for rain")]}],
            "system": _system("You are a helper.", "You search.", marked=False),
            "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
            "tool_choice": {"type": "tool", "name": "web_search"},
            "metadata": _METADATA,
            "max_tokens": 64000,
            "thinking": {"type": "disabled"},
            "output_config": {"effort": "high"},
        }
    ),
    "claude-code media": _said(_NEW | {"messages": [_user("Look", False), _HELPERS, _READS, _MEDIA]}),
    "claude-code subagent": _said(
        _BASE
        | {
            "model": "claude-sonnet-4-6",
            "system": _system("You are a helper.", "You look.", extra=" cc_is_subagent=true;"),
            "max_tokens": 32000,
            "thinking": {"type": "disabled"},
            "temperature": 1,
            "output_config": {"effort": "high"},
            "messages": [
                {"role": "user", "content": [_reminder("Skills."), _reminder("Monday."), _text("Look around", True)]}
            ],
        },
        f"{_BETAS},effort-2025-11-24",
        **{"x-claude-code-agent-id": "a0123456789abcdef"},
    ),
    "claude-code plan": _said(
        _NEW | {"output_config": {"effort": "max"}, "messages": [_user("Plan it"), _HELPERS]},
    ),
    "claude-code no tools": _said(_NEW | {"model": "claude-sonnet-5", "tools": [], "messages": [_user("Say hello")]}),
    "claude-code shaped answer": _said(
        _NEW
        | {
            "tools": [*TOOLS, _SHAPED],
            "messages": [
                _user("Say hello", False),
                _HELPERS,
                _thinking(_text("Done.")),
                {"role": "user", "content": [_text("Return it with the tool.", True)]},
            ],
        },
        _MID_1M,
    ),
}
