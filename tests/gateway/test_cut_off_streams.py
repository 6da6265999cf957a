"""Streams that look complete and are not: every client gets its own protocol's error, never a success.

Each is passed through and translated to both others, in one piece, event by event and byte by byte. Beside each stands
what a client may be told well: the same stream without its fault.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.judges import sdk
from trilogue import Protocol, StreamTranslator
from trilogue.gateway.response.pass_through import PassThrough, StreamPath
from trilogue.model import FailureKind
from trilogue.protocols.stream.response_context import Reply

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
SUCCESS = {C: b"data: [DONE]", M: b"event: message_stop", R: b"event: response.completed"}
ERROR = {C: b'data: {"error":', M: b"event: error", R: b"event: error"}
Body = dict[str, Any]


def chat(*deltas: Body, finish: str | None = "tool_calls", done: bool = True) -> list[str]:
    """A Chat stream of these deltas."""
    choices: list[Body] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    if finish:
        choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    chunks = [{"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]} for choice in choices]
    return [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + (["data: [DONE]\n\n"] if done else [])


def argued(*pieces: str) -> list[Body]:
    """The deltas of one call with these arguments."""
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "rm", "arguments": ""}}
    more = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    return [{"role": "assistant", "content": None, "tool_calls": [call]} for call in [first, *more]]


def named(*events: Body) -> list[str]:
    """Events with their names."""
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


def messages(*events: Body) -> list[str]:
    """A Messages stream of these events."""
    usage = {"input_tokens": 5, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    return named({"type": "message_start", "message": message}, *events)


USE = {"type": "tool_use", "id": "toolu_1", "name": "rm", "input": {}}
STOPPED = {"type": "content_block_stop", "index": 0}
OVER = {"type": "message_stop"}


def begun(block: Body) -> Body:
    return {"type": "content_block_start", "index": 0, "content_block": block}


def more(kind: str, field: str, text: str) -> Body:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, field: text}}


def said(reason: str) -> Body:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}


PATH = [more("input_json_delta", "partial_json", piece) for piece in ('{"path": ', '"/srv', '/x"}')]
WORDS = [more("text_delta", "text", piece) for piece in ("Hello ", "big ", "world")]
TEXT = {"type": "text", "text": ""}


def responses(item: Body, events: list[Body], *, output: bool = True, status: str = "completed") -> list[str]:
    """A Responses stream of one item and these events of it."""
    base: Body = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
    final = {**base, "status": status, "output": [item] if output else []}
    final["usage"] = {"input_tokens": 5, "output_tokens": 9, "total_tokens": 14}
    if status == "incomplete":
        final["incomplete_details"] = {"reason": "max_output_tokens"}
    ends = [{"type": f"response.{status}", "response": final}]
    every = [{"type": "response.created", "response": {**base, "status": "in_progress"}}, *events, *ends]
    return named(*({**event, "sequence_number": number} for number, event in enumerate(every) if event))


CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "rm", "status": "completed"}
AT = {"item_id": "fc_1", "output_index": 0}
ADDED = {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "arguments": ""}}
ARGUED = [
    {"type": "response.function_call_arguments.delta", **AT, "delta": piece} for piece in ('{"path": "/srv', "/x", '"}')
]
WHOLE = {**CALL, "arguments": '{"path": "/srv/x"}'}
HALF = {**CALL, "arguments": '{"path": "/srv'}
CALL_DONE = [
    {"type": "response.function_call_arguments.done", **AT, "arguments": WHOLE["arguments"]},
    {"type": "response.output_item.done", "output_index": 0, "item": WHOLE},
]
PART = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
MESSAGE: Body = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
SPOKEN = {"type": "output_text", "text": "Hello big world", "annotations": [], "logprobs": []}
OPENED = [
    {"type": "response.output_item.added", "output_index": 0, "item": {**MESSAGE, "content": []}},
    {"type": "response.content_part.added", **PART, "part": {**SPOKEN, "text": ""}},
]
H, B, W = (
    {"type": "response.output_text.delta", **PART, "delta": piece, "logprobs": []}
    for piece in ("Hello ", "big ", "world")
)
TEXT_DONE = {"type": "response.output_text.done", **PART, "text": "Hello big world", "logprobs": []}
FULL = {**MESSAGE, "content": [SPOKEN]}
DONE = {"type": "response.output_item.done", "output_index": 0, "item": FULL}
LOST: Body = {}
"""stands for an event that the stream has lost: its number is missing"""

BROKEN: dict[str, tuple[Protocol, list[str]]] = {
    "chat, no finish_reason": (C, chat(*argued('{"path": "/srv'), finish=None)),
    "chat, tool_calls": (C, chat(*argued('{"path": "/srv'))),
    "chat, stop": (C, chat(*argued('{"path": "/srv'), finish="stop")),
    "chat, cut inside a number": (C, chat(*argued('{"lines": 1'))),
    "chat, no [DONE]": (C, chat(*argued('{"path": "/srv'), done=False)),
    "messages, message_stop in a call": (M, messages(begun(USE), *PATH[:2], OVER)),
    "messages, message_stop before arguments": (M, messages(begun(USE), OVER)),
    "messages, tool_use in a call": (M, messages(begun(USE), *PATH[:2], said("tool_use"), OVER)),
    "messages, tool_use before arguments": (M, messages(begun(USE), said("tool_use"), OVER)),
    "messages, half a call stops": (M, messages(begun(USE), *PATH[:2], STOPPED, said("tool_use"), OVER)),
    "messages, half a call, no message_stop": (M, messages(begun(USE), *PATH[:2], STOPPED, said("tool_use"))),
    "messages, message_stop in a text": (M, messages(begun(TEXT), *WORDS[:2], OVER)),
    "messages, nothing but ends": (M, messages(OVER)),
    "messages, stop without a start": (M, messages(STOPPED, said("end_turn"), OVER)),
    "messages, stop twice": (M, messages(begun(TEXT), *WORDS, STOPPED, STOPPED, said("end_turn"), OVER)),
    "messages, delta after the stop": (M, messages(begun(TEXT), *WORDS, STOPPED, WORDS[0], said("end_turn"), OVER)),
    "messages, text inside a call": (M, messages(begun(USE), WORDS[0], STOPPED, said("tool_use"), OVER)),
    "messages, arguments inside a text": (M, messages(begun(TEXT), PATH[0], STOPPED, said("end_turn"), OVER)),
    "responses, open call": (R, responses(HALF, [ADDED, *ARGUED[:1]], output=False)),
    "responses, call without arguments": (R, responses(HALF, [ADDED], output=False)),
    "responses, half a call in the snapshot": (R, responses(HALF, [ADDED, *ARGUED[:1]])),
    "responses, lost middle of a call": (R, responses(WHOLE, [ADDED, ARGUED[0], ARGUED[2], *CALL_DONE])),
    "responses, lost start of a call": (R, responses(WHOLE, [ADDED, *ARGUED[1:], *CALL_DONE])),
    "responses, lost first delta": (R, responses(FULL, [*OPENED, B, W, TEXT_DONE, DONE])),
    "responses, lost middle delta": (R, responses(FULL, [*OPENED, H, W, TEXT_DONE, DONE])),
    "responses, lost middle and done": (R, responses(FULL, [*OPENED, H, W])),
    "responses, swapped deltas": (R, responses(FULL, [*OPENED, H, W, B, TEXT_DONE, DONE])),
    "responses, [DONE] before the end": (R, [*responses(FULL, [*OPENED, H])[:-1], "data: [DONE]\n\n"]),
    "responses, delta after its item": (R, responses(FULL, [*OPENED, H, B, W, TEXT_DONE, DONE, H])),
    "responses, no object": (R, [*responses(FULL, [*OPENED, H])[:-1], "data: 5\n\n", *responses(FULL, [])[-1:]]),
}
FINE: dict[str, tuple[Protocol, list[str]]] = {
    "chat, whole": (C, chat(*argued('{"path": ', '"/srv/x"}'))),
    "chat, the last bracket is missing": (C, chat(*argued('{"path": ', '"/srv/x"'))),
    "chat, cut at the limit": (C, chat(*argued('{"path": "/srv'), finish="length")),
    "messages, whole": (M, messages(begun(USE), *PATH, STOPPED, said("tool_use"), OVER)),
    "messages, no message_stop": (M, messages(begun(USE), *PATH, STOPPED, said("tool_use"))),
    "messages, whole, not stopped": (M, messages(begun(USE), *PATH, said("tool_use"), OVER)),
    "messages, cut at the limit": (M, messages(begun(USE), *PATH[:2], STOPPED, said("max_tokens"), OVER)),
    "messages, text without a start": (M, messages(*WORDS, STOPPED, said("end_turn"), OVER)),
    "responses, whole": (R, responses(WHOLE, [ADDED, *ARGUED, *CALL_DONE])),
    "responses, nothing but the snapshot": (R, responses(WHOLE, [ADDED, *ARGUED])),
    "responses, whole, not done": (R, responses(WHOLE, [ADDED, *ARGUED], output=False)),
    "responses, cut at the limit": (R, responses(HALF, [ADDED, *ARGUED[:1]], status="incomplete")),
    "responses, lost end of a call": (R, responses(WHOLE, [ADDED, *ARGUED[:2], LOST, *CALL_DONE])),
    "responses, lost last delta": (R, responses(FULL, [*OPENED, H, B, LOST, TEXT_DONE, DONE])),
    "responses, lost everything": (R, responses(FULL, [LOST, LOST, LOST, LOST, LOST, LOST, DONE])),
}


def passage(source: Protocol, target: Protocol) -> StreamPath:
    if source is target:
        return PassThrough(source, Reply(source=source))
    return StreamTranslator(source=source, target=target)


def relayed(source: Protocol, target: Protocol, pieces: list[bytes]) -> tuple[bytes, StreamPath]:
    """What the client gets of a stream that comes in these pieces."""
    through = passage(source, target)
    out = b"".join([*map(through.feed, pieces), through.close()])
    return out, through


def outcomes(source: Protocol, target: Protocol, events: list[str]) -> tuple[bytes, StreamPath]:
    """The same however it is cut."""
    whole = "".join(events).encode()
    out, through = relayed(source, target, [event.encode() for event in events])
    for pieces in ([whole], [whole[n : n + 1] for n in range(len(whole))]):
        again, other = relayed(source, target, pieces)
        assert again == out
        assert (other.failed, other.finish is None) == (through.failed, through.finish is None)
    return out, through


@pytest.mark.parametrize("target", Protocol, ids=lambda protocol: protocol.short)
@pytest.mark.parametrize("name", BROKEN)
def test_an_error_for_every_client(name: str, target: Protocol) -> None:
    """Its own, one, and nothing that says success."""
    source, events = BROKEN[name]
    out, through = outcomes(source, target, events)
    assert through.failed is not None
    assert through.failed.failure.kind in (FailureKind.UPSTREAM_TRUNCATED, FailureKind.UPSTREAM_PROTOCOL)
    assert out.count(ERROR[target]) == 1
    assert SUCCESS[target] not in out


@pytest.mark.parametrize("target", Protocol, ids=lambda protocol: protocol.short)
@pytest.mark.parametrize("name", FINE)
def test_what_is_complete_stays_so(name: str, target: Protocol) -> None:
    """With all that it says."""
    source, events = FINE[name]
    out, through = outcomes(source, target, events)
    assert through.failed is None
    assert through.finish is not None
    if source is not target:  # else the bytes are the upstream's own, with its quirks
        assert sdk.accumulate(target, out).error is None
    if "whole" in name or "lost" in name or "bracket" in name:
        assert b"/x" in out or b"world" in out


def test_arguments_that_are_no_json_end_in_an_error_for_messages_clients() -> None:
    """Their SDK would call the tool with the part that it can read; others see the text and judge themselves."""
    events = chat(*argued("{'path'", ": '/srv'}"))
    out, through = outcomes(C, M, events)
    assert through.failed is not None
    assert through.failed.failure.kind is FailureKind.UPSTREAM_PROTOCOL
    assert ERROR[M] in out
    assert SUCCESS[M] not in out
    for target in (C, R):
        out, through = outcomes(C, target, events)
        assert through.failed is None
        assert SUCCESS[target] in out
