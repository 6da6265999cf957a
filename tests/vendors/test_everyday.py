"""The everyday requests are valid in their protocol, have headers, and there are enough of them from each client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest
from anthropic.types.beta.message_create_params import MessageCreateParamsBase
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from tests.vendors.everyday import EVERYDAY

TYPES = {"chat": CompletionCreateParamsBase, "messages": MessageCreateParamsBase, "responses": ResponseCreateParamsBase}
# What these clients send although the official types do not have it.
BEYOND = {"chat": {"stream"}, "messages": {"stream", "temperature"}, "responses": {"stream", "client_metadata"}}
CALLS = ("tool_use", "function_call", "custom_tool_call", "function")
RESULTS = ("tool_result", "function_call_output", "custom_tool_call_output")


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Return the objects inside a value."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(inner)


def test_each_client_has_enough() -> None:
    counts = Counter(day.client for day in EVERYDAY.values())
    assert counts["Claude Code"] >= 7
    assert counts["Codex"] >= 5
    assert counts["opencode"] >= 4
    assert counts["openai"] + counts["anthropic"] >= 6
    assert counts["Vercel AI SDK"] >= 6


@pytest.mark.parametrize("name", EVERYDAY)
def test_fields_and_headers_are_those_of_the_protocol(name: str) -> None:
    day = EVERYDAY[name]
    assert set(day.body) <= set(get_type_hints(TYPES[day.protocol])) | BEYOND[day.protocol]
    assert {"authorization", "x-api-key"} & set(day.headers)
    assert day.headers["user-agent"]
    assert ("anthropic-version" in day.headers) == (day.protocol == "messages")
    assert all(name == name.lower() for name in day.headers)


@pytest.mark.parametrize("name", EVERYDAY)
def test_results_belong_to_calls(name: str) -> None:
    day = EVERYDAY[name]
    history = list(objects(day.body.get("messages", day.body.get("input"))))
    calls = {item.get("call_id") or item.get("id") for item in history if item.get("type") in CALLS}
    answered = {item["tool_call_id"] for item in history if item.get("role") == "tool"}
    answered |= {item.get("call_id") or item["tool_use_id"] for item in history if item.get("type") in RESULTS}
    if not day.stateful:
        assert answered == calls - {None}


@pytest.mark.parametrize("name", EVERYDAY)
def test_at_most_four_places_are_marked(name: str) -> None:
    assert sum("cache_control" in item for item in objects(EVERYDAY[name].body)) <= 4
