"""Tokens that were read from a prompt cache or written to it arrive in the client's own fields, in every pair.

What a client adds up in the end must be what was used: the official SDKs take any later figure, Claude Code those above
zero.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from tests.gateway.running import Gateway
from tests.judges import sdk
from tests.scripted.ask import PATHS, body
from tests.scripted.http import json_answer, sse_answer
from tests.scripted.server import ScriptedUpstream
from trilogue import Protocol

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
Body = dict[str, Any]
OUTPUT = 7
SHAPES = [
    (100, 0, 0),
    (100, 900, 0),
    (100, 0, 900),
    (50, 900, 50),
    (0, 1_000, 0),
    (0, 0, 1_000),
    (0, 900, 100),
    (1, 2, 3),
]
"""fresh, read and written input tokens; all cached is what GPT-5.6 reports for a long session"""


def usage_of(protocol: Protocol, fresh: int, read: int, written: int) -> Body:
    """The usage that an upstream reports."""
    if protocol is M:
        cached = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
        return {"input_tokens": fresh, **cached, "output_tokens": OUTPUT}
    total, details = fresh + read + written, {"cached_tokens": read, "cache_write_tokens": written}
    if protocol is C:
        counts = {"prompt_tokens": total, "completion_tokens": OUTPUT, "total_tokens": total + OUTPUT}
        return {**counts, "prompt_tokens_details": details}
    counts = {"input_tokens": total, "output_tokens": OUTPUT, "total_tokens": total + OUTPUT}
    return {**counts, "input_tokens_details": details, "output_tokens_details": {"reasoning_tokens": 0}}


def whole(protocol: Protocol, usage: Body | None) -> Body:
    """A response that says Hi."""
    if protocol is C:
        choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
        found: Body = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    elif protocol is M:
        said = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hi"}]}
        found = {"id": "msg_1", "model": "m", **said, "stop_reason": "end_turn", "stop_sequence": None}
    else:
        text = {"type": "output_text", "text": "Hi", "annotations": []}
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
        found = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m"}
        found |= {"output": [item], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return found if usage is None else {**found, "usage": usage}


def events(protocol: Protocol, start: Body | None, end: Body | None) -> list[Body]:
    """The stream of the same response. `start`: the usage of message_start, which the other protocols do not have."""
    if protocol is C:
        base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        said: list[Body] = [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None}]
        over: list[Body] = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
        last = [{**base, "choices": [], "usage": end}] if end else []
        return [{**base, "choices": said}, {**base, "choices": over}, *last]
    if protocol is M:
        message = {**whole(M, None), "content": [], "stop_reason": None, "usage": start}
        stop = {"stop_reason": "end_turn", "stop_sequence": None}
        return [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": end},
            {"type": "message_stop"},
        ]
    begun = {**whole(R, None), "status": "in_progress", "output": []}
    item = whole(R, None)["output"][0]
    at: Body = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    empty, part = (
        {**item, "status": "in_progress", "content": []},
        {"type": "output_text", "text": "", "annotations": []},
    )
    made: list[Body] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": empty},
        {"type": "response.content_part.added", **at, "part": part},
        {"type": "response.output_text.delta", **at, "delta": "Hi", "logprobs": []},
        {"type": "response.output_text.done", **at, "text": "Hi", "logprobs": []},
        {"type": "response.content_part.done", **at, "part": item["content"][0]},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole(R, end)},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(made)]


def framed(protocol: Protocol, found: list[Body]) -> list[bytes]:
    """The bytes of a stream."""
    if protocol is C:
        return [*(f"data: {json.dumps(one)}\n\n".encode() for one in found), b"data: [DONE]\n\n"]
    return [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in found]


def asked(gateway: Gateway, client: Protocol, upstream: Protocol, *, stream: bool) -> bytes:
    reply = gateway.http.post(PATHS[client], json=body(client, f"{upstream.short}/text", stream=stream, tools=False))
    assert reply.status_code == 200, reply.text
    return reply.content


def shown(protocol: Protocol, usage: Body) -> tuple[int, int, int]:
    """Fresh, read and written tokens in the fields of a client's protocol."""
    if protocol is M:
        return usage["input_tokens"], usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
    name, details = (
        ("prompt_tokens", "prompt_tokens_details") if protocol is C else ("input_tokens", "input_tokens_details")
    )
    read, written = usage[details]["cached_tokens"], usage[details].get("cache_write_tokens") or 0
    return usage[name] - read - written, read, written


def final_usage(answer: sdk.Accumulated) -> Body:
    """The usage that an SDK has at the end of a stream."""
    assert answer.error is None
    assert answer.final is not None
    usage: Body = answer.final["usage"]
    return usage


PAIRS = pytest.mark.parametrize(
    ("client", "upstream"), list(product(Protocol, Protocol)), ids=lambda protocol: protocol.short
)


@PAIRS
def test_whole_responses(gateway: Gateway, up: ScriptedUpstream, client: Protocol, upstream: Protocol) -> None:
    for shape in SHAPES:
        up.say(json_answer(200, [], whole(upstream, usage_of(upstream, *shape))))
        assert shown(client, json.loads(asked(gateway, client, upstream, stream=False))["usage"]) == shape


@PAIRS
def test_streams(gateway: Gateway, up: ScriptedUpstream, client: Protocol, upstream: Protocol) -> None:
    """What the official SDK has at the end. One token of an input that was all cached may count as fresh."""
    for shape in SHAPES:
        usage = usage_of(upstream, *shape)
        up.say(*sse_answer(framed(upstream, events(upstream, {**usage, "output_tokens": 1}, usage))))
        answer = sdk.accumulate(client, asked(gateway, client, upstream, stream=True))
        found = shown(client, final_usage(answer))
        assert sum(found) == sum(shape)
        if client is M and upstream is not M and not shape[0]:
            assert found[0] == 1
            assert sum(abs(one - other) for one, other in zip(found, shape, strict=True)) == 2
        else:
            assert found == shape


COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
Rule = Callable[[Any, Any], Any]
RULES: dict[str, Rule] = {
    "official SDKs": lambda start, end: start if end is None else end,
    "Claude Code": lambda start, end: end if (end or 0) > 0 else start,
}
"""which figure a client has at the end, of that of message_start and that of message_delta"""
STREAMS: dict[str, tuple[Protocol, Body | None, Body | None, int | None]] = {
    "Chat, zeros": (C, None, {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, None),
    "Chat, only input and output": (C, None, {"prompt_tokens": 90, "completion_tokens": 7}, 90),
    "Chat, only a total": (C, None, {"completion_tokens": 7, "total_tokens": 97}, 90),
    "Chat, no details": (C, None, {"prompt_tokens": 90, "completion_tokens": 7, "prompt_tokens_details": None}, 90),
    "Chat, DeepSeek": (
        C,
        None,
        {"prompt_tokens": 90, "completion_tokens": 7, "prompt_cache_hit_tokens": 90, "prompt_cache_miss_tokens": 0},
        90,
    ),
    "Chat, more cached than input": (
        C,
        None,
        {
            "prompt_tokens": 90,
            "completion_tokens": 7,
            "total_tokens": 97,
            "prompt_tokens_details": {"cached_tokens": 200},
        },
        90,
    ),
    "Chat, all written": (
        C,
        None,
        {"prompt_tokens": 90, "completion_tokens": 7, "prompt_tokens_details": {"cache_write_tokens": 90}},
        90,
    ),
    "Chat, none": (C, None, None, None),
    "Responses, no details": (R, None, {"input_tokens": 90, "output_tokens": 7, "total_tokens": 97}, 90),
    "Responses, more cached than input": (
        R,
        None,
        {"input_tokens": 90, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 200}},
        90,
    ),
    "Responses, read and written": (
        R,
        None,
        {
            "input_tokens": 90,
            "output_tokens": 7,
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        },
        90,
    ),
    "Responses, none": (R, None, None, None),
}
"""what upstreams report at the end, and the input tokens that were used; None if nobody knows"""


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", STREAMS)
def test_what_a_messages_client_adds_up(gateway: Gateway, up: ScriptedUpstream, name: str, rule: str) -> None:
    upstream, start, end, used = STREAMS[name]
    up.say(*sse_answer(framed(upstream, events(upstream, start, end))))
    lines = asked(gateway, M, upstream, stream=True).decode().splitlines()
    found = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    first = next(one["message"]["usage"] for one in found if one["type"] == "message_start")
    last = next(one["usage"] for one in found if one["type"] == "message_delta")
    total = sum(RULES[rule](first.get(count), last.get(count)) or 0 for count in COUNTS)
    assert total == (first["input_tokens"] if used is None else used), (first, last)
    assert total > 0


MESSAGES: dict[str, tuple[Body, Body, tuple[int, int, int]]] = {
    "all at both ends": (usage_of(M, 40, 30, 20), usage_of(M, 40, 30, 20), (40, 30, 20)),
    "input only at the start": (usage_of(M, 40, 30, 20), {"output_tokens": OUTPUT}, (40, 30, 20)),
    "zeros at the end": (usage_of(M, 40, 30, 20), usage_of(M, 0, 0, 0), (40, 30, 20)),
    "zeros at the start": (usage_of(M, 0, 0, 0), usage_of(M, 40, 30, 20), (40, 30, 20)),
    "only at the end": ({"output_tokens": 0}, usage_of(M, 40, 30, 20), (40, 30, 20)),
    "nulls at the end": (
        usage_of(M, 40, 30, 20),
        {**dict.fromkeys(COUNTS), "output_tokens": OUTPUT},
        (40, 30, 20),
    ),
    "all cached": (usage_of(M, 0, 70, 20), usage_of(M, 0, 70, 20), (0, 70, 20)),
    "grown at the end": (usage_of(M, 40, 30, 0), usage_of(M, 60, 30, 20), (60, 30, 20)),
    "no cache at the end": (
        usage_of(M, 40, 30, 20),
        {"input_tokens": 40, "output_tokens": OUTPUT},
        (40, 30, 20),
    ),
}


@pytest.mark.parametrize("client", [C, R], ids=lambda protocol: protocol.short)
@pytest.mark.parametrize("name", MESSAGES)
def test_what_other_clients_get_from_a_messages_upstream(
    gateway: Gateway, up: ScriptedUpstream, name: str, client: Protocol
) -> None:
    start, end, used = MESSAGES[name]
    up.say(*sse_answer(framed(M, events(M, start, end))))
    answer = sdk.accumulate(client, asked(gateway, client, M, stream=True))
    assert shown(client, final_usage(answer)) == used
