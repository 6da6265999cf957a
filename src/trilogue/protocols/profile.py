"""What a model or server behind a protocol can really do: quirks as data, never as an `if` on a name.

`profile_for` gives the built-in profile by protocol and model name; a gateway may replace any field by configuration.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from trilogue.model import Effort, Protocol, protocol_of

ALL_EFFORTS = tuple(Effort)


class Profile(Struct, frozen=True, kw_only=True):
    """Capabilities and dialect of an upstream. Defaults: what the official API of the protocol takes."""

    efforts: tuple[Effort, ...] = ALL_EFFORTS
    """effort levels that the model takes, in order"""
    sampling: bool = True
    """takes temperature, top_p (and top_k where the protocol has it)"""
    cache_marks: bool = True
    """takes explicit cache marks; of OpenAI's models those from gpt-5.6 on do"""
    keeps_state: bool = True
    """Messages, Responses: keeps earlier turns (thread, previous_response_id, conversation); where it does not,
    requests that rely on them are refused, and clients send the whole history"""
    raw_as_summary: bool = False
    """Responses clients: raw reasoning is shown as a summary, which is all that Codex and the AI SDK show by default"""
    billing_block: bool = True
    """Messages clients: passes on the line of Claude Code's prompt with its version and a hash of each request, which
    keeps caches cold that go by the start of a prompt"""

    developer_role: bool = True
    """Chat: knows the developer role; otherwise system is used"""
    max_tokens_field: str = "max_completion_tokens"
    """Chat: the name of the output limit"""
    reasoning_field: str | None = None
    """Chat: the field of assistant messages that earlier reasoning goes to; where no profile has one it is not sent"""
    stream_usage: bool = True
    """Chat: takes stream_options.include_usage"""
    custom_tools: bool = True
    """Chat: takes free-text tools"""
    strict_tools: bool = True
    """Chat: takes `strict` on tools"""
    top_k: bool = False
    """Chat: takes top_k although the official API does not"""
    think_tags: bool = False
    """Chat: reasoning comes as <think>…</think> inside the text"""
    openai_fields: bool = True
    """Chat: takes what only OpenAI's own servers know (store, metadata, prompt_cache_key, safety_identifier, verbosity,
    service_tier, arrays of text parts); compatible servers answer some of these with an error"""
    call_signatures: bool = False
    """Chat: demands a signature on earlier tool calls, as Gemini does"""
    web_search: bool = False
    """Chat: takes web_search_options, as search models do"""

    raw_reasoning: bool = True
    """Responses: takes the words of earlier reasoning back; OpenAI's own models refuse them"""

    adaptive_thinking: bool = True
    """Messages: takes thinking adaptive with effort; otherwise a token budget"""
    budget_thinking: bool = False
    """Messages: takes thinking enabled with a budget"""
    disable_thinking: bool = True
    """Messages: takes thinking disabled"""
    forced_tool_thinking: bool = True
    """Messages: a forced tool choice may go together with thinking"""
    mid_system: bool = True
    """Messages: takes the system role in mid-conversation"""
    temperature_with_top_p: bool = True
    """Messages: takes temperature and top_p together"""
    max_output: int = 32_000
    """Messages: the output limit to send when the client gave none"""
    version: str = "2026-10-21"
    """Messages: the API version to ask for"""


_FIRST_VERSION = "2023-06-01"
"""what older models, and servers that only speak like Anthropic's, take"""
_CLAUDE_BUDGET = Profile(
    efforts=(),
    adaptive_thinking=False,
    budget_thinking=True,
    forced_tool_thinking=False,
    mid_system=False,
    max_output=8_192,
    version=_FIRST_VERSION,
)
_CLAUDE_45 = replace(_CLAUDE_BUDGET, temperature_with_top_p=False, max_output=32_000)

_MESSAGES = (
    (r"claude-(2|3|instant)", replace(_CLAUDE_BUDGET, max_output=4_096)),
    (r"claude-(opus|sonnet)-4(-0)?(-2025|$|@)|claude-opus-4-1", _CLAUDE_BUDGET),
    (r"claude-opus-4-5", replace(_CLAUDE_45, efforts=(Effort.LOW, Effort.MEDIUM, Effort.HIGH))),
    (r"claude-(haiku|sonnet)-4-5", _CLAUDE_45),
    (
        r"claude-(opus|sonnet|haiku)-4-6",
        Profile(
            efforts=(Effort.LOW, Effort.MEDIUM, Effort.HIGH, Effort.MAX),
            budget_thinking=True,
            forced_tool_thinking=False,
            mid_system=False,
            temperature_with_top_p=False,
            version=_FIRST_VERSION,
        ),
    ),
    (r"claude-opus-4-7", Profile(efforts=ALL_EFFORTS[2:], sampling=False, mid_system=False)),
    (r"claude-(fable|mythos)", Profile(efforts=ALL_EFFORTS[2:], sampling=False, disable_thinking=False)),
    (r"claude", Profile(efforts=ALL_EFFORTS[2:], sampling=False)),
    (
        r"",
        Profile(
            efforts=ALL_EFFORTS[2:], mid_system=False, version=_FIRST_VERSION, budget_thinking=True, keeps_state=False
        ),
    ),
)

COMPATIBLE: dict[str, Any] = {
    "developer_role": False,
    "max_tokens_field": "max_tokens",
    "custom_tools": False,
    "cache_marks": False,
    "top_k": True,
    "openai_fields": False,
}
"""what servers differ in that take no more than the common core of Chat Completions"""
_COMPATIBLE = Profile(**COMPATIBLE)

_MARKED = r"gpt-(5\.([6-9]|\d\d)|[6-9]|\d\d)"
"""OpenAI's models that take explicit cache marks; the others answer one with an error, and cache without being told"""

_CHAT = (
    (r"gpt-.*-search", Profile(developer_role=False, cache_marks=False, efforts=(), web_search=True)),
    (_MARKED, Profile()),
    (r"(gpt-[5-9]|o[1-9]|gpt-oss)", Profile(cache_marks=False)),
    (r"(gpt-|chatgpt)", Profile(developer_role=False, cache_marks=False, efforts=())),
    (r"gemini", replace(_COMPATIBLE, call_signatures=True)),
    (r"(deepseek|kimi|moonshot)", replace(_COMPATIBLE, reasoning_field="reasoning_content")),
    (r"", _COMPATIBLE),
)

_RESPONSES = (
    (r"gpt-oss", Profile(cache_marks=False)),
    (_MARKED, Profile(raw_reasoning=False)),
    (r"(gpt-|chatgpt|o[1-9]|codex|computer-use)", Profile(raw_reasoning=False, cache_marks=False)),
    (r"", Profile(cache_marks=False)),
)

_TABLES = {Protocol.CHAT: _CHAT, Protocol.MESSAGES: _MESSAGES, Protocol.RESPONSES: _RESPONSES}
_COMPILED = {
    protocol: tuple((re.compile(pattern), profile) for pattern, profile in table) for protocol, table in _TABLES.items()
}


def profile_for(protocol: Protocol | str, model: str) -> Profile:
    """The built-in profile of a model; the first row whose pattern is found at the start of its last name part."""
    name = model.rsplit("/", 1)[-1].lower()
    return next(profile for pattern, profile in _COMPILED[protocol_of(protocol)] if pattern.match(name))
