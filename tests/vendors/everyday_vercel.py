"""Requests of the Vercel AI SDK.

Versions: ai 6.0.326 with @ai-sdk/openai 3.0.139, @ai-sdk/anthropic 3.0.138 and @ai-sdk/openai-compatible 2.0.87.
"""

from __future__ import annotations

from tests.vendors.client_draw import JSON, Protocol
from tests.vendors.everyday_kit import PDF, PDF_DATA, PNG, PNG_DATA, SEALED, SIGNATURE, SUMMARY, Everyday

_DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}
_WEATHER: JSON = _DRAFT | {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
        "unit": {"default": "c", "type": "string", "enum": ["c", "f"]},
    },
    "required": ["city"],
    "additionalProperties": False,
}
_ANSWER: JSON = _DRAFT | {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "maxLength": 80},
        "score": {"type": "number", "minimum": 0, "maximum": 10},
    },
    "required": ["answer", "score"],
    "additionalProperties": False,
}
# For Claude, limits are moved into the description.
_ANSWER_TOLD: JSON = _DRAFT | {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "description": "max length: 80."},
        "score": {"type": "number", "description": "minimum: 0; maximum: 10."},
    },
    "additionalProperties": False,
    "required": ["answer", "score"],
}
_ABOUT = {"name": "weather", "description": "Weather"}
_CHAT_TOOL: JSON = {"type": "function", "function": _ABOUT | {"parameters": _WEATHER}}
_RESPONSES_TOOL: JSON = {"type": "function"} | _ABOUT | {"parameters": _WEATHER}
_MESSAGES_TOOL: JSON = _ABOUT | {"input_schema": _WEATHER, "eager_input_streaming": True}
_ARGUMENTS = '{"city":"Paris","unit":"c"}'
_RESULT = '{"degrees":21}'


def _text(text: str) -> JSON:
    return {"type": "text", "text": text}


def _chat_history(role: str = "system", **more: object) -> list[JSON]:
    call = {"id": "call_00abc", "type": "function", "function": {"name": "weather", "arguments": _ARGUMENTS}}
    return [
        {"role": role, "content": "Be short."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Done.", "tool_calls": [call]} | more,
        {"role": "tool", "tool_call_id": "call_00abc", "content": _RESULT},
    ]


def _responses_history(stored: bool) -> list[JSON]:
    told: JSON = {"role": "assistant", "content": [{"type": "output_text", "text": "Done."}], "phase": "commentary"}
    thought: JSON = {"type": "reasoning", "id": "rs_01", "encrypted_content": SEALED, "summary": SUMMARY}
    return [
        {"role": "developer", "content": "Be short."},
        {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        *([told] if stored else [thought, told | {"id": "msg_01"}]),
        {"type": "function_call", "call_id": "call_00abc", "name": "weather", "arguments": _ARGUMENTS},
        {"type": "function_call_output", "call_id": "call_00abc", "output": _RESULT},
    ]


_MESSAGES_HISTORY: list[JSON] = [
    {"role": "user", "content": [_text("Hello")]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Let me see.", "signature": SIGNATURE},
            _text("Looking."),
            {"type": "tool_use", "id": "toolu_00abc", "name": "weather", "input": {"city": "Paris", "unit": "c"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_00abc", "content": _RESULT}]},
]
_STREAM: JSON = {"stream": True, "stream_options": {"include_usage": True}}
_HI: JSON = {"role": "user", "content": [_text("Hello")]}
_PDF_BLOCK: JSON = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
    "title": "a.pdf",
}
_CHAT_FORMAT: JSON = {
    "type": "json_schema",
    "json_schema": {"schema": _ANSWER, "strict": True, "name": "response"},
}
_AGENTS: dict[str, str] = {
    "messages": "ai-sdk/anthropic/3.0.138 ai-sdk/provider-utils/4.0.64",
    "chat": "ai-sdk/openai/3.0.139 ai-sdk/provider-utils/4.0.65",
    "responses": "ai-sdk/openai/3.0.139 ai-sdk/provider-utils/4.0.65",
    "compatible": "ai-sdk/openai-compatible/2.0.87 ai-sdk/provider-utils/4.0.62",
}


def _day(protocol: Protocol, body: JSON, beta: str = "", kind: str = "") -> Everyday:
    key = {"x-api-key": "the-key"} if protocol == "messages" else {"authorization": "Bearer the-key"}
    version = {"anthropic-version": "2023-06-01"} if protocol == "messages" else {}
    betas = {"anthropic-beta": beta} if beta else {}
    # Without streaming, the package names itself instead of the provider.
    provider, utils = _AGENTS[kind or protocol].split()
    agent = f"{provider if body.get('stream') else 'ai/6.0.326'} {utils}"
    common = {"content-type": "application/json", "user-agent": f"{agent} runtime/node.js/v20.20.2"}
    return Everyday("Vercel AI SDK", protocol, body, common | key | version | betas)


_BETA = "structured-outputs-2025-11-13"
VERCEL: dict[str, Everyday] = {
    "vercel messages budget": _day(
        "messages",
        {
            "model": "claude-sonnet-4-5",
            # The package adds the thinking budget to the limit that the program sets.
            "max_tokens": 6000,
            "thinking": {"type": "enabled", "budget_tokens": 2000},
            "system": [_text("Be short.")],
            "messages": _MESSAGES_HISTORY,
            "tools": [_MESSAGES_TOOL],
            "tool_choice": {"type": "auto"},
            "stream": True,
        },
        _BETA,
    ),
    "vercel messages adaptive": _day(
        "messages",
        {
            "model": "claude-opus-4-8",
            "max_tokens": 128000,
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "max"},
            "cache_control": {"type": "ephemeral"},
            "system": [_text("Be short.")],
            "messages": _MESSAGES_HISTORY,
            "tools": [_MESSAGES_TOOL],
            "tool_choice": {"type": "any"},
            "stream": True,
        },
        _BETA,
    ),
    "vercel messages media": _day(
        "messages",
        {
            "model": "claude-opus-4-8",
            "max_tokens": 128000,
            "stop_sequences": ["END"],
            "messages": [
                {
                    "role": "user",
                    "content": [
                        _text("Look"),
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                        _PDF_BLOCK,
                    ],
                }
            ],
        },
        "pdfs-2024-09-25",
    ),
    "vercel messages object": _day(
        "messages",
        {
            "model": "claude-opus-4-8",
            "max_tokens": 128000,
            "output_config": {"format": {"type": "json_schema", "schema": _ANSWER_TOLD}},
            "messages": [_HI],
        },
    ),
    # Models without structured outputs have to call a tool instead.
    "vercel messages object by tool": _day(
        "messages",
        {
            "model": "claude-3-7-sonnet-latest",
            "max_tokens": 4096,
            "messages": [_HI],
            "tools": [{"name": "json", "description": "Answers.", "input_schema": _ANSWER}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        },
    ),
    "vercel messages web search": _day(
        "messages",
        {
            "model": "claude-opus-4-8",
            "max_tokens": 128000,
            "messages": [_HI],
            "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}, _MESSAGES_TOOL],
            "tool_choice": {"type": "auto"},
            "stream": True,
        },
        _BETA,
    ),
    "vercel responses sealed": _day(
        "responses",
        {
            "model": "gpt-5.4",
            "input": _responses_history(stored=False),
            "max_output_tokens": 4000,
            "parallel_tool_calls": False,
            "store": False,
            "service_tier": "flex",
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "high", "summary": "auto"},
            "tools": [_RESPONSES_TOOL],
            "tool_choice": "auto",
            "stream": True,
        },
    ),
    "vercel responses plain": _day(
        "responses",
        {
            "model": "gpt-5.4",
            "input": _responses_history(stored=True),
            "tools": [_RESPONSES_TOOL],
            "tool_choice": "auto",
            "stream": True,
        },
    ),
    "vercel responses web search": _day(
        "responses",
        {
            "model": "gpt-5.4",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}],
            "include": ["web_search_call.action.sources"],
            "tools": [{"type": "web_search", "search_context_size": "low"}, _RESPONSES_TOOL],
            "tool_choice": "auto",
            "stream": True,
        },
    ),
    "vercel responses object": _day(
        "responses",
        {
            "model": "gpt-4.1",
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "Look"},
                        {"type": "input_image", "image_url": PNG_DATA},
                        {"type": "input_file", "filename": "a.pdf", "file_data": PDF_DATA},
                    ],
                }
            ],
            "temperature": 0.2,
            "top_p": 0.9,
            "text": {"format": {"type": "json_schema", "strict": True, "name": "response", "schema": _ANSWER}},
        },
    ),
    "vercel chat sampling": _day(
        "chat",
        _STREAM
        | {
            "model": "gpt-4.1",
            "max_tokens": 500,
            "temperature": 0.3,
            "frequency_penalty": 0.5,
            "stop": ["END"],
            "seed": 7,
            "messages": _chat_history(),
            "tools": [_CHAT_TOOL],
            "tool_choice": {"type": "function", "function": {"name": "weather"}},
        },
    ),
    "vercel chat reasoning": _day(
        "chat",
        _STREAM
        | {
            "model": "gpt-5.4",
            "user": "u1",
            "verbosity": "low",
            "max_completion_tokens": 500,
            "reasoning_effort": "minimal",
            "prompt_cache_key": "k",
            "messages": _chat_history("developer"),
            "tools": [_CHAT_TOOL],
            "tool_choice": "auto",
        },
    ),
    "vercel chat object": _day(
        "chat",
        {
            "model": "gpt-4.1",
            "response_format": _CHAT_FORMAT,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        _text("Look"),
                        {"type": "image_url", "image_url": {"url": PNG_DATA}},
                        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF_DATA}},
                    ],
                }
            ],
        },
    ),
    "vercel compatible results": _day(
        "chat",
        _STREAM
        | {
            "model": "some-model",
            "temperature": 0,
            "reasoning_effort": "low",
            "messages": _chat_history(reasoning_content="Hm."),
            "tools": [_CHAT_TOOL],
            "tool_choice": "auto",
        },
        kind="compatible",
    ),
    # JSON mode without the word JSON in any message, which OpenAI itself refuses.
    "vercel compatible object": _day(
        "chat",
        {
            "model": "some-model",
            "response_format": {"type": "json_object"},
            "messages": [
                {
                    "role": "user",
                    "content": [_text("Look"), {"type": "image_url", "image_url": {"url": PNG_DATA}}],
                }
            ],
        },
        kind="compatible",
    ),
}
