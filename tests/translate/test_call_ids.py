"""Tool calls that share an id, in histories and in answers."""

import json
from typing import Any

import pytest

import trilogue
from trilogue import BadRequest, Protocol, StreamTranslator, Target

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def call(number: int, call_id: str = "call_0") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": f'{{"n":{number}}}'}}


def said(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(text: str, call_id: str = "call_0") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def chat(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "tools": [TOOL], "messages": [{"role": "user", "content": "go"}, *messages]}


def pairs(body: dict[str, Any]) -> list[tuple[str, Any]]:
    """Ids with arguments of calls and texts of results, of a Messages request, in order."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    calls = [(block["id"], block["input"]["n"]) for block in blocks if block["type"] == "tool_use"]
    return calls + [(block["tool_use_id"], block["content"]) for block in blocks if block["type"] == "tool_result"]


def sent(*messages: dict[str, Any]) -> trilogue.RequestTranslation:
    return trilogue.translate_request(chat(*messages), source=C, target=Target.of(M, "claude-opus-5"))


def test_calls_of_several_turns_are_distinguished() -> None:
    """Servers count their calls anew in every answer; Anthropic wants every id once."""
    turns = [said(call(1)), result("one"), said(call(2)), result("two"), said(call(3)), result("three")]
    ids = ["call_0", "call_0_2", "call_0_3"]
    up = sent(*turns)
    assert pairs(up.body) == [*zip(ids, (1, 2, 3), strict=True), *zip(ids, ("one", "two", "three"), strict=True)]
    assert not [loss for loss in up.losses if loss.code != "max_tokens.defaulted"]
    assert pairs(sent(*turns[:4]).body) == [("call_0", 1), ("call_0_2", 2), ("call_0", "one"), ("call_0_2", "two")]


def test_a_new_id_is_never_one_of_the_others() -> None:
    """Here somebody else already has it."""
    both = [said(call(1), call(9, "call_0_2")), result("one"), result("nine", "call_0_2")]
    assert pairs(sent(*both, said(call(2)), result("two")).body) == [
        ("call_0", 1),
        ("call_0_2", 9),
        ("call_0_3", 2),
        ("call_0", "one"),
        ("call_0_2", "nine"),
        ("call_0_3", "two"),
    ]


def test_parallel_calls_with_one_id() -> None:
    """Their results come in the order of the calls."""
    wanted = [("call_0", 1), ("call_0_2", 2), ("call_0", "one"), ("call_0_2", "two")]
    assert pairs(sent(said(call(1), call(2)), result("one"), result("two")).body) == wanted


def test_a_call_that_is_there_twice_has_one_result() -> None:
    """Clients that put a stream together wrongly keep a call twice."""
    assert pairs(sent(said(call(1), call(1)), result("one")).body) == [("call_0", 1), ("call_0", "one")]
    with pytest.raises(BadRequest) as error:
        sent(said(call(1), call(2)), result("one"))
    assert error.value.path == "messages[1].tool_calls[1]"


ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": said(call(5), call(6, "call_1")), "finish_reason": "tool_calls"}],
}
CHUNKS = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **call(5)}]}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 1, **call(6, "call_1")}]}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
]
STREAM = "".join(f"data: {json.dumps({'id': 'c', 'model': 'm', **chunk})}\n\n" for chunk in CHUNKS) + "data: [DONE]\n\n"


def history(client: Protocol) -> dict[str, Any]:
    """A conversation in which call_0 and call_0_2 have been."""
    ids = ("call_0", "call_0_2")
    if client is M:
        uses = [{"type": "tool_use", "id": call_id, "name": "look", "input": {}} for call_id in ids]
        results = [{"type": "tool_result", "tool_use_id": call_id, "content": "ok"} for call_id in ids]
        turns = [("user", "go"), ("assistant", uses), ("user", results)]
        messages = [{"role": role, "content": content} for role, content in turns]
        return {"model": "m", "max_tokens": 99, "messages": messages}
    calls = [{"type": "function_call", "call_id": call_id, "name": "look", "arguments": "{}"} for call_id in ids]
    outputs = [{"type": "function_call_output", "call_id": call_id, "output": "ok"} for call_id in ids]
    return {"model": "m", "input": [{"role": "user", "content": "go"}, *calls, *outputs]}


@pytest.mark.parametrize("client", [M, R])
def test_a_response_has_ids_that_the_history_has_not(client: Protocol) -> None:
    """Agents find results by the ids of calls alone: a known id gives them the old result, for ever."""
    exchange = trilogue.translate_request(history(client), source=client, target=C).exchange
    body = trilogue.translate_response(ANSWER, source=C, target=client, exchange=exchange).body
    stream = StreamTranslator(source=C, target=client, exchange=exchange)
    streamed = trilogue.collect_stream(stream.feed(STREAM.encode()) + stream.close(), protocol=client)
    key, field = ("content", "id") if client is M else ("output", "call_id")
    for answer in (body, streamed):
        assert [block[field] for block in answer[key]] == ["call_0_3", "call_1"]


@pytest.mark.parametrize("client", [M, C])
def test_calls_of_one_response_have_ids_of_their_own(client: Protocol) -> None:
    """Whatever the upstream does."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_0", "name": "look", "arguments": "{}"}
    answer = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "output": [call, call],
    }
    body = trilogue.translate_response(answer, source=R, target=client).body
    calls = body["content"] if client is M else body["choices"][0]["message"]["tool_calls"]
    assert [call["id"] for call in calls] == ["call_0", "call_0_2"]
