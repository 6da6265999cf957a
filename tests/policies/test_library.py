"""Policies with `StreamTranslator`, `translate_response` and `ResponseTranslator`, driven by plain code."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

import pytest

from tests.each import each
from tests.policies.making import Judging, passing
from tests.policies.pairs import PAIRS, call, chunks, collected, stream_of
from tests.timing import turns
from trilogue import (
    InternalError,
    Protocol,
    ResponseTranslator,
    StreamTranslator,
    UpstreamTimeout,
    collect_stream,
    translate_request,
    translate_response,
)
from trilogue.base.sse import SseParser
from trilogue.model import Block, Reasoning, Response, StopReason, Text, ToolCall
from trilogue.policies import PASS, Answer, Ask, Context, Drop, Policy, PolicyRun, Replace, Rewrite, call_of
from trilogue.protocols.registry import codec

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
CHUNK = '{"id":"1","model":"m","created":1,"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}'


def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
    """Return one event of a Chat stream."""
    return b"data: " + (CHUNK % (json.dumps(delta), json.dumps(reason))).encode() + b"\n\n"


def called(name: str, arguments: str, index: int = 0) -> dict[str, Any]:
    """Return a delta with a whole call."""
    return {"tool_calls": [{"index": index, "id": f"c{index}", "function": {"name": name, "arguments": arguments}}]}


def asking(block: Block, context: Context) -> object:
    """Ask about every call, and drop those that get no yes."""
    return Ask("may it?", lambda answer: PASS if answer else Drop(reason="no"))


ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Look:", **called("bash", '{"command":"ls"}')},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
}


def test_what_is_released_later_goes_on_in_order() -> None:
    """Text flows while a call is held, and the rest follows the verdict."""
    run = PolicyRun([Judging(asking)])
    translator = StreamTranslator(source=C, target=M, policies=run)
    out = translator.feed(chunk({"role": "assistant", "content": "Look:"}))
    assert b"Look:" in out
    out = translator.feed(chunk(called("bash", '{"command":"ls"}')) + chunk({}, "tool_calls"))
    assert b"bash" not in out
    assert run.pending is not None
    assert translator.feed(b"data: [DONE]\n\n") == b""
    assert not translator.done
    out = translator.release(run.resolve(Answer(True)))
    assert [event.event for event in SseParser().feed(out)] == [
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert translator.done
    assert not run.changed


def test_a_chat_call_is_judged_at_its_finish_reason() -> None:
    """Not at [DONE], which may come a second later."""
    seen = []

    def see(block: Block, context: Context) -> object:
        seen.append(call_of(block))
        return PASS

    translator = StreamTranslator(source=C, target=C, policies=PolicyRun([Judging(see)]))
    translator.feed(chunk(called("bash", '{"command":"ls"}')))
    assert seen == []
    translator.feed(chunk({}, "tool_calls"))
    assert [call.arguments for call in seen if call] == [{"command": "ls"}]


class SlowlyDenies(Policy):
    """A policy that awaits something before it decides about a call."""

    calls = True

    async def on_block(self, block: Block, context: Context) -> object:
        """Replace calls of one tool."""
        await turns()
        return Replace((Text(text="Not now."),)) if (found := call_of(block)) and found.name == "bash" else PASS


@pytest.mark.parametrize("pair", PAIRS)
def test_verdicts_that_the_caller_awaits(pair: tuple[Protocol, Protocol]) -> None:
    """The caller reads on, awaits what the run waits for, and gets what a whole response gives."""
    rng = Random(1)
    said = [call("bash", '{"command":"ls"}', rng, id="call_1"), call("look", "{}", rng, id="call_2")]
    data = stream_of(pair[0], said, rng, "calls")

    async def relayed() -> bytes:
        run = PolicyRun([SlowlyDenies()])
        translator = StreamTranslator(source=pair[0], target=pair[1], policies=run)
        out = b""
        for piece in [*chunks(data, rng), None]:
            out += translator.close() if piece is None else translator.feed(piece)
            while (pending := run.pending) is not None and (piece is None or rng.random() < 0.5):
                assert pending.awaitable is not None
                out += translator.release(run.resolve(await pending.awaitable))
        assert translator.done
        return out

    async def whole() -> Response:
        run = PolicyRun([SlowlyDenies()])
        translator = ResponseTranslator(
            collect_stream(data, protocol=pair[0]), source=pair[0], target=pair[1], policies=run
        )
        while (pending := run.pending) is not None:
            assert pending.awaitable is not None
            run.resolve(await pending.awaitable)
        return codec(pair[1]).decode_response(translator.result().body)

    streamed, expected = collected(pair[1], asyncio.run(relayed())), asyncio.run(whole())
    assert [type(block) for block in streamed.blocks] == [type(block) for block in expected.blocks] == [Text, ToolCall]
    assert streamed.stop.reason is expected.stop.reason is StopReason.TOOL_CALLS


def test_an_error_drops_what_is_held() -> None:
    """The connection broke while a person thought about a call."""
    run = PolicyRun([Judging(asking)])
    translator = StreamTranslator(source=C, target=M, policies=run)
    translator.feed(chunk(called("bash", '{"command":"ls"}')) + chunk({}, "tool_calls"))
    assert run.pending is not None
    out = translator.fail(UpstreamTimeout("too late"))
    assert b"event: error" in out
    assert b"bash" not in out
    assert run.pending is None
    assert translator.release([]) == b""


def test_an_upstream_that_fails_while_something_is_held() -> None:
    """The failure waits its turn behind the verdict."""
    run = PolicyRun([Judging(asking)])
    translator = StreamTranslator(source=C, target=M, policies=run)
    translator.feed(chunk(called("bash", "{}")) + chunk({}, "tool_calls"))
    translator.feed(b'data: {"error":{"message":"overloaded","code":503}}\n\n')
    assert translator.failed is None
    out = translator.release(run.resolve(None))
    assert b"overloaded" in out
    assert b"bash" not in out
    assert translator.failed is not None


@each("pair", PAIRS)
def test_whole_responses(pair: tuple[Protocol, Protocol]) -> None:
    """The same policy without a stream, on all pairs."""
    source, target = pair
    body = translate_response(ANSWER, source=C, target=source).body
    run = PolicyRun([Judging(lambda block, context: Drop(reason="no"))])
    down = translate_response(body, source=source, target=target, policies=run)
    assert "bash" not in json.dumps(down.body)
    assert "Look:" in json.dumps(down.body)
    assert down.response.usage is not None
    kept = translate_response(body, source=source, target=target, policies=PolicyRun([Judging(passing)]))
    assert kept.body == translate_response(body, source=source, target=target).body


def test_a_whole_response_can_wait() -> None:
    """`ResponseTranslator` is driven by the caller; `translate_response` says that it cannot wait."""
    run = PolicyRun([Judging(asking)])
    translator = ResponseTranslator(ANSWER, source=C, target=M, policies=run)
    with pytest.raises(InternalError, match="a policy waits for an answer"):
        translator.result()
    run.resolve(Answer(True))
    assert translator.result().body["content"][1]["name"] == "bash"
    with pytest.raises(InternalError):
        translate_response(ANSWER, source=C, target=M, policies=PolicyRun([Judging(asking)]))


class Shorten(Policy):
    """Changes all reasoning."""

    reasoning = "whole"

    def on_block(self, block: Block, context: Context) -> object:
        assert isinstance(block, Reasoning)
        return Rewrite(Reasoning(summary=("short",), opaque=block.opaque))


THOUGHTFUL = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "a long story", "signature": "SIG"},
        {"type": "text", "text": "Hi"},
    ],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 2},
}


def test_changed_reasoning_loses_its_signature() -> None:
    """It is declared, and the mark in its place is recognised when the client sends it back."""
    down = translate_response(THOUGHTFUL, source=M, target=M, policies=PolicyRun([Shorten()]))
    assert [loss.code for loss in down.losses] == ["policy.reasoning"]
    thought = down.body["content"][0]
    assert (thought["type"], thought["thinking"]) == ("thinking", "short")
    assert thought["signature"].startswith("trl2.")
    history = [{"role": "user", "content": "?"}, {"role": "assistant", "content": down.body["content"]}]
    request = {"model": "m", "max_tokens": 9, "messages": [*history, {"role": "user", "content": "!"}]}
    up = translate_request(request, source=M, target=M)
    assert "short" not in json.dumps(up.body)
    assert "SIG" not in json.dumps(up.body)


def test_policies_see_what_the_client_will_see() -> None:
    """Tool names as the client knows them, and text without <think>."""
    name = "n" * 70
    request = {
        "model": "m",
        "max_output_tokens": 9,
        "input": "?",
        "tools": [{"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}],
    }
    up = translate_request(request, source=R, target=C)
    short = up.body["tools"][0]["function"]["name"]
    assert short != name
    seen: list[str] = []

    def see(block: Block, context: Context) -> object:
        call = call_of(block)
        seen.append(call.name if call else block.text if isinstance(block, Text) else "")
        return PASS

    run = PolicyRun([Judging(see, text="whole")])
    translator = StreamTranslator(source=C, target=R, exchange=up.exchange, policies=run)
    translator.feed(chunk({"content": "Hi"}) + chunk(called(short, "{}")) + chunk({}, "tool_calls"))
    assert seen == ["Hi", name]
