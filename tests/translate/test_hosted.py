"""Hosted tools that run at the same time or one inside the other: each result finds its call."""

import json
from typing import Any

import pytest

import trilogue
from trilogue.lint import lint_stream
from trilogue.model import (
    Block,
    BlockStart,
    BlockStop,
    Event,
    Finish,
    HostedCall,
    HostedKind,
    HostedResult,
    Stop,
    StopReason,
    Text,
)
from trilogue.translate.tools.calls import HostedStage

END = Finish(stop=Stop(reason=StopReason.END))


def block(letter: str) -> Block:
    """A call (small letter), its result (capital) or a text (a dash)."""
    if letter == "-":
        return Text(text="")
    if letter.islower():
        return HostedCall(tool=HostedKind.WEB_SEARCH, id=letter)
    return HostedResult(tool=HostedKind.WEB_SEARCH, call_id=letter.lower())


def letter_of(given: Block) -> str:
    """The other way round."""
    if isinstance(given, HostedCall):
        return given.id
    return given.call_id.upper() if isinstance(given, HostedResult) else "-"


def passed(letters: str) -> list[str]:
    """What has left the stage after each block, and at the end."""
    stage, blocks = HostedStage(), [block(letter) for letter in letters]
    batches: list[list[Event]] = [[BlockStart(n, given), BlockStop(n)] for n, given in enumerate(blocks)]
    batches.append([END])
    out = [stage(batch) for batch in batches]
    assert sum(map(len, out)) == 2 * len(letters) + 1
    return ["".join(letter_of(event.block) for event in events if isinstance(event, BlockStart)) for events in out]


@pytest.mark.parametrize(
    ("letters", "wanted"),
    [
        ("aAbB-", ["a", "A", "b", "B", "-", ""]),
        ("abAB-", ["a", "", "Ab", "B", "-", ""]),
        ("abBA-", ["a", "", "", "AbB", "-", ""]),
        ("abBcCA", ["a", "", "", "", "", "AbBcC", ""]),
        ("abcCB", ["a", "", "", "", "", "bBcC"]),
        ("ab-AB", ["a", "", "b-", "A", "B", ""]),
        ("aba-", ["a", "", "ba", "-", ""]),
        ("Aa-", ["A", "a", "-", ""]),
    ],
    ids=["in-turn", "parallel", "inside", "two-inside", "no-result", "words-between", "same-id", "result-first"],
)
def test_results_go_behind_their_calls(letters: str, wanted: list[str]) -> None:
    """The first call goes on at once, so that a client sees that something runs; words wait for nothing."""
    assert passed(letters) == wanted


def test_blocks_that_are_open_when_others_begin() -> None:
    """No event is lost if a call that waited is not complete when it must go on."""
    stage = HostedStage()
    events = [
        BlockStart(0, block("a")),
        BlockStart(1, block("b")),
        BlockStart(2, block("-")),
        BlockStop(1),
        BlockStop(0),
    ]
    assert [event for one in events for event in stage([one])] == events


def test_a_responses_client_gets_every_result() -> None:
    """One item each, with what it found or that it failed, from a stream as from a whole answer."""
    calls = [
        {"type": "mcp_tool_use", "id": f"mcptoolu_{n}", "name": "f", "server_name": "s", "input": {"n": n}}
        for n in "12"
    ]
    results = [
        {"type": "mcp_tool_result", "tool_use_id": f"mcptoolu_{n}", "is_error": n == "2", "content": f"result {n}"}
        for n in "12"
    ]
    content = [*calls, *results, {"type": "text", "text": "Hello"}]
    body: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 9},
    }
    whole = trilogue.translate_response(body, source="messages", target="responses")
    assert [(item.get("output"), item["status"]) for item in whole.body["output"]] == [
        ("result 1", "completed"),
        ("result 2", "failed"),
        (None, "completed"),
    ]
    assert whole.losses == []
    translator = trilogue.StreamTranslator(source="messages", target="responses")
    out = translator.feed(_stream(body)) + translator.close()
    assert translator.snapshot["output"] == whole.body["output"]
    assert [finding for finding in lint_stream("responses", out) if finding.severity == "error"] == []


def _stream(body: dict[str, Any]) -> bytes:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**body, "content": [], "stop_reason": None}}]
    for index, given in enumerate(body["content"]):
        events.append({"type": "content_block_start", "index": index, "content_block": given})
        events.append({"type": "content_block_stop", "index": index})
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}
    events += [end, {"type": "message_stop"}]
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)
