"""What no recording has but the protocols allow: interleaved calls, errors inside Messages streams, overload."""

import json
from typing import Any

import pytest

import trilogue
from tests.corpus.cases import CHAT, MESSAGES, RESPONSES, exchange, sdk_problems
from tests.judges import meaning, sdk
from tests.judges.answers import Answer, Call
from trilogue import Protocol, lint
from trilogue.protocols.registry import codec

TARGETS = [pytest.param(protocol, id=protocol.short) for protocol in Protocol]
CALLS = [Call("call_a", "one", {"x": 1}), Call("call_b", "two", {"y": 2})]


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    """A Chat chunk."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def fragment(index: int, arguments: str, call: tuple[str, str] | None = None) -> dict[str, Any]:
    """A Chat chunk with a piece of one tool call."""
    piece: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if call:
        piece = {**piece, "id": call[0], "type": "function", "function": {"name": call[1], "arguments": arguments}}
    return chunk({"tool_calls": [piece]})


def data_lines(*events: dict[str, Any]) -> bytes:
    """A Chat stream."""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"


def named(*events: dict[str, Any]) -> bytes:
    """A Messages or Responses stream."""
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


INTERLEAVED_CHAT = data_lines(
    chunk({"role": "assistant", "content": None}),
    fragment(0, "", ("call_a", "one")),
    fragment(1, "", ("call_b", "two")),
    fragment(0, '{"x"'),
    fragment(1, '{"y"'),
    fragment(0, ":1}"),
    fragment(1, ":2}"),
    chunk({}, "tool_calls"),
    {**chunk({}), "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 9, "total_tokens": 10}},
)


def block(index: int, call: tuple[str, str]) -> dict[str, Any]:
    """The start of a Messages tool call."""
    content = {"type": "tool_use", "id": call[0], "name": call[1], "input": {}}
    return {"type": "content_block_start", "index": index, "content_block": content}


def partial(index: int, text: str) -> dict[str, Any]:
    """A piece of a Messages tool call."""
    delta = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "index": index, "delta": delta}


MESSAGE_START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
}
INTERLEAVED_MESSAGES = named(
    MESSAGE_START,
    block(0, ("call_a", "one")),
    block(1, ("call_b", "two")),
    partial(0, '{"x"'),
    partial(1, '{"y"'),
    partial(0, ":1}"),
    partial(1, ":2}"),
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 9},
    },
    {"type": "message_stop"},
)


def item(call: tuple[str, str], arguments: str, status: str) -> dict[str, Any]:
    """A Responses tool call."""
    return {
        "type": "function_call",
        "id": f"fc_{call[0]}",
        "call_id": call[0],
        "name": call[1],
        "arguments": arguments,
        "status": status,
    }


def piece(index: int, call_id: str, text: str) -> dict[str, Any]:
    """A piece of a Responses tool call."""
    kind = "response.function_call_arguments.delta"
    return {"type": kind, "output_index": index, "item_id": f"fc_{call_id}", "delta": text}


USAGE = {
    "input_tokens": 1,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 10,
}


def response(status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    """A Responses snapshot."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "m",
        "output": output,
        "usage": USAGE if status == "completed" else None,
    }


DONE = [item(("call_a", "one"), '{"x":1}', "completed"), item(("call_b", "two"), '{"y":2}', "completed")]
INTERLEAVED_RESPONSES = named(
    {"type": "response.created", "response": response("in_progress", [])},
    {"type": "response.output_item.added", "output_index": 0, "item": item(("call_a", "one"), "", "in_progress")},
    {"type": "response.output_item.added", "output_index": 1, "item": item(("call_b", "two"), "", "in_progress")},
    piece(0, "call_a", '{"x"'),
    piece(1, "call_b", '{"y"'),
    piece(0, "call_a", ":1}"),
    piece(1, "call_b", ":2}"),
    {"type": "response.output_item.done", "output_index": 1, "item": DONE[1]},
    {"type": "response.output_item.done", "output_index": 0, "item": DONE[0]},
    {"type": "response.completed", "response": response("completed", DONE)},
)


def translated(stream: bytes, source: Protocol, target: Protocol) -> tuple[bytes, Answer]:
    """What a client of `target` gets for an upstream's stream, and what it means."""
    tools = (("one", "function"), ("two", "function"))
    translator = trilogue.StreamTranslator(source=source, target=target, exchange=exchange(target, source, tools))
    out = translator.feed(stream) + translator.close()
    return out, meaning.of_stream(target, out)


LACKING = frozenset({"D55"})
"""Rules that the streams above break themselves: they echo no request."""


INTERLEAVED = [
    pytest.param(CHAT, INTERLEAVED_CHAT, id="chat"),
    pytest.param(MESSAGES, INTERLEAVED_MESSAGES, id="messages"),
    pytest.param(RESPONSES, INTERLEAVED_RESPONSES, id="responses"),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "stream"), INTERLEAVED)
def test_interleaved_calls(source: Protocol, stream: bytes, target: Protocol) -> None:
    """Pieces of two calls alternate; each piece belongs to its own call, and what we send does not alternate."""
    out, answer = translated(stream, source, target)
    assert answer.calls == CALLS
    assert answer.stop == "tool_calls"
    assert sdk_problems(target, out, answer) == []
    findings = lint.lint_stream(target, out, own=source is not target)
    new = [finding for finding in findings if finding.severity == "error" and finding.rule not in LACKING]
    assert new == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "stream"), INTERLEAVED)
def test_interleaved_calls_one_by_one(source: Protocol, stream: bytes, target: Protocol) -> None:
    """A piece of a call may pass untouched; the next one, of a call that waits, must not take the same way."""
    translator = trilogue.StreamTranslator(source=source, target=target)
    events = [event + b"\n\n" for event in stream.split(b"\n\n") if event]
    out = b"".join([*map(translator.feed, events), translator.close()])
    at_once = trilogue.StreamTranslator(source=source, target=target)
    assert out == at_once.feed(stream) + at_once.close()


@pytest.mark.parametrize("target", TARGETS)
def test_overload_in_the_middle_of_a_messages_stream(target: Protocol) -> None:
    """The client gets what came, then its own form of the error, and no end."""
    text = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}}
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    out, answer = translated(named(MESSAGE_START, text, delta, error), MESSAGES, target)
    assert answer.text == "Hel"
    assert answer.error is not None
    assert answer.error[0] in ("overloaded", "server")
    assert "Overloaded" in answer.error[1]
    assert sdk_problems(target, out, answer) == []


@pytest.mark.parametrize(
    ("source", "status", "body", "statuses"),
    [
        (MESSAGES, 529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, (503, 529, 503)),
        (
            CHAT,
            503,
            {"error": {"message": "busy", "type": "server_error", "param": None, "code": None}},
            (503, 529, 503),
        ),
        (CHAT, 402, {"error": {"message": "pay", "type": "billing", "param": None, "code": None}}, (402, 402, 402)),
    ],
)
def test_statuses_that_no_recording_has(
    source: Protocol, status: int, body: dict[str, Any], statuses: tuple[int, int, int]
) -> None:
    """Overload has another status in each protocol; the SDK raises in all of them."""
    failure = codec(source).decode_error(status, {}, json.dumps(body).encode())
    for target, wanted in zip(Protocol, statuses, strict=True):
        reply = codec(target).encode_error(failure, "req_1")
        assert reply.status == wanted
        assert sdk.raised(target, reply.status, reply.body, reply.headers) is not None


@pytest.mark.parametrize(
    ("headers", "wanted"), [({"retry-after": "7"}, "7"), ({"retry-after": "120"}, "120"), ({}, None)]
)
@pytest.mark.parametrize("target", TARGETS)
def test_rate_limits_say_when_to_come_back(target: Protocol, headers: dict[str, str], wanted: str | None) -> None:
    """The delay is the upstream's; none is made up."""
    body = {"error": {"message": "slow down", "type": "requests", "param": None, "code": "rate_limit_exceeded"}}
    failure = codec(CHAT).decode_error(429, headers, json.dumps(body).encode())
    reply = codec(target).encode_error(failure, "req_1")
    assert {name.lower(): value for name, value in reply.headers.items()}.get("retry-after") == wanted
