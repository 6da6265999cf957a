"""Optional arguments that a model has left empty, in calls for clients of another protocol."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from trilogue import Protocol, StreamTranslator, Target, translate_request, translate_response
from trilogue.translate.tools.empty import ArgumentFilter, Literals, empty_literals
from trilogue.vendors.profile import Profile
from trilogue.vendors.profile_lookup import profile_for

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
PROPERTIES: dict[str, Any] = {
    "file_path": {"type": "string"},
    "offset": {"type": "integer"},
    "limit": {"type": ["integer", "null"]},
    "pages": {"type": "string", "description": "Page range, for PDF files."},
    "mode": {"enum": ["fast", "slow"]},
    "note": {"type": "string", "default": ""},
    "suffix": {"type": "string", "minLength": 0},
    "anything": {},
    "kind": {"anyOf": [{"type": "string"}, {"type": "null"}]},
}
SCHEMA = {"type": "object", "properties": PROPERTIES, "required": ["file_path"]}
GIVEN = {
    "file_path": "",
    "offset": "",
    "limit": None,
    "pages": "",
    "mode": "",
    "note": "",
    "suffix": "",
    "anything": "",
    "kind": None,
    "unknown": "",
}
KEPT = {"file_path": "", "limit": None, "note": "", "suffix": "", "anything": "", "kind": None, "unknown": ""}
DROPPED = {"offset", "pages", "mode"}


def exchange(client: Protocol, profile: Profile, upstream: Protocol = C) -> Any:
    """A request with the tool in the client's form."""
    parts = {"name": "Read", "description": "Read a file."}
    say = {"role": "user", "content": "Go"}
    asked: dict[str, Any] = {"model": "m", "messages": [say]}
    if client is M:
        asked |= {"max_tokens": 9, "tools": [{**parts, "input_schema": SCHEMA}]}
    elif client is C:
        asked |= {"tools": [{"type": "function", "function": {**parts, "parameters": SCHEMA}}]}
    else:
        asked = {"model": "m", "input": [say], "tools": [{"type": "function", **parts, "parameters": SCHEMA}]}
    target = Target(protocol=upstream, model="m", profile=profile)
    return translate_request(asked, source=client, target=target).exchange


def answer(arguments: str) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def events(pieces: list[str]) -> bytes:
    """The stream of a Chat upstream with these pieces of arguments."""
    start = {"index": 0, "id": "c1", "type": "function", "function": {"name": "Read", "arguments": ""}}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "tool_calls": [start]}]
    deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return "".join([f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + ["data: [DONE]\n\n"]).encode()


@pytest.mark.parametrize("client", [M, R], ids=lambda one: one.short)
def test_a_whole_call_is_without_them(client: Protocol) -> None:
    """What the schema names, requires or does not describe stays."""
    given = exchange(client, Profile())
    done = translate_response(answer(json.dumps(GIVEN)), source=C, target=client, exchange=given)
    made = done.body["content"][0]["input"] if client is M else json.loads(done.body["output"][0]["arguments"])
    assert made == KEPT
    assert {loss.path.rpartition(".")[2] for loss in done.losses if loss.code == "arguments.empty"} == DROPPED


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_streamed_call_is_without_them(size: int) -> None:
    """However it is cut, and what comes before an argument does not wait for it."""
    text = json.dumps({"file_path": "/a", "pages": "", "offset": 3})
    translator = StreamTranslator(source=C, target=M, exchange=exchange(M, Profile()))
    data = translator.feed(events([text[n : n + size] for n in range(0, len(text), size)])) + translator.close()
    found = [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: ")]
    deltas = [one["delta"]["partial_json"] for one in found if one.get("delta", {}).get("type") == "input_json_delta"]
    assert json.loads("".join(deltas)) == {"file_path": "/a", "offset": 3}
    assert size == 1000 or len(deltas) >= 3
    assert [loss.code for loss in translator.losses if loss.code == "arguments.empty"] == ["arguments.empty"]


def test_they_stay_if_the_profile_says_so() -> None:
    """As for Claude, which leaves out what it has no value for: there, an empty string is meant."""
    given = exchange(M, Profile(fills_arguments=False))
    done = translate_response(answer(json.dumps(GIVEN)), source=C, target=M, exchange=given)
    assert done.body["content"][0]["input"] == GIVEN
    assert not profile_for("messages", "claude-opus-5").fills_arguments
    assert profile_for("messages", "kimi-k2").fills_arguments
    assert profile_for("chat", "gpt-5.6").fills_arguments


STRINGS = ["", "x", 'a"b', "a\\", "{,}", 'q":"', "ä\n", "null", "[]"]


def _value(draw: random.Random, depth: int = 0) -> Any:
    kind = draw.randrange(6 if depth < 2 else 4)
    if kind == 4:
        return [_value(draw, depth + 1) for _ in range(draw.randrange(3))]
    if kind == 5:
        return {draw.choice(STRINGS): _value(draw, depth + 1) for _ in range(draw.randrange(3))}
    return (draw.choice(STRINGS), None, draw.randrange(100), draw.choice([True, False]))[kind]


def test_random_arguments() -> None:
    """The result is the object without its empty members, for every form and every cut; all else keeps its text."""
    draw = random.Random(7)
    literals: Literals = {name: ('""', "null") for name in ("a", 'a"b', "{,}")}
    for _ in range(3000):
        names = draw.sample(["a", "b", 'a"b', "{,}", "c\\"], draw.randrange(5))
        given = {name: _value(draw) for name in names}
        text = json.dumps(given, indent=draw.choice([None, 2]), ensure_ascii=draw.choice([True, False]))
        held, out, at = ArgumentFilter(literals), "", 0
        while at < len(text):
            step = draw.choice([1, 2, 5, 50])
            out += held.feed(text[at : at + step])
            at += step
        out += held.close()
        kept = {name: value for name, value in given.items() if not (name in literals and value in ("", None))}
        assert json.loads(out) == kept, text
        assert sorted(held.dropped) == sorted(set(given) - set(kept))
        if kept == given:
            assert out == text


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '"', "nonsense", '{"a', '{"a":', '{"a":"', '{"a":nul', '{"a":nullx}', "{a:1}", '{"a" "b"}']
)
def test_other_text_stays(text: str) -> None:
    """What is cut off, or is no object, arrives as it came."""
    for size in (1, 100):
        held = ArgumentFilter({"a": ('""', "null")})
        out = "".join(held.feed(text[n : n + size]) for n in range(0, len(text), size)) + held.close()
        assert out == text


@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, {"properties": []}, {"properties": {"a": True}}])
def test_a_schema_that_says_nothing(schema: Any) -> None:
    assert empty_literals(schema) == {}
