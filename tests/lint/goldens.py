"""Hand-written streams and bodies that break no rule, one set per protocol, with their requests.

Every function returns a fresh copy, so that a test may change it.
"""

import copy
import json
from typing import Any

Data = dict[str, Any]
Stream = list[Any]
"""event data in order; a string is sent unchanged"""

CHAT_REQUEST: Data = {
    "model": "m-1",
    "messages": [{"role": "user", "content": "hi"}],
    "stream": True,
    "stream_options": {"include_usage": True, "include_obfuscation": False},
    "tools": [
        {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}},
        {"type": "custom", "custom": {"name": "run"}},
    ],
    "stop": ["END"],
}
CHAT_USAGE: Data = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 1},
}


def chunk(delta: Data | None, finish: str | None = None, usage: Data | None = None) -> Data:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "m-1",
        "service_tier": "default",
        "system_fingerprint": None,
        "choices": choices,
        "usage": usage,
    }


def call_delta(index: int, **entry: Any) -> Data:
    return {"tool_calls": [{"index": index, **entry}]}


def chat_stream() -> Stream:
    """Return a stream with text, a function call, a call of a custom tool and usage."""
    return [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk(call_delta(0, id="call_1", type="function", function={"name": "look", "arguments": ""})),
        chunk(call_delta(0, function={"arguments": '{"a":1}'})),
        chunk(call_delta(1, id="call_2", type="custom", custom={"name": "run", "input": ""})),
        chunk(call_delta(1, custom={"input": "ls"})),
        chunk({}, "tool_calls"),
        chunk(None, usage=copy.deepcopy(CHAT_USAGE)),
        "[DONE]",
    ]


def chat_text_stream() -> Stream:
    """Return a stream with text only, which is JSON, and logprobs."""
    events: Stream = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": '{"a":'}),
        chunk({"content": "1}"}),
        chunk({}, "stop"),
        chunk(None, usage=copy.deepcopy(CHAT_USAGE)),
        "[DONE]",
    ]
    for number, tokens in ((1, ['{"', "a", '":']), (2, ["1", "}"])):
        events[number]["choices"][0]["logprobs"] = {"content": [{"token": token, "bytes": None} for token in tokens]}
    return events


def chat_error_stream() -> Stream:
    error = {"message": "overloaded", "type": "server_error", "param": None, "code": "overloaded"}
    return [chunk({"role": "assistant", "content": ""}), {"error": error}]


def chat_body() -> Data:
    """Return a body with a cited text, a function call and a call of a custom tool."""
    citation = {"start_index": 0, "end_index": 5, "url": "https://example.org", "title": "t"}
    message = {
        "role": "assistant",
        "content": "Hello",
        "refusal": None,
        "annotations": [{"type": "url_citation", "url_citation": citation}],
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}},
            {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": "ls"}},
        ],
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "m-1",
        "service_tier": "default",
        "system_fingerprint": None,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}],
        "usage": copy.deepcopy(CHAT_USAGE),
    }


def openai_error() -> Data:
    return {"error": {"message": "no such model", "type": "invalid_request_error", "param": None, "code": None}}


MESSAGES_REQUEST: Data = {
    "model": "m-1",
    "max_tokens": 4096,
    "messages": [{"role": "user", "content": "hi"}],
    "thinking": {"type": "adaptive"},
    "tools": [{"name": "look", "input_schema": {"type": "object"}}],
}
SEARCH_RESULT: Data = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def block(index: int, start: Data, *deltas: Data) -> Stream:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def messages_stream() -> Stream:
    """Return a stream with thinking, a server tool with its result, a cited text and a tool call."""
    message: Data = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "output_tokens": 1,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 4,
        },
    }
    citation = {"type": "char_location", "cited_text": "x", "document_index": 0}
    return [
        {"type": "message_start", "message": message},
        {"type": "ping"},
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Hm."},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        *block(
            1,
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"query":"x"}'},
        ),
        *block(2, copy.deepcopy(SEARCH_RESULT)),
        *block(
            3,
            {"type": "text", "text": ""},
            {"type": "citations_delta", "citation": citation},
            {"type": "text_delta", "text": "Hel"},
            {"type": "text_delta", "text": "lo"},
        ),
        *block(
            4,
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": '{"a":1}'},
        ),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None, "stop_details": None},
            "usage": {"output_tokens": 20, "output_tokens_details": {"thinking_tokens": 3}},
        },
        {"type": "message_stop"},
    ]


def messages_text_stream() -> Stream:
    """Return a stream with text only, which is JSON."""
    events = messages_stream()
    delta = events[-2]
    delta["delta"]["stop_reason"] = "end_turn"
    text = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": '{"a":1}'})
    return [*events[:2], *text, delta, events[-1]]


def messages_error_stream() -> Stream:
    return [
        *messages_stream()[:3],
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ]


def messages_body() -> Data:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
            copy.deepcopy(SEARCH_RESULT),
            {"type": "text", "text": "Hello", "citations": None},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "output_tokens": 20,
            "cache_read_input_tokens": 4,
            "cache_creation_input_tokens": None,
            "output_tokens_details": {"thinking_tokens": 3},
        },
    }


def messages_text_body() -> Data:
    """Return a body with text only, which is JSON."""
    body = messages_body()
    return {**body, "content": [{"type": "text", "text": '{"a":1}'}], "stop_reason": "end_turn"}


def messages_error() -> Data:
    return {"type": "error", "error": {"type": "not_found_error", "message": "no such model"}, "request_id": "req_1"}


def frames(events: Stream, *, named: bool) -> bytes:
    """Return the stream as bytes; `named` adds an `event:` line to each payload."""
    out = []
    for data in events:
        text = data if isinstance(data, str) else json.dumps(data)
        name = data.get("type", "") if named and isinstance(data, dict) else ""
        out.append((f"event: {name}\n" if name else "") + f"data: {text}\n\n")
    return "".join(out).encode()
