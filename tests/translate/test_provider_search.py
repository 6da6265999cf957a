"""Tool search of the provider on upstreams without one: in the library, and for a caller that answers it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trilogue import Protocol, StreamTranslator, Target, translate_request
from trilogue.translate.content.continuation import Searched
from trilogue.translate.pipeline import Exchange
from trilogue.translate.requests import RequestOptions, RequestTranslation, translate_request_with
from trilogue.translate.responses import collect_stream
from trilogue.translate.tools.deferred import DeferredTool
from trilogue.vendors.profile import Profile

Json = dict[str, Any]
C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
REGEX = "tool_search_tool_regex"
TOOLS: list[Json] = [
    {"type": f"{REGEX}_20251119", "name": REGEX},
    {"name": "one", "input_schema": {"type": "object"}, "defer_loading": True},
    {"name": "two", "input_schema": {"type": "object"}, "defer_loading": True},
    {"name": "three", "input_schema": {"type": "object"}},
]
USER: Json = {"role": "user", "content": "Go"}


def asked(*messages: Json, **more: Any) -> Json:
    return {"model": "m", "max_tokens": 100, "messages": [*(messages or (USER,))], "tools": TOOLS, **more}


def emulated(body: Json, target: Protocol | Target = C) -> RequestTranslation:
    return translate_request_with(body, M, target, RequestOptions(searches=True))


def names(body: Json) -> list[str]:
    return [(tool.get("function") or tool)["name"] for tool in body["tools"]]


def looked(*found: str, call_id: str = "srvtoolu_1", **error: str) -> list[Json]:
    """Return a search of the history, and what it has found."""
    content: Json = {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": name} for name in found],
    }
    if error:
        content = {"type": "tool_search_tool_result_error", **error}
    call = {"type": "server_tool_use", "id": call_id, "name": REGEX, "input": {"pattern": "x"}}
    return [call, {"type": "tool_search_tool_result", "tool_use_id": call_id, "content": content}]


def test_the_library_offers_everything() -> None:
    """It cannot ask the model again."""
    up = translate_request(asked(), source=M, target=C)
    assert names(up.body) == ["one", "two", "three"]
    codes = {loss.code for loss in up.losses}
    assert {"tool.hosted_dropped", "tool.defer_loading"} <= codes
    assert up.exchange.search is None


def test_a_model_without_its_own_search() -> None:
    """The same for another protocol whose model has none, and the gateway can answer there as well."""
    without = Target(protocol=R, model="m", profile=Profile(tool_search=False))
    library = translate_request(asked(), source=M, target=without)
    assert names(library.body) == ["one", "two", "three"]
    assert "defer_loading" not in json.dumps(library.body)
    assert names(emulated(asked(), without).body) == [REGEX, "three"]
    has_own = Target(protocol=R, model="m", profile=Profile())
    assert emulated(asked(), has_own).exchange.search is None


def test_the_history() -> None:
    """Searches become calls and results, in the order of the conversation; calls of the client come after them."""
    text, call = {"type": "text", "text": "Hm."}, {"type": "tool_use", "id": "c1", "name": "two", "input": {}}
    turn = [text, *looked("two"), call, *looked("one", "two", call_id="srvtoolu_2")]
    failed = looked(call_id="srvtoolu_3", error_code="invalid_tool_input", error_message="bad")
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]}
    body = asked(USER, {"role": "assistant", "content": turn}, answer, {"role": "assistant", "content": failed})
    up = emulated(body)
    assert names(up.body) == [REGEX, "three", "two", "one"]
    sent = up.body["messages"]
    assert [message["role"] for message in sent[1:]] == [
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
    assert sent[1]["content"] == "Hm."
    assert [message["content"] for message in sent[2:9:2]] == [
        "You can now call: two",
        "You can now call: one, two",
        "ok",
        "[tool error] The search failed: invalid_tool_input: bad",
    ]
    assert sent[5]["tool_calls"][0]["function"]["name"] == "two"


def test_a_search_without_a_result_is_left_out() -> None:
    """The response was cut off."""
    body = asked(USER, {"role": "assistant", "content": [{"type": "text", "text": "Hm."}, looked()[0]]}, USER)
    assert [message["role"] for message in emulated(body).body["messages"]] == ["user", "assistant", "user"]


def test_a_name_that_is_taken() -> None:
    own = {"name": REGEX, "input_schema": {"type": "object"}}
    up = emulated(asked() | {"tools": [*TOOLS, own]})
    assert names(up.body) == [f"{REGEX}_tool", "three", REGEX]


def exchange_of(body: Json) -> Exchange:
    return emulated(body).exchange


def answered(tools: tuple[DeferredTool, ...], query: str, is_pattern: bool, most: int | None) -> Searched:
    assert is_pattern
    return Searched(tuple([tool for tool in tools if tool.name == query]))


def response(name: str, arguments: str, finish: str = "tool_calls") -> Json:
    call = {"id": "call_0", "type": "function", "function": {"name": name, "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
    choice = {"index": 0, "finish_reason": finish, "message": message}
    return {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def translator() -> StreamTranslator:
    made = StreamTranslator(source=C, target=M, exchange=exchange_of(asked()))
    made.answer_searches(answered)
    return made


@pytest.mark.parametrize("name", [REGEX, f"functions.{REGEX}"])
@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
def test_a_response_that_only_searches_is_paused(name: str, finish: str) -> None:
    """Also under the names that models invent, and if the server calls it an ordinary end."""
    one = translator()
    out = one.whole(response(name, '{"pattern": "two"}', finish))
    assert one.paused
    found = one.so_far()["content"]
    assert [block["type"] for block in found] == ["server_tool_use", "tool_search_tool_result"]
    assert found[1]["content"]["tool_references"] == [{"type": "tool_reference", "tool_name": "two"}]
    one.resume()
    out += one.whole(response("two", "{}"))
    assert not one.paused
    body = collect_stream(out, protocol=M)
    assert body["content"][:2] == found
    assert body["content"][2]["name"] == "two"
    assert (body["usage"]["input_tokens"], body["usage"]["output_tokens"]) == (20, 2)


@pytest.mark.parametrize("arguments", ["{}", '{"pattern": 5}', "nonsense", '{"pattern": ""}'])
def test_arguments_that_are_no_search(arguments: str) -> None:
    """The model sees an error, and may search again."""
    one = translator()
    one.whole(response(REGEX, arguments))
    assert one.paused
    assert one.so_far()["content"][1]["content"]["error_code"] == "invalid_tool_input"


def test_a_response_that_was_cut_short_is_not_continued() -> None:
    one = translator()
    body = collect_stream(one.whole(response(REGEX, '{"pattern": "tw', "length")), protocol=M)
    assert not one.paused
    assert body["stop_reason"] == "max_tokens"


def test_searches_have_different_ids() -> None:
    """Some servers count their calls from the start in every response."""
    one = translator()
    for _ in range(2):
        one.whole(response(REGEX, '{"pattern": "two"}'))
        one.resume()
    ids = [block["id"] for block in one.so_far()["content"] if block["type"] == "server_tool_use"]
    assert len(set(ids)) == 2
