"""History repair: opt-in, declared, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest

from trilogue import BadRequest, Protocol, Target, translate_request
from trilogue.model import Ledger
from trilogue.protocols.registry import CODECS
from trilogue.translate.content.history import UNAVAILABLE
from trilogue.translate.requests import RequestOptions, translate_request_with

TOOLS = {"name": "f", "input_schema": {"type": "object", "properties": {}}}


def messages(*turns: dict[str, Any]) -> dict[str, Any]:
    return {"model": "claude-opus-5", "max_tokens": 100, "messages": list(turns), "tools": [TOOLS]}


USER = {"role": "user", "content": "go"}
CALLS = {
    "role": "assistant",
    "content": [
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
        {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}},
    ],
}
ONE_RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"}]}
ORPHAN = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_9", "content": "late"}]}


@pytest.mark.parametrize("target", list(Protocol))
def test_call_without_result_gets_one(target: Protocol) -> None:
    """Every protocol refuses an unanswered call, so each target gets the made-up error result."""
    up = translate_request(messages(USER, CALLS, ONE_RESULT), source=Protocol.MESSAGES, target=target, repair=True)
    text = str(up.body)
    assert text.count(UNAVAILABLE) == 1
    assert "toolu_2" in text.split(UNAVAILABLE, maxsplit=1)[0]
    assert ("tool_result.synthetic", "messages[1].content[1]") in [(loss.code, loss.path) for loss in up.losses]


@pytest.mark.parametrize("target", list(Protocol))
def test_result_without_call_is_dropped(target: Protocol) -> None:
    """And said so."""
    up = translate_request(messages(USER, ORPHAN, USER), source=Protocol.MESSAGES, target=target, repair=True)
    assert "late" not in str(up.body)
    assert [loss.code for loss in up.losses if loss.code.startswith("tool_result")] == ["tool_result.orphan_dropped"]


def test_by_itself_no_result_is_dropped_that_the_model_has_not_seen() -> None:
    """It is what the client has to say: a response without it would be worse than none."""
    options = RequestOptions(repair="auto")
    said = {"role": "assistant", "content": "Yes"}
    up = translate_request_with(messages(USER, ORPHAN, said, USER), "messages", "chat", options)
    assert "late" not in str(up.body)
    with pytest.raises(BadRequest, match="not there"):
        translate_request_with(messages(USER, said, ORPHAN), "messages", "chat", options)
    assert UNAVAILABLE in str(translate_request_with(messages(USER, CALLS, USER), "messages", "chat", options).body)


@pytest.mark.parametrize(
    ("turns", "path"),
    [((USER, CALLS, ONE_RESULT), "messages[1].content[1]"), ((USER, ORPHAN), "messages[1].content[0]")],
)
def test_broken_history_is_refused_unless_repair_is_asked(turns: tuple[dict[str, Any], ...], path: str) -> None:
    """Every upstream would answer 400: better before anything is sent. The same protocol is passed on as it is."""
    body = messages(*turns)
    with pytest.raises(BadRequest) as refused:
        translate_request(body, source=Protocol.MESSAGES, target=Protocol.CHAT)
    assert refused.value.path == path
    assert translate_request(body, source=Protocol.MESSAGES, target=Protocol.MESSAGES).body == body


@pytest.mark.parametrize("target", [Protocol.CHAT, Protocol.MESSAGES])
def test_a_result_that_names_no_call(target: Protocol) -> None:
    """Responses allow it: their own upstreams get it as it is. For others it answers nothing, and the error says so."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    given = {"type": "function_call_output", "name": "f", "output": "x"}
    body = {"model": "gpt-5.6", "input": [USER, call, given]}
    with pytest.raises(BadRequest, match="does not say which tool call it belongs to") as refused:
        translate_request(body, source=Protocol.RESPONSES, target=target)
    assert refused.value.path == "input[2]"
    assert translate_request(body, source=Protocol.RESPONSES, target=Protocol.RESPONSES).body == body
    codec = CODECS[Protocol.RESPONSES]
    again = codec.encode_request(codec.decode_request(body), Target.of(Protocol.RESPONSES, "gpt-5.6"), Ledger())
    assert again["input"][2] == given


def test_whole_history_stays_untouched() -> None:
    """Repair of a history that needs none changes no byte."""
    body = messages(USER)
    assert translate_request(body, source=Protocol.MESSAGES, target=Protocol.MESSAGES, repair=True).body == body
