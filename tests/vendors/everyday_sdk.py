"""Requests of the official Python packages and of packages based on them, using the helpers of each.

Versions: openai 3.49.0, anthropic 2.8.0, langchain-openai 1.7.3, langchain-anthropic 1.7.7, pydantic-ai 2.66.0.
"""

from __future__ import annotations

from tests.vendors.client_draw import JSON, Protocol
from tests.vendors.everyday_kit import PNG_DATA, SEALED, SIGNATURE, SUMMARY, Everyday

_STAINLESS = {
    "x-stainless-lang": "python",
    "x-stainless-os": "Linux",
    "x-stainless-arch": "x64",
    "x-stainless-runtime": "CPython",
    "x-stainless-runtime-version": "3.11.7",
    "x-stainless-async": "false",
    "x-stainless-retry-count": "0",
}
_PLAIN = {"accept": "application/json", "content-type": "application/json", "authorization": "Bearer the-key"}


def _headers(protocol: Protocol, agent: str, **more: str) -> dict[str, str]:
    # The newer package of Anthropic sends its key as a bearer token and uses the version of October 2026.
    anthropic = {
        "x-stainless-package-version": "2.8.0",
        "anthropic-version": "2026-10-21",
        "x-stainless-timeout": "600",
    }
    openai = {"x-stainless-package-version": "3.49.0"}
    own = anthropic if protocol == "messages" else openai
    return _PLAIN | {"user-agent": agent} | _STAINLESS | own | more


_AGENTS: dict[Protocol, str] = {
    "chat": "OpenAI/Python 3.49.0",
    "responses": "OpenAI/Python 3.49.0",
    "messages": "Anthropic/Python 2.8.0",
}


def _day(client: str, protocol: Protocol, body: JSON, agent: str = "", **more: str) -> Everyday:
    wrapped = {"x-stainless-raw-response": "true"} if client == "langchain" else {"x-stainless-read-timeout": "600"}
    headers = _headers(protocol, agent or _AGENTS[protocol], **wrapped, **more)
    stateful = "previous_response_id" in body or body.get("thread", {}).get("type") == "continue"
    return Everyday(client, protocol, body, headers, stateful)


# A schema as pydantic makes it, with titles everywhere; the helper of openai makes it closed and strict.
_ANSWER: JSON = {
    "properties": {
        "answer": {"maxLength": 80, "title": "Answer", "type": "string"},
        "city": {"title": "City", "type": "string"},
        "score": {"title": "Score", "type": "integer"},
    },
    "required": ["answer", "city", "score"],
    "title": "Answer",
    "type": "object",
    "additionalProperties": False,
}
# The helper of anthropic moves limits into the description, because its server accepts none.
_ANSWER_TOLD: JSON = {
    "type": "object",
    "title": "Answer",
    "properties": {
        "answer": {"type": "string", "title": "Answer", "description": "{maxLength: 80}"},
        "score": {"type": "integer", "title": "Score"},
    },
    "additionalProperties": False,
    "required": ["answer", "score"],
}
_WEATHER: JSON = {
    "description": "Weather",
    "properties": {
        "city": {"title": "City", "type": "string"},
        "unit": {"default": "c", "enum": ["c", "f"], "title": "Unit", "type": "string"},
    },
    "required": ["city"],
    "title": "Weather",
    "type": "object",
}
_STRICT = _WEATHER | {"required": ["city", "unit"], "additionalProperties": False}
_OPEN: JSON = {
    "properties": {"city": {"type": "string"}, "days": {"default": 1, "type": "integer"}},
    "required": ["city"],
    "type": "object",
}
_CLOSED = {"additionalProperties": False} | _OPEN
_TITLED = _CLOSED | {"properties": {"city": {"description": "A city.", "title": "City", "type": "string"}}}
_HI: JSON = {"role": "user", "content": "Hello"}
_ARGUMENTS = '{"city": "Paris"}'
_CALL: JSON = {"type": "function", "id": "call_00abc", "function": {"name": "get_weather", "arguments": _ARGUMENTS}}
_RESULT: JSON = {"role": "tool", "tool_call_id": "call_00abc", "content": "21"}
_THOUGHT: JSON = {"id": "rs_01", "summary": SUMMARY, "type": "reasoning", "encrypted_content": SEALED}
_TOLD: JSON = {
    "id": "msg_01",
    "content": [{"annotations": [], "text": "Done.", "type": "output_text"}],
    "role": "assistant",
    "type": "message",
    "phase": "commentary",
}
_WITH_LOGPROBS: JSON = {"annotations": [], "text": "Done.", "type": "output_text", "logprobs": []}
_FUNCTION_CALL: JSON = {
    "arguments": _ARGUMENTS,
    "call_id": "call_00abc",
    "name": "get_weather",
    "type": "function_call",
    "id": "fc_00",
}
_OUTPUT: JSON = {"type": "function_call_output", "call_id": "call_00abc", "output": "21"}
_SEALED_TOO: JSON = {"include": ["reasoning.encrypted_content"]}
_LOOK: JSON = {
    "role": "user",
    "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": PNG_DATA}}],
}
_USE: JSON = {"id": "toolu_00abc", "input": {"city": "Paris"}, "name": "get_weather", "type": "tool_use"}
_MESSAGES_THOUGHT: JSON = {"signature": SIGNATURE, "thinking": "Let me see.", "type": "thinking"}
_LOOKING: JSON = {"text": "Looking.", "type": "text"}
_CLAUDE: JSON = {"model": "claude-opus-4-8"}


def _function(schema: JSON, **more: object) -> JSON:
    function = {"name": "get_weather", "description": "Weather", "parameters": schema} | more
    return {"type": "function", "function": function}


def _flat(schema: JSON, **more: object) -> JSON:
    return {"type": "function", "name": "get_weather", "description": "Weather", "parameters": schema} | more


def _tool(schema: JSON) -> JSON:
    return {"name": "get_weather", "description": "Weather", "input_schema": schema}


def _answered(**more: object) -> JSON:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_00abc"} | more]}


_RUNNER = {"anthropic-beta": "message-threads-2026-08-12", "x-stainless-helper": "BetaToolRunner, message-thread"}
_FORMAT: JSON = {"type": "json_schema", "strict": True, "name": "Answer", "schema": _ANSWER}
OPENAI: dict[str, Everyday] = {
    "openai chat parse": _day(
        "openai",
        "chat",
        {
            "model": "gpt-5.4",
            "stream": False,
            "messages": [{"role": "developer", "content": "Be short."}, _LOOK],
            "max_completion_tokens": 900,
            "reasoning_effort": "low",
            "response_format": {
                "type": "json_schema",
                "json_schema": {"schema": _ANSWER, "name": "Answer", "strict": True},
            },
        },
        **{"x-stainless-helper-method": "chat.completions.parse"},
    ),
    "openai chat stream": _day(
        "openai",
        "chat",
        {
            "model": "gpt-4.1",
            "stream": True,
            "messages": [_HI],
            "stream_options": {"include_usage": True},
            "temperature": 0.2,
            "tools": [_function(_STRICT, strict=True)],
        },
        **{"x-stainless-helper-method": "chat.completions.stream"},
    ),
    "openai responses parse": _day(
        "openai",
        "responses",
        {
            "model": "gpt-5.4",
            "input": "Hello",
            "instructions": "Be short.",
            "reasoning": {"effort": "low", "summary": "auto"},
            "text": {"format": _FORMAT},
        },
    ),
    "openai responses results": _day(
        "openai",
        "responses",
        _SEALED_TOO
        | {
            "model": "gpt-5.4",
            "input": [
                _HI,
                _THOUGHT,
                _TOLD | {"content": [_WITH_LOGPROBS], "status": "completed"},
                _FUNCTION_CALL | {"status": "completed"},
                _OUTPUT,
            ],
            "reasoning": {"effort": "medium"},
            "store": False,
            "tools": [_flat(_STRICT, strict=True)],
        },
    ),
    "openai responses continued": _day(
        "openai",
        "responses",
        {
            "model": "gpt-4.1",
            "input": "Again",
            "max_output_tokens": 300,
            "previous_response_id": "resp_01",
            "truncation": "auto",
        },
    ),
}
ANTHROPIC: dict[str, Everyday] = {
    "anthropic parse": _day(
        "anthropic",
        "messages",
        _CLAUDE
        | {
            "max_tokens": 1000,
            "messages": [_HI],
            "output_config": {"format": {"schema": _ANSWER_TOLD, "type": "json_schema"}},
        },
        **{"x-stainless-helper": "messages.parse"},
    ),
    "anthropic stream": _day(
        "anthropic",
        "messages",
        _CLAUDE
        | {
            "max_tokens": 4000,
            "messages": [_HI],
            "output_config": {"effort": "low"},
            "system": [
                {"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            ],
            "tools": [_tool(_WEATHER)],
            "thinking": {"type": "adaptive"},
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            "stream": True,
        },
        **{
            "x-stainless-helper-method": "stream",
            "x-stainless-stream-helper": "messages",
            "x-stainless-timeout": "NOT_GIVEN",
        },
    ),
    "anthropic results": _day(
        "anthropic",
        "messages",
        _CLAUDE
        | {
            "max_tokens": 4000,
            "messages": [
                _HI,
                {"role": "assistant", "content": [_MESSAGES_THOUGHT, _LOOKING, _USE]},
                _answered(content=[{"type": "text", "text": "21"}]),
            ],
            "thinking": {"type": "adaptive"},
            "tools": [_tool(_WEATHER)],
        },
    ),
    # The helper that runs tools starts a conversation on the server and then sends only what is new.
    "anthropic runner": _day(
        "anthropic",
        "messages",
        _CLAUDE | {"max_tokens": 1000, "messages": [_HI], "thread": {"type": "create"}, "tools": [_tool(_TITLED)]},
        **_RUNNER,
    ),
    "anthropic runner continued": _day(
        "anthropic",
        "messages",
        _CLAUDE
        | {
            "max_tokens": 1000,
            "messages": [_answered(content="21")],
            "thread": {"type": "continue", "previous_message_id": "msg_01"},
        },
        **_RUNNER,
    ),
}
_PYDANTIC = "pydantic-ai/2.66.0"
FRAMEWORKS: dict[str, Everyday] = {
    "langchain chat results": _day(
        "langchain",
        "chat",
        {
            "model": "gpt-4.1",
            "stream": False,
            "messages": [_HI, {"content": "Done.", "role": "assistant", "tool_calls": [_CALL]}, _RESULT],
            "temperature": 0.0,
            "tools": [_function(_OPEN)],
        },
    ),
    "langchain responses results": _day(
        "langchain",
        "responses",
        {
            "model": "gpt-5.4",
            "stream": False,
            "input": [
                _HI | {"type": "message"},
                _THOUGHT,
                _TOLD,
                _FUNCTION_CALL | {"status": "completed"},
                _OUTPUT,
            ],
            "reasoning": {"effort": "low"},
            "tools": [_flat(_OPEN)],
        },
    ),
    "langchain messages results": _day(
        "langchain",
        "messages",
        _CLAUDE
        | {
            "max_tokens": 128000,
            "messages": [
                _HI,
                {"role": "assistant", "content": [_LOOKING, _USE]},
                _answered(content="21", is_error=False),
            ],
            "tools": [_tool(_OPEN)],
        },
        "langchain-anthropic/1.7.7",
    ),
    "pydantic-ai chat results": _day(
        "pydantic-ai",
        "chat",
        {
            "model": "gpt-5.4",
            "stream": False,
            "messages": [
                {"role": "system", "content": "Be short."},
                _HI,
                {"role": "assistant", "reasoning_content": "Hm.", "content": "Done.", "tool_calls": [_CALL]},
                _RESULT,
            ],
            "tool_choice": "auto",
            "tools": [_function(_CLOSED)],
        },
        _PYDANTIC,
    ),
    "pydantic-ai responses results": _day(
        "pydantic-ai",
        "responses",
        _SEALED_TOO
        | {
            "model": "gpt-5.4",
            "stream": False,
            "input": [_HI, _THOUGHT, _TOLD | {"status": "completed"}, _FUNCTION_CALL, _OUTPUT],
            "instructions": "Be short.",
            "reasoning": {"context": "all_turns"},
            "tool_choice": "auto",
            "tools": [_flat(_CLOSED, strict=False)],
        },
        _PYDANTIC,
    ),
    "pydantic-ai messages results": _day(
        "pydantic-ai",
        "messages",
        _CLAUDE
        | {
            "max_tokens": 128000,
            "messages": [
                {"role": "user", "content": [{"text": "Hello", "type": "text"}]},
                {"role": "assistant", "content": [_LOOKING, _USE]},
                _answered(content=[{"text": "21", "type": "text"}], is_error=False),
            ],
            "stream": True,
            "system": [{"type": "text", "text": "Be short."}],
            "tool_choice": {"type": "auto"},
            "tools": [_tool(_CLOSED)],
        },
        _PYDANTIC,
    ),
}
SDK: dict[str, Everyday] = OPENAI | ANTHROPIC | FRAMEWORKS
