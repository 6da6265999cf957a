"""Examples from descriptions of the protocols: what servers are built after is no error, and is translated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue import Protocol, StreamTranslator, collect_stream, translate_response
from trilogue.lint import lint_response, lint_stream

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
Body = dict[str, Any]
every_target = pytest.mark.parametrize("target", Protocol)

CHUNK: Body = {"id": "chatcmpl-abc123", "object": "chat.completion.chunk", "created": 1700000000, "model": "m"}
CHUNKS: list[Body] = [
    {"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"content": "Hello there!"}, "finish_reason": None}]},
    {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    },
]
CHAT_STREAM = "".join(f"data: {json.dumps({**CHUNK, **chunk})}\n\n" for chunk in CHUNKS) + "data: [DONE]\n\n"
COUNTS: Body = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
STARTED: Body = {
    **{"id": "msg_abc", "type": "message", "role": "assistant", "content": [], "model": "m"},
    **{"stop_reason": None, "stop_sequence": None, "usage": {**COUNTS, "output_tokens": 0}},
}
MESSAGES_EVENTS: list[Body] = [
    {"type": "message_start", "message": STARTED},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me think..."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": ""}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hello there!"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]
MESSAGES_STREAM = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in MESSAGES_EVENTS)
RESPONSE: Body = {
    **{"id": "resp_abc", "object": "response", "created_at": 1700000000, "status": "in_progress"},
    **{"model": "claude-sonnet-4-6", "output": [], "usage": None, "error": None, "incomplete_details": None},
    **{"instructions": None, "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto"},
    **{"tools": [], "top_p": 1.0, "max_output_tokens": None, "previous_response_id": None},
    **{"reasoning": {"effort": None, "summary": None}, "store": True, "truncation": "disabled", "user": None},
}
PART: Body = {"type": "output_text", "text": "Hello there!", "annotations": []}
MESSAGE: Body = {"type": "message", "id": "msg_abc", "status": "completed", "role": "assistant", "content": [PART]}
AT: Body = {"item_id": "msg_abc", "output_index": 0, "content_index": 0}
EVENTS: list[tuple[str, Body]] = [
    ("created", {"response": RESPONSE}),
    ("in_progress", {"response": RESPONSE}),
    ("output_item.added", {"output_index": 0, "item": {**MESSAGE, "status": "in_progress", "content": []}}),
    ("content_part.added", {**AT, "part": {**PART, "text": ""}}),
    ("output_text.delta", {**AT, "delta": "Hello"}),
    ("output_text.delta", {**AT, "delta": " there!"}),
    ("output_text.done", {**AT, "text": "Hello there!"}),
    ("content_part.done", {**AT, "part": PART}),
    ("output_item.done", {"output_index": 0, "item": MESSAGE}),
]
USAGE: Body = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
ENDED: Body = {"response": {**RESPONSE, "status": "completed", "output": [MESSAGE], "usage": USAGE}}
RESPONSES_STREAM = "".join(
    f"event: response.{name}\ndata: {json.dumps({'type': f'response.{name}', 'sequence_number': number, **fields})}\n\n"
    for number, (name, fields) in enumerate([*EVENTS, ("completed", ENDED)])
)
STREAMS = {C: CHAT_STREAM, M: MESSAGES_STREAM, R: RESPONSES_STREAM}

SEARCH: Body = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
CITED: Body = {"type": "url_citation", "start_index": 0, "end_index": 5, "url": "https://x.test", "title": "Title..."}
FOUND: Body = {
    "type": "web_search_result",
    "url": "https://x.test",
    "title": "Shannon",
    "encrypted_content": "EqgfCioIARgBIiQ3...",
    "page_age": "April 30, 2025",
}
QUOTED: Body = {
    "type": "web_search_result_location",
    "url": "https://x.test",
    "title": "Shannon",
    "encrypted_index": "Eo8BCioIAhgBIiQy..",
    "cited_text": "Claude Elwood Shannon was an American mathematician...",
}
CHOICE: Body = {"index": 0, "message": {"role": "assistant", "content": "Hello there!"}, "finish_reason": "stop"}
BODIES: list[tuple[Protocol, Body]] = [
    (
        C,
        {
            **{"id": "chatcmpl-abc123", "object": "chat.completion", "created": 1700000000, "model": "m"},
            "choices": [CHOICE],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        },
    ),
    (
        M,
        {
            **{"id": "msg_abc", "type": "message", "role": "assistant", "model": "m"},
            "content": [{"type": "text", "text": "Hello there!"}],
            **{"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {
                **{"input_tokens": 10, "output_tokens": 5},
                **{"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
            },
        },
    ),
    (
        R,
        {
            **{"id": "resp_abc", "object": "response", "created_at": 1700000000, "status": "completed", "model": "m"},
            **{"output": [MESSAGE], "usage": USAGE},
        },
    ),
]
SEARCHED: list[tuple[Protocol, Body]] = [
    (R, {"model": "m", "output": [SEARCH, {**MESSAGE, "content": [{**PART, "annotations": [CITED]}]}]}),
    (
        M,
        {
            "role": "assistant",
            "content": [
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "shannon"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [FOUND]},
                {"text": "Hello ", "type": "text"},
                {"text": "there!", "type": "text", "citations": [QUOTED]},
            ],
            "id": "msg_a930390d3a",
            "model": "m",
            "usage": {"input_tokens": 10, "output_tokens": 5, "server_tool_use": {"web_search_requests": 1}},
            "stop_reason": "end_turn",
        },
    ),
]
"""examples that leave out what they are not about"""


def errors(findings: Any) -> list[str]:
    return [str(finding) for finding in findings if finding.severity == "error"]


def text_of(protocol: Protocol, body: Body) -> str:
    """What the model says in a response."""
    if protocol is C:
        return str(body["choices"][0]["message"]["content"])
    if protocol is M:
        return "".join(block["text"] for block in body["content"] if block["type"] == "text")
    return "".join(part["text"] for item in body["output"] if item["type"] == "message" for part in item["content"])


@pytest.mark.parametrize("protocol", Protocol)
def test_streams_are_no_errors(protocol: Protocol) -> None:
    """Usage with the finish_reason and usage without details are worth a note."""
    assert errors(lint_stream(protocol, STREAMS[protocol].encode(), own=False)) == []


@pytest.mark.parametrize(("protocol", "body"), BODIES)
def test_bodies_are_no_errors(protocol: Protocol, body: Body) -> None:
    """A response may be short."""
    assert errors(lint_response(protocol, body, own=False)) == []


@every_target
@pytest.mark.parametrize("source", Protocol)
def test_streams_are_translated(source: Protocol, target: Protocol) -> None:
    """Text and usage arrive, in a form that the linter accepts."""
    translator = StreamTranslator(source=source, target=target)
    out = translator.feed(STREAMS[source].encode()) + translator.close()
    assert translator.failed is None
    assert errors(lint_stream(target, out, own=source is not target)) == []
    assert text_of(target, collect_stream(out, protocol=target)) == "Hello there!"
    usage = translator.usage
    assert usage is not None
    assert (usage.input, usage.output) == (10, 5)


@every_target
@pytest.mark.parametrize(("source", "body"), [*BODIES, *SEARCHED])
def test_bodies_are_translated(source: Protocol, body: Body, target: Protocol) -> None:
    """The same for whole responses."""
    translated = translate_response(body, source=source, target=target).body
    assert text_of(target, translated) == "Hello there!"
    if (source, body) in BODIES or source is not target:
        assert errors(lint_response(target, translated, own=source is not target)) == []


def calls_of(target: Protocol, out: bytes) -> list[tuple[str, Any]]:
    """The calls of a stream."""
    body = collect_stream(out, protocol=target)
    if target is C:
        found = [call["function"] for call in body["choices"][0]["message"]["tool_calls"]]
        return [(call["name"], json.loads(call["arguments"])) for call in found]
    if target is M:
        return [(block["name"], block["input"]) for block in body["content"] if block["type"] == "tool_use"]
    items = [item for item in body["output"] if item["type"] == "function_call"]
    return [(item["name"], json.loads(item["arguments"])) for item in items]


def frames(events: list[tuple[str, Body]]) -> bytes:
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events).encode()


def opened(index: int, block: Body) -> tuple[str, Body]:
    return "content_block_start", {"index": index, "content_block": block}


def more(index: int, arguments: str) -> tuple[str, Body]:
    return "content_block_delta", {"index": index, "delta": {"type": "input_json_delta", "partial_json": arguments}}


INTERLEAVED: list[tuple[str, Body]] = [
    ("message_start", {"message": {"id": "msg_1", "role": "assistant", "content": [], "model": "m", "usage": USAGE}}),
    opened(0, {"type": "text", "text": ""}),
    opened(1, {"type": "tool_use", "id": "toolu_a", "name": "get_weather", "input": {}}),
    opened(2, {"type": "tool_use", "id": "toolu_b", "name": "get_time", "input": {}}),
    ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "Looking up"}}),
    more(1, '{"city":'),
    more(2, '{"tz":'),
    more(1, '"Beijing"}'),
    more(2, '"Asia/Shanghai"}'),
    *[("content_block_stop", {"index": index}) for index in range(3)],
    ("message_delta", {"delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}),
    ("message_stop", {}),
]


@every_target
def test_interleaved_blocks(target: Protocol) -> None:
    """Blocks that are open at the same time, in events that have their type only in the `event:` line."""
    translator = StreamTranslator(source=M, target=target)
    out = translator.feed(frames(INTERLEAVED)) + translator.close()
    assert translator.failed is None
    assert errors(lint_stream(target, out, own=target is not M)) == []
    assert text_of(target, collect_stream(out, protocol=target)) == "Looking up"
    assert calls_of(target, out) == [("get_weather", {"city": "Beijing"}), ("get_time", {"tz": "Asia/Shanghai"})]
