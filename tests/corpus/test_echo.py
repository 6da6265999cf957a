"""The second turn: a client sends an answer back, and its provider must find everything that it needs again."""

import json
from typing import Any

import pytest

import trilogue
from tests.corpus import load
from tests.corpus.cases import CHAT, MESSAGES, RESPONSES, others
from tests.each import each
from tests.judges import meaning, sdk
from tests.judges.answers import Answer
from trilogue import Protocol, Target

OPENING = "What is it?"
NEXT = "Go on."


def history(client: Protocol, body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """The request with which a client goes on after an answer: all of it echoed, and a result for every call."""
    return _HISTORIES[client](body, answer)


def _chat(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    results = [{"role": "tool", "tool_call_id": call.id, "content": f"result {call.name}"} for call in answer.calls]
    turns = [{"role": "user", "content": OPENING}, body["choices"][0]["message"], *results]
    return {"model": "m", "messages": [*turns, {"role": "user", "content": NEXT}]}


def _messages(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    results = [{"type": "tool_result", "tool_use_id": c.id, "content": f"result {c.name}"} for c in answer.calls]
    assistant = [{"role": "assistant", "content": body["content"]}] if body["content"] else []
    turns = [{"role": "user", "content": OPENING}, *assistant]
    last = {"role": "user", "content": [*results, {"type": "text", "text": NEXT}]}
    return {"model": "m", "max_tokens": 999, "messages": [*turns, last]}


def _responses(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    kinds = {"function": "function_call_output", "custom": "custom_tool_call_output"}
    results = [{"type": kinds[c.kind], "call_id": c.id, "output": f"result {c.name}"} for c in answer.calls]
    turns = [{"role": "user", "content": OPENING}, *body["output"], *results]
    return {"model": "m", "store": False, "input": [*turns, {"role": "user", "content": NEXT}]}


_HISTORIES = {CHAT: _chat, MESSAGES: _messages, RESPONSES: _responses}


def answered(recording: load.Recording) -> bool:
    """A whole answer that the next turn can build on."""
    assert recording.body is not None
    answer = meaning.of_body(recording.protocol, recording.body)
    return answer.stop in ("end", "tool_calls") and bool(answer.text or answer.calls)


CASES = [
    pytest.param(name, client, id=f"{name}-{client.short}")
    for name in load.bodies()
    if answered(load.load(name))
    for client in others(load.load(name).protocol)
]


@each(("name", "client"), CASES)
def test_an_echoed_response_comes_back(name: str, client: Protocol) -> None:
    """Words, calls and results return in order, and every opaque value to who made it; the SDK's types agree."""
    recording = load.load(name)
    assert recording.body is not None
    before = meaning.of_body(recording.protocol, recording.body)
    down = trilogue.translate_response(recording.body, source=recording.protocol, target=client).body
    request = history(client, down, meaning.of_body(client, down))
    target = Target.of(recording.protocol, recording.data["model"] or "m")
    up = trilogue.translate_request(request, source=client, target=target).body
    after = meaning.of_request(recording.protocol, up)
    sent = json.dumps(up, ensure_ascii=False)
    assert [value for value in before.opaque if value and value not in sent] == []
    said = [segment for segment in after.segments if segment.side == "assistant"]
    calls = [call for segment in said for call in segment.calls]
    assert [call.name for call in calls] == [call.name for call in before.calls]
    # A free-text call that a client without such tools has seen as a function stays one.
    wanted = [(call.arguments, {"input": call.arguments}) for call in before.calls]
    assert all(call.arguments in either for call, either in zip(calls, wanted, strict=True))
    heard = [segment for segment in after.segments if segment.side == "user"]
    assert [r.id for s in heard for r in s.results] == [call.id for call in calls]
    assert told(before, "".join(text for s in said for text in s.texts))
    # Google's own field, without which Gemini refuses the next turn.
    problems = [text for text in sdk.request_problems(recording.protocol, up) if "extra_content" not in text]
    assert problems[:3] == []


def told(before: Answer, found: str) -> bool:
    """All the words are there. Notes about tools that the provider ran may stand between them: then the ends count."""
    wanted, letters = "".join(before.text.split()), "".join(found.split())
    if before.natives or before.searches:
        return wanted[:40] in letters and wanted[-40:] in letters
    return wanted in letters
