"""The response object has every field that the Open Responses suite demands, from whichever upstream it came."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import trilogue
from trilogue import Protocol, Stamp, StreamTranslator
from trilogue.net.client.interface import UpstreamRequest
from trilogue.upstreams.demo.transport import DemoTransport

ASKED: dict[str, Any] = {
    "model": "demo",
    "input": "Hi",
    "tools": [
        {"type": "function", "name": "get_weather"},
        {"type": "namespace", "name": "n", "description": "", "tools": [{"type": "function", "name": "f"}]},
    ],
}
STRINGS = ("id", "object", "status", "model", "service_tier", "truncation")
NUMBERS = ("created_at", "temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs")
FLAGS = ("parallel_tool_calls", "store", "background")
OBJECTS = ("text", "metadata", "reasoning")
NULLABLE = (
    *("completed_at", "incomplete_details", "previous_response_id", "instructions", "error", "usage", "user"),
    *("max_output_tokens", "max_tool_calls", "safety_identifier", "prompt_cache_key", "tool_choice"),
)


def complaints(response: dict[str, Any]) -> list[str]:
    """What the suite's schema would say of a response object."""
    kinds: dict[str, Any] = dict.fromkeys(STRINGS, str) | dict.fromkeys(NUMBERS, (int, float))
    kinds |= dict.fromkeys(FLAGS, bool) | dict.fromkeys(OBJECTS, dict)
    wrong = [name for name, kind in kinds.items() if not isinstance(response.get(name), kind)]
    wrong += [name for name in NULLABLE if name not in response]
    for tool in response["tools"]:
        for inner in tool["tools"] if tool["type"] == "namespace" else [tool]:
            wrong += [f"tools.{name}" for name in ("description", "parameters", "strict") if name not in inner]
    return wrong


CHAT_TEXT = {"role": "assistant", "content": "Hi"}
CHAT = {
    "id": "c",
    "object": "chat.completion",
    "created": 5,
    "model": "m",
    "choices": [{"index": 0, "message": CHAT_TEXT, "finish_reason": "stop"}],
}
CHUNK = {**CHAT, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": CHAT_TEXT}]}
LAST = {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
CHAT_STREAM = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in (CHUNK, LAST)) + b"data: [DONE]\n\n"
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def snapshots(stream: bytes) -> list[dict[str, Any]]:
    lines = [line[6:] for line in stream.split(b"\n") if line.startswith(b"data: {")]
    return [event["response"] for line in lines if "response" in (event := json.loads(line))]


@pytest.mark.parametrize(("upstream", "answer"), [(Protocol.CHAT, CHAT), (Protocol.MESSAGES, MESSAGE)])
def test_whole_responses_are_complete(upstream: Protocol, answer: dict[str, Any]) -> None:
    """From another protocol's upstream, with the time of completion."""
    up = trilogue.translate_request(ASKED, source=Protocol.RESPONSES, target=upstream)
    stamp = Stamp(now=7, clock=lambda: 9.5)
    down = trilogue.translate_response(
        answer, source=upstream, target=Protocol.RESPONSES, exchange=up.exchange, stamp=stamp
    )
    assert complaints(down.body) == []
    assert (down.body["completed_at"], down.body["service_tier"]) == (9, "default")
    assert down.body["tools"][0] == {**ASKED["tools"][0], "description": None, "parameters": None, "strict": False}


def test_every_snapshot_of_a_stream_is_complete() -> None:
    """Created and in progress with the tier that was asked for and without a time of completion."""
    up = trilogue.translate_request({**ASKED, "stream": True}, source=Protocol.RESPONSES, target=Protocol.CHAT)
    stamp = Stamp(now=7, clock=lambda: 9.5)
    translator = StreamTranslator(source=Protocol.CHAT, target=Protocol.RESPONSES, exchange=up.exchange, stamp=stamp)
    told = snapshots(translator.feed(CHAT_STREAM) + translator.close())
    assert [complaints(response) for response in told] == [[], [], []]
    assert [response["service_tier"] for response in told] == ["auto", "auto", "default"]
    assert [response["completed_at"] for response in told] == [None, None, 9]


def test_a_response_that_was_cut_is_not_completed() -> None:
    """It has no time of completion."""
    cut = {**MESSAGE, "stop_reason": "max_tokens"}
    down = trilogue.translate_response(cut, source=Protocol.MESSAGES, target=Protocol.RESPONSES)
    assert (down.body["status"], down.body["completed_at"]) == ("incomplete", None)


@pytest.mark.parametrize("stream", [False, True])
def test_the_demo_is_complete(stream: bool) -> None:
    """It echoes what was asked, as any other upstream."""

    async def ask() -> bytes:
        asked = json.dumps({**ASKED, "stream": stream, "temperature": 0.5}).encode()
        response = await DemoTransport(pace=0).send(UpstreamRequest("POST", "demo:/v1/responses", (), asked))
        return await response.read(1_000_000)

    data = asyncio.run(ask())
    told = snapshots(data) if stream else [json.loads(data)]
    assert [complaints(response) for response in told] == [[] for _ in told]
    assert {response["temperature"] for response in told} == {0.5}
    assert isinstance(told[-1]["completed_at"], int)
