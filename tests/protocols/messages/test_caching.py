"""The cache marks that OpenAI clients get on Messages upstreams, where nothing is cached without them."""

from typing import Any

import pytest
from msgspec.structs import replace

import trilogue
from trilogue import Target
from trilogue.vendors.profile import Profile

Json = dict[str, Any]
MODEL = "claude-opus-5"
SHORT: Json = {"type": "ephemeral"}
LONG: Json = {"type": "ephemeral", "ttl": "1h"}
TOOL: Json = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
LATER: Json = {"type": "function", "name": "g", "parameters": {"type": "object"}, "defer_loading": True}
SYSTEM: Json = {"role": "system", "content": "Be brief."}
USER: Json = {"role": "user", "content": "Hi"}
CALLS: Json = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in ("a", "b")
    ],
}
RESULTS: list[Json] = [{"role": "tool", "tool_call_id": name, "content": "ok"} for name in ("a", "b")]
PICTURE: Json = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
MARKED: Json = {"type": "text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}


def sent(body: Json, source: str = "chat", profile: Profile | None = None, model: str = MODEL) -> Json:
    """The body that goes to Anthropic."""
    target = Target.of("messages", model)
    target = target if profile is None else replace(target, profile=profile)
    return trilogue.translate_request({"model": "m", **body}, source=source, target=target).body


def marks(body: Any, path: str = "") -> dict[str, Json]:
    """All cache marks of a body, by path."""
    if isinstance(body, list):
        return {name: mark for n, item in enumerate(body) for name, mark in marks(item, f"{path}[{n}]").items()}
    if not isinstance(body, dict):
        return {}
    own = {path: body["cache_control"]} if "cache_control" in body else {}
    inner = {
        name: mark
        for field, value in body.items()
        if field != "cache_control"
        for name, mark in marks(value, f"{path}.{field}".lstrip(".")).items()
    }
    return own | inner


def test_the_first_request_of_a_session_marks_prompt_and_question() -> None:
    assert marks(sent({"tools": [TOOL], "messages": [SYSTEM, SYSTEM, USER]})) == {
        "system[0]": SHORT,
        "system[1]": SHORT,
        "messages[0].content[0]": SHORT,
    }


def test_later_requests_mark_also_where_the_one_before_had_its_last_mark() -> None:
    first = marks(sent({"tools": [TOOL], "messages": [SYSTEM, USER]}))
    then = sent({"tools": [TOOL], "messages": [SYSTEM, USER, CALLS, *RESULTS]})
    assert marks(then) == {**first, "messages[2].content[1]": SHORT}
    assert then["messages"][2]["content"][1]["type"] == "tool_result"
    last = sent({"tools": [TOOL], "messages": [SYSTEM, USER, CALLS, *RESULTS, CALLS, *RESULTS]})
    assert marks(last) == {
        "system[0]": SHORT,
        "messages[2].content[1]": SHORT,
        "messages[4].content[1]": SHORT,
    }


def test_without_a_prompt_the_last_tool_is_marked() -> None:
    assert marks(sent({"tools": [TOOL, TOOL], "messages": [USER]})) == {
        "tools[1]": SHORT,
        "messages[0].content[0]": SHORT,
    }


def test_tools_that_are_loaded_later_are_not_marked() -> None:
    """Anthropic refuses a mark on them."""
    tools: list[Json] = [{"type": "tool_search"}, {"type": "function", "name": "f"}, LATER]
    body = sent({"tools": tools, "input": "Hi"}, "responses")
    assert body["tools"][2].get("defer_loading")
    assert set(marks(body)) == {"tools[1]", "messages[0].content[0]"}


def test_an_instruction_for_the_format_belongs_to_the_prompt() -> None:
    asked = {"tools": [TOOL], "messages": [SYSTEM, USER], "response_format": {"type": "json_object"}}
    assert "system[1]" in marks(sent(asked))


@pytest.mark.parametrize("content", [[MARKED, PICTURE], [{"type": "text", "text": "Hi"}, PICTURE]])
def test_marks_of_the_client_are_the_only_ones(content: list[Json]) -> None:
    asked = {"tools": [TOOL], "messages": [SYSTEM, {"role": "user", "content": content}, CALLS, *RESULTS]}
    found = set(marks(sent(asked)))
    own = {"messages[0].content[0]"}
    assert found == own if content[0] is MARKED else {"system[0]", "messages[0].content[1]", "messages[2].content[1]"}


def test_a_client_that_caches_only_what_it_marks_gets_no_marks() -> None:
    asked = {"tools": [TOOL], "messages": [SYSTEM, USER], "prompt_cache_options": {"mode": "explicit"}}
    assert marks(sent(asked)) == {}


def test_a_single_request_gets_none() -> None:
    """A write costs a quarter more than nothing, and nobody would read it."""
    assert marks(sent({"messages": [SYSTEM, USER]})) == {}
    assert marks(sent({"instructions": "Be brief.", "input": "Hi"}, "responses")) == {}


def test_an_answer_in_the_history_makes_a_session_of_it() -> None:
    said = {"role": "assistant", "content": "Yes?"}
    assert set(marks(sent({"messages": [USER, said, USER]}))) == {"messages[0].content[0]", "messages[2].content[0]"}


def test_reminders_at_the_end_are_not_marked() -> None:
    """A system message at the end is never found again: the next request has something else in its place."""
    asked = {"tools": [TOOL], "messages": [SYSTEM, USER, CALLS, *RESULTS, SYSTEM]}
    body = sent(asked)
    assert body["messages"][-1]["role"] == "system"
    assert set(marks(body)) == {"system[0]", "messages[0].content[0]", "messages[2].content[1]"}


@pytest.mark.parametrize(
    ("settings", "mark"),
    [
        ({}, SHORT),
        ({"prompt_cache_options": {"ttl": "30m"}}, SHORT),
        ({"prompt_cache_options": {"ttl": "12h"}}, LONG),
        ({"prompt_cache_retention": "in_memory"}, SHORT),
        ({"prompt_cache_retention": "24h"}, LONG),
    ],
)
@pytest.mark.parametrize("source", ["chat", "responses"])
def test_one_lifetime_for_all_marks(source: str, settings: Json, mark: Json) -> None:
    """Anthropic refuses a long one after a short one."""
    chat = {"tools": [TOOL], "messages": [SYSTEM, USER, CALLS, *RESULTS]}
    responses = {"tools": [{"type": "function", "name": "f"}], "instructions": "Be brief.", "input": "Hi"}
    found = marks(sent({**(chat if source == "chat" else responses), **settings}, source))
    assert len(found) == (3 if source == "chat" else 2)
    assert all(one == mark for one in found.values())


def test_servers_without_marks_get_none() -> None:
    assert marks(sent({"tools": [TOOL], "messages": [SYSTEM, USER]}, profile=Profile(cache_marks=False))) == {}
    assert marks(sent({"tools": [TOOL], "messages": [SYSTEM, USER]}, profile=Profile(adds_caching=False))) == {}


def test_a_messages_client_gets_none() -> None:
    tool: Json = {"name": "f", "input_schema": {"type": "object"}}
    body = {"max_tokens": 9, "system": "Be brief.", "tools": [tool], "messages": [USER]}
    assert marks(sent(body, "messages")) == {}


def test_thinking_is_not_marked() -> None:
    """The last user message is marked, whatever the assistant thought before it."""
    profile = replace(Target.of("messages", MODEL).profile)
    said = {"role": "assistant", "content": "Yes?", "reasoning_content": "Hm."}
    found = set(marks(sent({"messages": [SYSTEM, USER, said, USER]}, profile=profile)))
    assert found == {"system[0]", "messages[0].content[0]", "messages[2].content[0]"}
