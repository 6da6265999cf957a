"""Answers that go on and on: what is kept of them is bounded, and who waits for their end hears of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.core import STREAMS
from tests.gateway.wire import _ENDS, _FAILURES
from trilogue import Protocol, StreamTranslator
from trilogue.base.sse import SseParser
from trilogue.gateway.response import pass_through
from trilogue.gateway.response.pass_through import PassThrough
from trilogue.protocols.responses import encode_stream
from trilogue.protocols.stream.decoder import PIECE
from trilogue.protocols.stream.response_context import Reply
from trilogue.translate import streams

MOST = 2000
PAIRS = [(source, target) for source in Protocol for target in Protocol if source is not target]


def names(pair: tuple[Protocol, Protocol]) -> str:
    return f"{pair[0].short}-{pair[1].short}"


def kinds(out: bytes) -> list[str]:
    return [event.event or json.loads(event.data).get("type", "error") for event in SseParser().feed(out)]


def chat(**delta: Any) -> bytes:
    """One event of a Chat stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    body = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: %b\n\n" % json.dumps(body).encode()


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_TEXT", MOST)
    monkeypatch.setattr(pass_through, "MOST_TEXT", MOST)


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("at_once", [1, 7], ids=["one by one", "several at once"])
@pytest.mark.parametrize("pair", PAIRS, ids=names)
def test_an_endless_text_ends_with_an_error(pair: tuple[Protocol, Protocol], at_once: int) -> None:
    """In the client's own form, without what there was of it once more."""
    translator = StreamTranslator(source=pair[0], target=pair[1])
    events = list(STREAMS[pair[0]](MOST))
    sent = b""
    for at in range(0, len(events), at_once):
        sent += translator.feed(b"".join(events[at : at + at_once]))
        if translator.done:
            break
    assert translator.failed is not None
    assert str(translator.failed.failure.message).startswith("the response is longer than")
    assert translator.failed.failure.code == "upstream_protocol_error"
    told = kinds(sent)
    assert told[-1] in _FAILURES[pair[1]]
    assert not set(told) & _ENDS[pair[1]]
    assert len(events) > at + at_once > MOST // (PIECE + 20)
    assert "response.output_item.done" not in told


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hmm " * 20},
        {"tool_calls": [{"index": 0, "function": {"arguments": "1234 " * 20}}]},
        {"content": "x" * 100, "tool_calls": [{"index": 0, "function": {"arguments": "1"}}]},
    ],
    ids=["reasoning", "arguments", "one waits for the other"],
)
@pytest.mark.parametrize("target", [Protocol.MESSAGES, Protocol.RESPONSES], ids=lambda target: target.short)
def test_whatever_is_endless(target: Protocol, delta: dict[str, Any]) -> None:
    """Reasoning and arguments count as text does, also while they wait."""
    translator = StreamTranslator(source=Protocol.CHAT, target=target)
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": ['}}
    translator.feed(chat(role="assistant", content=""))
    if "tool_calls" in delta:
        translator.feed(chat(tool_calls=[call]))
    for _ in range(MOST // 50):
        translator.feed(chat(**delta))
    assert translator.failed is not None


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("protocol", Protocol, ids=lambda protocol: protocol.short)
def test_passing_through_keeps_nothing_but_of_responses(protocol: Protocol) -> None:
    """Only the decoder of Responses keeps what came, to compare it with the end: only there it can be too long."""
    through = PassThrough(protocol, Reply(source=protocol))
    events = list(STREAMS[protocol](MOST))
    sent = b"".join(through.feed(b"".join(events[at : at + 5])) for at in range(0, len(events), 5) if not through.done)
    if protocol is Protocol.RESPONSES:
        assert through.failed is not None
        assert kinds(sent)[-1] in _FAILURES[protocol]
    else:
        assert through.failed is None
        assert sent == b"".join(events)


def test_items_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many calls, each of them short: all of them are kept for the end."""
    monkeypatch.setattr(encode_stream, "MOST_OUTPUT", MOST)
    translator = StreamTranslator(source=Protocol.CHAT, target=Protocol.RESPONSES)
    sent = translator.feed(chat(role="assistant", content=""))
    for number in range(100):
        call = {"index": number, "id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        sent += translator.feed(chat(tool_calls=[call]))
    assert translator.failed is not None
    assert "the items of the response" in translator.failed.failure.message
    assert kinds(sent)[-1] == "response.failed"
