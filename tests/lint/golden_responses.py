"""A hand-written Responses stream and body that break no rule. See `goldens`."""

import copy
from typing import Any

from tests.lint.goldens import Data, Stream

RESPONSES_REQUEST: Data = {
    "model": "m-1",
    "input": "hi",
    "stream": True,
    "stream_options": {"include_obfuscation": False},
    "metadata": {"job": "7"},
    "tools": [
        {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False},
        {"type": "custom", "name": "run"},
        {"type": "namespace", "name": "crm", "description": "d", "tools": [{"type": "function", "name": "find"}]},
        {"type": "web_search"},
    ],
}
CITATION: Data = {"type": "url_citation", "start_index": 0, "end_index": 5, "url": "https://example.org", "title": "t"}
USAGE: Data = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 15,
}
ITEMS: list[Data] = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "content": [{"type": "reasoning_text", "text": "raw"}],
        "encrypted_content": "b",
        "status": "completed",
    },
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": "Hello", "annotations": [CITATION], "logprobs": []},
            {"type": "refusal", "refusal": "No."},
        ],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "look",
        "arguments": '{"a":1}',
        "status": "completed",
    },
    {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "call_2",
        "name": "run",
        "input": "ls",
        "status": "completed",
    },
    {
        "type": "function_call",
        "id": "fc_2",
        "call_id": "call_3",
        "name": "find",
        "namespace": "crm",
        "arguments": "{}",
        "status": "completed",
    },
]
EMPTY: Data = {"summary": [], "content": [], "arguments": "", "input": "", "encrypted_content": "a"}


def snapshot(status: str, **fields: Any) -> Data:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {"job": "7"},
        "model": "m-1",
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": copy.deepcopy(RESPONSES_REQUEST["tools"]),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        **fields,
    }


def number(events: Stream) -> Stream:
    """Number the events of a stream."""
    for position, event in enumerate(events):
        if isinstance(event, dict):
            event["sequence_number"] = position
    return events


def item_events(index: int, *inner: Data) -> Stream:
    """Return the events of an item from added to done."""
    done = copy.deepcopy(ITEMS[index])
    added = {name: EMPTY.get(name, value) for name, value in copy.deepcopy(done).items()}
    added["status"] = "in_progress"
    place = {"item_id": done["id"], "output_index": index}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": added},
        *({**copy.deepcopy(event), **place} for event in inner),
        {"type": "response.output_item.done", "output_index": index, "item": done},
    ]


def part_events(kind: str, deltas: list[str], part: Data, empty: Data, **place: int) -> list[Data]:
    """Return the events of a part from added to done. `kind` is the stem of its event names."""
    group = "response.reasoning_summary_part" if "summary" in kind else "response.content_part"
    value = "refusal" if kind == "refusal" else "text"
    lists: Data = {"logprobs": []} if kind == "output_text" else {}
    return [
        {"type": f"{group}.added", **place, "part": empty},
        *({"type": f"response.{kind}.delta", **place, "delta": delta, **lists} for delta in deltas),
        {"type": f"response.{kind}.done", **place, value: part[value], **lists},
        {"type": f"{group}.done", **place, "part": part},
    ]


def message_events() -> Stream:
    text, refusal = ITEMS[2]["content"]
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    events = part_events("output_text", ["Hel", "lo"], text, empty, content_index=0)
    annotation = {"annotation": CITATION, "annotation_index": 0, "content_index": 0}
    events.insert(2, {"type": "response.output_text.annotation.added", **annotation})
    events += part_events("refusal", ["No", "."], refusal, {"type": "refusal", "refusal": ""}, content_index=1)
    return item_events(2, *events)


def reasoning_events() -> Stream:
    item = ITEMS[0]
    summary = part_events(
        "reasoning_summary_text",
        ["Hm", "."],
        item["summary"][0],
        {"type": "summary_text", "text": ""},
        summary_index=0,
    )
    raw = part_events(
        "reasoning_text", ["ra", "w"], item["content"][0], {"type": "reasoning_text", "text": ""}, content_index=0
    )
    return item_events(0, *summary, *raw)


def call_events(index: int) -> Stream:
    item = ITEMS[index]
    if item["type"] == "custom_tool_call":
        stem, value = "response.custom_tool_call_input", {"input": item["input"]}
    else:
        stem = "response.function_call_arguments"
        value = {"arguments": item["arguments"], "name": item["name"]}
    text = item.get("input") or item["arguments"]
    deltas = ({"type": f"{stem}.delta", "delta": piece} for piece in (text[:1], text[1:]))
    return item_events(index, *deltas, {"type": f"{stem}.done", **value})


def responses_stream() -> Stream:
    """Return a stream with reasoning, a web search, a message with text and refusal, and three calls."""
    phases = ("in_progress", "searching", "completed")
    search = item_events(1, *({"type": f"response.web_search_call.{phase}"} for phase in phases))
    end = snapshot("completed", output=copy.deepcopy(ITEMS), usage=copy.deepcopy(USAGE), completed_at=1700000009)
    return number(
        [
            {"type": "response.created", "response": snapshot("in_progress")},
            {"type": "response.in_progress", "response": snapshot("in_progress")},
            *reasoning_events(),
            *search,
            *message_events(),
            *call_events(3),
            *call_events(4),
            *call_events(5),
            {"type": "response.completed", "response": end},
        ]
    )


def responses_incomplete_stream() -> Stream:
    """Return a stream that ends at the token limit."""
    events = responses_stream()
    end = snapshot("incomplete", incomplete_details={"reason": "max_output_tokens"}, usage=copy.deepcopy(USAGE))
    return number([*events[:2], {"type": "response.incomplete", "response": end}])


def responses_error_stream() -> Stream:
    """Return a stream that ends with an error event and response.failed."""
    error = {"code": "server_error", "message": "overloaded"}
    return number(
        [
            *responses_stream()[:3],
            {"type": "error", "error": {**error, "type": "server_error", "param": None}},
            {"type": "response.failed", "response": snapshot("failed", error=error)},
        ]
    )


def responses_body() -> Data:
    return snapshot("completed", output=copy.deepcopy(ITEMS), usage=copy.deepcopy(USAGE), completed_at=1700000009)
