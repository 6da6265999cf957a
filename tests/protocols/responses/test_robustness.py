"""Hostile bytes: only our own errors escape, whatever is put wherever."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.each import each
from tests.protocols.responses.streams import completed, created, sse
from trilogue.errors import ClientError, UpstreamError
from trilogue.model import Failed, Finish, Ledger, Protocol, Sequencer
from trilogue.protocols.codec import Target
from trilogue.protocols.responses import CODEC
from trilogue.protocols.stream.response_context import ResponseContext

JUNK: tuple[Any, ...] = (None, True, -1, 1.5, 10**30, "", "x", [], [None], {}, {"type": []}, {"type": {}}, [[{}]])

PARTS = [
    {"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
    {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"},
    {"type": "input_file", "file_data": "AA", "filename": "f"},
]
CITATION = {"type": "url_citation", "url": "u", "start_index": 0}
SEARCH = {"type": "search", "queries": ["q"], "sources": [{"url": "u"}]}
OUTPUT: list[Any] = [
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "b"},
    {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "phase": "p",
        "content": [
            {"type": "output_text", "text": "t", "annotations": [CITATION]},
            {"type": "refusal", "refusal": "r"},
        ],
    },
    {"type": "function_call", "id": "f", "call_id": "c", "name": "n", "arguments": "{}", "status": "completed"},
    {"type": "custom_tool_call", "id": "g", "call_id": "d", "name": "n", "input": "x"},
    {"type": "web_search_call", "id": "w", "status": "completed", "action": SEARCH},
    {"type": "code_interpreter_call", "id": "i", "code": "1", "outputs": [{"type": "logs", "logs": "l"}]},
    {"type": "mcp_call", "id": "a", "server_label": "s", "name": "n", "arguments": "{}", "error": {"message": "m"}},
    {"type": "shell_call", "id": "s", "environment": {"type": "local"}},
]  # fmt: skip
REQUEST: dict[str, Any] = {
    "model": "m",
    "instructions": "i",
    "input": [
        {"role": "user", "content": PARTS},
        *OUTPUT,
        {"type": "function_call_output", "call_id": "c", "output": PARTS},
        {"type": "additional_tools", "tools": [{"type": "function", "name": "late"}]},
        {"id": "ref"},
    ],
    "tools": [
        {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True},
        {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": "d"}},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]},
        {"type": "web_search", "filters": {"allowed_domains": ["d"]}, "user_location": {"city": "c"}},
        {"type": "mcp", "server_label": "l", "allowed_tools": {"tool_names": ["t"]}, "require_approval": "never"},
    ],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"},
    "include": ["x"],
    "stream_options": {"include_obfuscation": True},
    "prompt_cache_options": {"mode": "explicit"},
}
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": OUTPUT,
    "usage": {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 1}, "output_tokens": 1},
    "incomplete_details": {"reason": "x"},
    "tool_usage": {"web_search": {"num_requests": 1}},
    "service_tier": "auto",
}


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in inner:
        yield from places(child, (*place, name))


def spoiled(value: Any, place: tuple[Any, ...], junk: Any) -> Any:
    if not place:
        return junk
    copy = value.copy()
    copy[place[0]] = spoiled(value[place[0]], place[1:], junk)
    return copy


def _name(place: tuple[Any, ...]) -> str:
    return ".".join(map(str, place))


@each("place", list(places(REQUEST)), ids=_name)
def test_requests(place: tuple[Any, ...]) -> None:
    """A wrong value anywhere is the client's mistake or none at all, never a crash."""
    target = Target.of(Protocol.RESPONSES, "m")
    for junk in JUNK:
        try:
            request = CODEC.decode_request(spoiled(REQUEST, place, junk))
            for source in Protocol:
                CODEC.encode_request(replace(request, protocol=source), target, Ledger())
        except ClientError:
            continue
        assert request.model in ("m", "x", "")


@each("place", list(places(RESPONSE)), ids=_name)
def test_responses(place: tuple[Any, ...]) -> None:
    """A wrong value anywhere is a quirk, and what comes of it can be written."""
    for junk in JUNK:
        try:
            response = CODEC.decode_response(spoiled(RESPONSE, place, junk))
        except UpstreamError:
            continue
        for source in (Protocol.RESPONSES, None):
            assert CODEC.encode_response(response, ResponseContext(source=source))["object"] == "response"


EVENTS: list[dict[str, Any]] = [
    {"type": "response.output_item.added", "output_index": 0, "item": OUTPUT[0]},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "s"},
    {"type": "response.output_item.done", "output_index": 0, "item": OUTPUT[0]},
    {"type": "response.content_part.added", "output_index": 1, "content_index": 0, "part": {"type": "output_text"}},
    {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "t", "logprobs": [{}]},
    {"type": "response.output_text.annotation.added", "output_index": 1, "annotation": {"type": "url_citation"}},
    {"type": "response.output_text.done", "output_index": 1, "content_index": 0, "text": "t", "logprobs": []},
    {"type": "response.output_item.added", "output_index": 2, "item": {**OUTPUT[2], "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{"},
    {"type": "response.function_call_arguments.done", "output_index": 2, "arguments": "{}", "name": "n"},
    {"type": "response.output_item.done", "output_index": 3, "item": OUTPUT[4]},
    {"type": "response.completed", "response": RESPONSE},
]


@pytest.mark.parametrize("number", range(len(EVENTS)))
def test_streams(number: int) -> None:
    """A wrong value in any event: one end, and a stream that can be written."""
    for place in places(EVENTS[number]):
        for junk in JUNK:
            decoder = CODEC.decoder()
            found = decoder.feed(created())
            for n, event in enumerate(EVENTS):
                sent = spoiled(event, place, junk) if n == number else event
                found += decoder.feed_event("", json.dumps(sent).encode())
            found += decoder.close()
            assert sum(isinstance(event, (Finish, Failed)) for event in found) == 1
            for source in (Protocol.RESPONSES, None):
                assert CODEC.encoder(ResponseContext(source=source)).encode(Sequencer().feed(found))


@pytest.mark.parametrize(
    "data",
    [b"{", b"\xff\xfe", b'"\\ud800"', b"[" * 100_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b"1" * 5_000, b"null"],
    ids=["cut", "utf8", "surrogate", "deep-array", "deep-object", "huge-int", "null"],
)
def test_bytes(data: bytes) -> None:
    """Broken JSON in an event is the upstream's fault, and told as one."""
    decoder = CODEC.decoder()
    found = decoder.feed(created()) + decoder.feed_event("response.output_text.delta", data) + decoder.close()
    assert isinstance(found[-1], Failed)


def test_memory_of_a_long_response() -> None:
    """Many parts and items must not slow down: every event is looked up, none is searched for."""
    decoder = CODEC.decoder()
    decoder.feed(created())
    for n in range(2_000):
        decoder.feed(sse("response.output_text.delta", output_index=n, content_index=0, delta="x"))
    assert isinstance(decoder.feed(completed())[-1], Finish)
