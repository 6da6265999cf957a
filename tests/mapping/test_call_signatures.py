"""Gemini signs tool calls and refuses a history without the signatures: they go through every client and come back."""

from typing import Any

import pytest

import trilogue
from trilogue import Protocol, Target

GEMINI = Target.of(Protocol.CHAT, "gemini-3-pro-preview")
CALL = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
SIGNED = {**CALL, "id": "c1", "extra_content": {"google": {"thought_signature": "SIG"}}}
PLAIN = {**CALL, "id": "c2"}
ANSWER = {
    "id": "r1",
    "choices": [{"index": 0, "message": {"role": "assistant", "tool_calls": [SIGNED, PLAIN]}, "finish_reason": "stop"}],
}


def chunks() -> bytes:
    """The same answer as Gemini streams it: every call in one piece."""
    deltas = ({"tool_calls": [{**call, "index": index}]} for index, call in enumerate((SIGNED, PLAIN)))
    bodies = [{"id": "r1", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    bodies.append({"id": "r1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return b"".join(b"data: %b\n\n" % trilogue.dump(body) for body in bodies) + b"data: [DONE]\n\n"


def messages(**fields: Any) -> dict[str, Any]:
    tool = {"name": "f", "input_schema": {"type": "object"}}
    body = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "x"}], "tools": [tool], **fields}
    return body


def messages_again(body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    results = [{"type": "tool_result", "tool_use_id": name, "content": "y"} for name in ("c1", "c2")]
    said = {"role": "assistant", "content": answer["content"]}
    return {**body, "messages": [*body["messages"], said, {"role": "user", "content": results}]}


def responses() -> dict[str, Any]:
    return {"model": "m", "input": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "name": "f"}]}


def responses_again(body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    results = [{"type": "function_call_output", "call_id": name, "output": "y"} for name in ("c1", "c2")]
    return {**body, "input": [*body["input"], *answer["output"], *results]}


def extras(request: trilogue.RequestTranslation) -> list[Any]:
    """What the calls of the assistant's message have beside the usual."""
    (said,) = (message for message in request.body["messages"] if message["role"] == "assistant")
    return [call.get("extra_content") for call in said["tool_calls"]]


def whole(up: trilogue.RequestTranslation, client: Protocol, streamed: bool) -> dict[str, Any]:
    """The answer as the client has it in the end."""
    if not streamed:
        return trilogue.translate_response(ANSWER, source=Protocol.CHAT, target=client, exchange=up.exchange).body
    stream = trilogue.StreamTranslator(source=Protocol.CHAT, target=client, exchange=up.exchange)
    return trilogue.collect_stream(stream.feed(chunks()) + stream.close(), protocol=client)


@pytest.mark.parametrize("streamed", [False, True])
def test_signatures_come_back(streamed: bool) -> None:
    """To the call that they came with."""
    thinking = {"type": "adaptive"}
    rounds = [
        (Protocol.MESSAGES, messages(thinking=thinking), messages_again),
        (Protocol.RESPONSES, responses(), responses_again),
    ]
    for client, body, again in rounds:
        up = trilogue.translate_request(body, source=client, target=GEMINI)
        answer = whole(up, client, streamed)
        back = trilogue.translate_request(again(body, answer), source=client, target=GEMINI)
        assert extras(back) == [SIGNED["extra_content"], None]


def test_calls_of_others_get_the_placeholder() -> None:
    """One per message, as Gemini signs the first of parallel calls only; other servers get none."""
    body = messages()
    up = trilogue.translate_request(body, source=Protocol.MESSAGES, target=GEMINI)
    history = messages_again(body, whole(up, Protocol.MESSAGES, True))
    placeholder = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert extras(trilogue.translate_request(history, source=Protocol.MESSAGES, target=GEMINI)) == [placeholder, None]
    other = Target.of(Protocol.CHAT, "gpt-5")
    assert extras(trilogue.translate_request(history, source=Protocol.MESSAGES, target=other)) == [None, None]


def test_chat_clients_get_them_as_they_are() -> None:
    """In streams and whole answers."""
    for body in (
        trilogue.translate_response(ANSWER, source=Protocol.CHAT, target=Protocol.CHAT).body,
        trilogue.collect_stream(chunks(), protocol=Protocol.CHAT),
    ):
        message = body["choices"][0]["message"]
        assert [call.get("extra_content") for call in message["tool_calls"]] == [SIGNED["extra_content"], None]
        assert "reasoning_details" not in message
