"""Requests of Chat clients, written by hand, for features that the tests of the mapping do not have."""

from typing import Any

Body = dict[str, Any]
USER: Body = {"role": "user", "content": "Hello"}
MARK: Body = {"type": "ephemeral", "ttl": "5m"}
SCHEMA: Body = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Ship",
    "description": "A ship",
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "Its name", "default": "Anna"},
        "kind": {"type": "string", "enum": ["sail", "steam"]},
        "masts": {"type": "array", "items": {"type": "number", "format": "double"}},
        "afloat": {"type": "boolean", "x-optional": True},
        "port": {"type": ["string", "null"]},
        "owner": {"anyOf": [{"$ref": "#/$defs/owner"}, {"type": "null"}]},
    },
    "$defs": {"owner": {"type": "object", "properties": {"name": {"type": "string", "strict": True}}}},
    "required": ["name"],
}


def function(name: str = "look", **fields: Any) -> Body:
    """Return a tool."""
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": {}}, **fields},
    }


def called(**fields: Any) -> Body:
    """Return an assistant turn with one call."""
    inner = {"name": "look", "arguments": "{}"}
    return {
        "role": "assistant",
        "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": inner}],
        **fields,
    }


def tool_result(content: Any = "seen", **fields: Any) -> Body:
    """Return the result of that call."""
    return {"role": "tool", "tool_call_id": "call_1", "content": content, **fields}


def history(*turns: Body, **fields: Any) -> Body:
    """Return a request with these turns between two of the user."""
    return {"messages": [USER, *turns, USER], "tools": [function()], **fields}


def content(*parts: Body) -> Body:
    """Return a request with one user turn of these parts."""
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "Look"}, *parts]}]}


PICTURE: Body = {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "auto"}}
DETAIL: Body = {"type": "reasoning.text", "text": "Hm.", "index": 0}
THOUGHT: Body = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
SEARCH: Body = {
    "excluded_domains": ["example.com"],
    "max_uses": 2,
    "search_context_size": "medium",
    "user_location": {"type": "approximate", "region": "Lazio", "timezone": "Europe/Rome"},
}
CASES: dict[str, Body] = {
    "schema": {"tools": [function("build", parameters=SCHEMA, description="Builds")]},
    "tool without a type": {"tools": [{"function": function(description="Looks")["function"]}]},
    "tool without a type and a description": {"tools": [{"function": function(description="")["function"]}]},
    "tool without a description": {"tools": [function(description="")]},
    "marked tool": {"tools": [{**function(), "cache_control": MARK}]},
    "no tools": {"tools": []},
    "null tools": {"tools": None, "stop": None, "response_format": None, "reasoning_effort": None},
    "old functions": {
        "functions": [{"name": "look", "description": "Looks", "parameters": {"type": "object", "properties": {}}}]
    },
    "any tool": {"tools": [function()], "tool_choice": "any"},
    "advisor": {
        "tools": [
            {
                "type": "openrouter:advisor",
                "parameters": {"model": "m", "forward_transcript": True, "max_completion_tokens": 100},
            },
            function(),
        ]
    },
    "search of a router": {"tools": [{"type": "openrouter:web_search", "parameters": SEARCH}, function()]},
    "empty words with a call": history(called(content=""), tool_result()),
    "no parts with a call": history(called(content=[]), tool_result()),
    "parts with a call": history(called(content=[{"type": "text", "text": "Wait"}]), tool_result(name="look")),
    "thinking part": history(called(content=[THOUGHT, {"type": "text", "text": "Wait"}]), tool_result()),
    "reasoning": history(called(content="Wait", reasoning="Hm."), tool_result()),
    "no calls": {"messages": [USER, {"role": "assistant", "content": "Yes", "tool_calls": []}, USER]},
    "prefix": {"messages": [USER, {"role": "assistant", "content": "The", "prefix": True}]},
    "details of reasoning": history(
        called(
            content="", reasoning_details=[{**DETAIL, "format": "anthropic-claude-v1", "signature": "c2ln", "id": "r1"}]
        ),
        tool_result(),
    ),
    "unknown details of reasoning": history(
        called(content="", reasoning_details=[{**DETAIL, "format": None, "id": None}]), tool_result()
    ),
    "marked prompt": {
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief.", "cache_control": MARK}]},
            USER,
        ]
    },
    "marked result": history(called(), tool_result([{"type": "text", "text": "seen", "cache_control": MARK}])),
    "picture in a result": history(called(), tool_result([{"type": "text", "text": "seen"}, PICTURE])),
    "marked parts": content(
        {"type": "text", "text": "x", "cache_control": MARK, "image_url": None},
        {**PICTURE, "cache_control": MARK, "text": None},
    ),
    "picture as text": content({"type": "image_url", "image_url": "https://example.com/a.png"}),
    "sound as text": content({"type": "input_audio", "input_audio": "https://example.com/a.wav"}),
    "video": content({"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}),
    "turns inside a turn": {
        "messages": [
            {"role": "user", "content": [{"role": "system", "content": "A"}, {"role": "user", "content": "B"}]}
        ]
    },
    "null fields of a turn": {"messages": [{**USER, "name": None, "tool_calls": None}]},
    "reasoning of a router": {"reasoning": {"effort": "low"}, "include_reasoning": True, "usage": {"include": True}},
    "medium reasoning of a router": {
        "reasoning": {"effort": "medium"},
        "provider": {"order": ["a"], "allow_fallbacks": False},
    },
    "budget of a router": {"reasoning": {"max_tokens": 2000}},
    "reasoning switched on": {"reasoning": {"enabled": True}},
    "thinking of Zhipu": {"thinking": {"type": "enabled", "clear_thinking": False}},
    "no thinking": {"thinking": {"type": "disabled"}},
    "thinking of Qwen": {"enable_thinking": False},
    "thinking of Groq": {"reasoning_format": "parsed", "service_tier": "on_demand"},
    "null reasoning format": {"reasoning_format": None},
    "fields of Ollama": {"options": {"num_ctx": 4096}},
    "fields of Venice": {"venice_parameters": {"disable_thinking": True}},
    "fields of Mistral": {"random_seed": 7, "safe_prompt": True},
    "fields of llama.cpp": {
        "grammar": "root ::= [a-z]+",
        "json_schema": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
    "temperature as text": {"temperature": "0.5"},
    "usage in streams": {"stream": True, "stream_options": {"include_usage": True}},
    "format without a description": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "ship",
                "description": "",
                "strict": False,
                "schema": {"type": "object", "properties": {}},
            },
        }
    },
    "assistant last": {"messages": [USER, {"role": "assistant", "content": "Yes"}]},
    "prompt last": {"messages": [USER, {"role": "system", "content": "Be brief."}]},
    "file by id": content({"type": "file", "file": {"file_id": "file_1"}}),
}
