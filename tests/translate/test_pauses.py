"""Paused responses: their parts become one, the same whether streamed or whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue.model import Protocol, Usage
from trilogue.protocols.codec import Target
from trilogue.protocols.messages.history import PAUSES
from trilogue.protocols.registry import CODECS
from trilogue.translate.requests import translate_request
from trilogue.translate.responses import collect_stream, translate_response
from trilogue.translate.streams import StreamTranslator

Json = dict[str, Any]
CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
CLIENTS = pytest.mark.parametrize("client", [CHAT, RESPONSES], ids=lambda one: one.short)
HIT = {
    "type": "web_search_result",
    "url": "https://example.org",
    "title": "T",
    "encrypted_content": "x",
    "page_age": None,
}


def thinking(name: str) -> Json:
    return {"type": "thinking", "thinking": f"I think of {name}.", "signature": name}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def search(name: str) -> list[Json]:
    query = {"type": "server_tool_use", "id": name, "name": "web_search", "input": {"query": "q"}}
    return [query, {"type": "web_search_tool_result", "tool_use_id": name, "content": [HIT]}]


def part(stop: str, *content: Json) -> Json:
    usage = {
        "input_tokens": 10,
        "output_tokens": 3,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 2,
        "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 0},
        "server_tool_use": {"web_search_requests": 1},
        "service_tier": "standard",
    }
    base = {"id": f"msg_{len(content)}", "type": "message", "role": "assistant", "model": "claude-opus-4-8"}
    return {**base, "content": list(content), "stop_reason": stop, "stop_sequence": None, "usage": usage}


CALLED = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
PARTS = [
    part("pause_turn", thinking("s1"), text("Let me look. "), *search("srvtoolu_1")),
    part("pause_turn", *search("srvtoolu_2"), text("And again. ")),
    part("tool_use", thinking("s2"), text("Now this."), CALLED),
]
CALL = {"name": "f", "input_schema": {"type": "object"}}
ASKED: dict[Protocol, Json] = {
    CHAT: {"messages": [{"role": "user", "content": "Hi"}], "stream_options": {"include_usage": True}, "stream": True},
    RESPONSES: {"input": "Hi", "include": ["reasoning.encrypted_content"], "stream": True},
}


def stream_of(body: Json) -> bytes:
    """Return a response as the stream that Anthropic would send."""
    translator = StreamTranslator(source=MESSAGES, target=MESSAGES)
    return translator.whole(body) + translator.close()


def translator_for(client: Protocol) -> StreamTranslator:
    asked = {"model": "m", **ASKED[client]}
    exchange = translate_request(asked, source=client, target=Target.of(MESSAGES, "claude-opus-4-8")).exchange
    return StreamTranslator(source=MESSAGES, target=client, exchange=exchange, continues=True)


def fed(translator: StreamTranslator, data: bytes, size: int) -> bytes:
    return b"".join(translator.feed(data[at : at + size]) for at in range(0, len(data), size))


@CLIENTS
@pytest.mark.parametrize("size", [1, 50, 100_000])
def test_a_stream_is_the_same_as_the_whole(client: Protocol, size: int) -> None:
    translator, out = translator_for(client), b""
    for number, one in enumerate(PARTS):
        out += fed(translator, stream_of(one), size)
        assert translator.paused is (number < 2)
        assert translator.done is (number == 2)
        if translator.paused:
            translator.resume()
    asked = {"model": "m", **ASKED[client]}
    exchange = translate_request(asked, source=client, target=Target.of(MESSAGES, "claude-opus-4-8")).exchange
    whole = translate_response(PAUSES.joined(PARTS), source=MESSAGES, target=client, exchange=exchange).body
    streamed, expected = (unsealed(body) for body in (collect_stream(out, protocol=client), whole))
    assert streamed == expected
    usage = CODECS[client].decode_response(whole).usage
    assert usage is not None
    assert (usage.input, usage.output, usage.cache_read) == (51, 9, 15)


def unsealed(body: Json) -> Json:
    """Return a response without what is different each time it is made, and without fields that are null."""
    text = json.dumps(body)
    assert "trl2." in text
    found: Json = _without(body, {"id", "created", "created_at", "completed_at", "data", "encrypted_content", "index"})
    return found


def _without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(one, names) for name, one in value.items() if name not in names and one is not None}
    return [_without(one, names) for one in value] if isinstance(value, list) else value


@CLIENTS
def test_a_stream_that_is_not_continued_any_more(client: Protocol) -> None:
    translator = translator_for(client)
    out = fed(translator, stream_of(PARTS[0]), 1000)
    translator.resume()
    out += fed(translator, stream_of(PARTS[1]), 1000)
    out += translator.end_paused()
    assert translator.done
    assert not translator.paused
    assert translator.end_paused() == b""
    assert [loss.path for loss in translator.losses if loss.code == "stop.pause_turn"] == ["stop_reason"]
    body = collect_stream(out, protocol=client)
    if client is CHAT:
        assert body["choices"][0]["finish_reason"] == "length"
        assert body["usage"]["completion_tokens"] == 6
    else:
        assert (body["status"], body["incomplete_details"]["reason"]) == ("incomplete", "max_output_tokens")
        assert body["usage"]["output_tokens"] == 6


def test_a_part_that_breaks_off_is_a_failure() -> None:
    translator = translator_for(CHAT)
    fed(translator, stream_of(PARTS[0]), 1000)
    translator.resume()
    data = stream_of(PARTS[1])
    translator.feed(data[: len(data) // 2])
    translator.close()
    assert translator.failed is not None
    assert translator.finish is None


def test_without_a_caller_that_continues_it_is_cut_short() -> None:
    translator = StreamTranslator(source=MESSAGES, target=CHAT)
    out = fed(translator, stream_of(PARTS[0]), 1000)
    assert translator.done
    assert collect_stream(out, protocol=CHAT)["choices"][0]["finish_reason"] == "length"
    assert "stop.pause_turn" in [loss.code for loss in translator.losses]
    translator.resume()
    assert translator.end_paused() == b""


def test_parts_become_one_body() -> None:
    body = PAUSES.joined(PARTS)
    assert [block["type"] for block in body["content"]] == [block["type"] for one in PARTS for block in one["content"]]
    assert body["id"] == PARTS[0]["id"]
    assert body["stop_reason"] == "tool_use"
    assert body["usage"] == {
        "input_tokens": 30,
        "output_tokens": 9,
        "cache_read_input_tokens": 15,
        "cache_creation_input_tokens": 6,
        "cache_creation": {"ephemeral_5m_input_tokens": 6, "ephemeral_1h_input_tokens": 0},
        "server_tool_use": {"web_search_requests": 3},
        "service_tier": "standard",
    }


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"tools": [CALL]}, False),
        ({"tools": [{**CALL, "type": "custom"}]}, False),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, False),
        ({"tools": [CALL, {"type": "web_search_20260318", "name": "web_search"}]}, True),
        ({"tools": [{"type": "a_tool_of_next_year_20270101", "name": "x"}]}, True),
        ({"mcp_servers": [{"name": "x"}]}, True),
    ],
)
def test_only_tools_of_the_provider_lead_to_pauses(fields: Json, expected: bool) -> None:
    assert PAUSES.may_pause(fields) is expected


def test_sums_of_usage() -> None:
    earlier, latest = Usage(fresh=1, output=2, reasoning=1), Usage(fresh=3, cache_read=4, output=5, estimated=True)
    assert latest.plus(earlier) == Usage(fresh=4, cache_read=4, output=7, reasoning=1, estimated=True)
