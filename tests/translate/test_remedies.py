"""Remedies: what is left out, moved or renamed, and that nothing else changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilogue.translate.learning.remedies import Remedy, remedied

Wire = dict[str, Any]


def drop(path: str) -> Remedy:
    return Remedy(path=path, action="drop")


def clamp(path: str, *allowed: str) -> Remedy:
    return Remedy(path=path, action="clamp", allowed=allowed)


def limit(path: str, number: float, *, least: bool = False) -> Remedy:
    return Remedy(path=path, action="clamp", limit=number, least=least)


def rename(path: str, name: str) -> Remedy:
    return Remedy(path=path, action="rename", name=name)


THINKING = {"type": "thinking", "cache_control": {}}
TEXT = {"type": "text", "text": "Hi", "cache_control": {}}

DROPS: list[tuple[str, Wire, Wire]] = [
    ("temperature", {"temperature": 0.2, "top_p": 1}, {"top_p": 1}),
    ("logprobs", {"logprobs": None}, {}),
    ("reasoning.summary", {"reasoning": {"summary": "auto", "effort": "low"}}, {"reasoning": {"effort": "low"}}),
    # what is empty by that goes, too
    ("reasoning.effort", {"reasoning": {"effort": "low"}}, {}),
    ("text.format.strict", {"text": {"format": {"strict": True}}, "n": 1}, {"n": 1}),
    ("include[a.b]", {"include": ["a.b"], "n": 1}, {"n": 1}),
    ("include[a.b]", {"include": ["a.b", "c"]}, {"include": ["c"]}),
    ("stream_options.include_usage", {"stream_options": {"include_usage": True}}, {}),
    # every element, or those of a kind
    ("tools[].function.strict",
     {"tools": [{"function": {"name": "f", "strict": True}}, {"function": {"name": "g"}}, {"type": "x"}]},
     {"tools": [{"function": {"name": "f"}}, {"function": {"name": "g"}}, {"type": "x"}]}),
    ("messages[user].name",
     {"messages": [{"role": "user", "name": "a"}, {"role": "tool", "name": "b"}]},
     {"messages": [{"role": "user"}, {"role": "tool", "name": "b"}]}),
    ("messages[].content[thinking].cache_control",
     {"messages": [{"content": [THINKING, TEXT]}, {"content": "Hi"}]},
     {"messages": [{"content": [{"type": "thinking"}, TEXT]}, {"content": "Hi"}]}),
    # only an object of a type, only a value
    ("thinking[adaptive]", {"thinking": {"type": "adaptive"}, "n": 1}, {"n": 1}),
    ("reasoning_effort[none]", {"reasoning_effort": "none", "n": 1}, {"n": 1}),
    ("parallel_tool_calls[false]", {"parallel_tool_calls": False, "n": 1}, {"n": 1}),
    ("tools", {"tools": [], "n": 1}, {"n": 1}),
    ("messages[].tool_calls", {"messages": [{"role": "user", "tool_calls": None}]}, {"messages": [{"role": "user"}]}),
    ("messages[].id", {"messages": [{"role": "user", "id": "1"}]}, {"messages": [{"role": "user"}]}),
    ("messages[].content[tool_use].text", {"messages": [{"content": [{"type": "tool_use", "text": ""}]}]},
     {"messages": [{"content": [{"type": "tool_use"}]}]}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "expected"), DROPS)
def test_drop(path: str, body: Wire, expected: Wire) -> None:
    assert remedied(body, [drop(path)]) == (expected, [(path, "left out")])


KEPT: list[tuple[Remedy, Wire]] = [
    (drop("temperature"), {"top_p": 1}),
    (drop("a.b.c"), {"a": {"b": "c"}}),
    (drop("a[].b"), {"a": {"b": 1}}),
    (drop("a.b"), {"a": [{"b": 1}]}),
    (drop(""), {"": 1}),
    (drop("thinking[adaptive]"), {"thinking": {"type": "enabled"}}),
    (drop("thinking[adaptive]"), {"thinking": "enabled"}),
    (drop("reasoning_effort[none]"), {"reasoning_effort": "high"}),
    (drop("include[a]"), {"include": ["b", {"type": "a"}]}),
    (clamp("include[a]", "b"), {"include": ["a"]}),
    # nothing can do without
    (drop("model"), {"model": "m"}),
    (drop("messages"), {"messages": []}),
    (drop("input"), {"input": "Hi"}),
    (drop("stream"), {"stream": True}),
    (clamp("stream", "false"), {"stream": True}),
    (rename("messages", "input"), {"messages": []}),
    (drop("messages[]"), {"messages": [{"role": "user"}, "user"]}),
    (drop("messages[user]"), {"messages": [{"role": "user"}]}),
    (drop("messages[].content"), {"messages": [{"role": "user", "content": "Hi"}]}),
    (drop("messages[].role"), {"messages": [{"role": "user"}]}),
    (drop("messages[].tool_calls"), {"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]}),
    (drop("messages[].tool_calls[].id"), {"messages": [{"tool_calls": [{"id": "1", "function": {}}]}]}),
    (drop("messages[].content[].id"), {"messages": [{"content": [{"type": "tool_use", "id": "1"}]}]}),
    (drop("messages[].content[].text"), {"messages": [{"content": [TEXT]}]}),
    (drop("input[].name"), {"input": [{"type": "function_call", "name": "f"}]}),
    (drop("input[].call_id"), {"input": [{"type": "function_call", "call_id": "f"}]}),
    (drop("tools"), {"tools": [{"name": "f"}]}),
    (drop("tools[].name"), {"tools": [{"name": "f"}]}),
    (drop("tools[].function"), {"tools": [{"function": {}}]}),
    # allowed already
    (clamp("reasoning_effort", "low", "high"), {"reasoning_effort": "low"}),
    (clamp("reasoning_effort"), {"reasoning_effort": "low"}),
    (clamp("enable_thinking", "false"), {"enable_thinking": False}),
    (limit("max_tokens", 100), {"max_tokens": 100}),
    (limit("max_tokens", 100), {"max_tokens": "many"}),
    (limit("max_tokens", 0), {"max_tokens": True}),
    (limit("max_tokens", float("nan")), {"max_tokens": 1}),
    (limit("max_tokens", float("-inf")), {"max_tokens": 1}),
    (limit("max_tokens", 16, least=True), {"max_tokens": 16}),
    (rename("max_tokens", "max_completion_tokens"), {"max_completion_tokens": 1}),
    (rename("max_tokens", "max_tokens"), {"max_tokens": 1}),
    (rename("max_tokens", ""), {"max_tokens": 1}),
    (rename("reasoning", "reasoning.effort"), {"reasoning": "low"}),
    (rename("reasoning_effort", "reasoning.effort"), {"reasoning_effort": "low", "reasoning": "x"}),
]


@pytest.mark.parametrize(("remedy", "body"), KEPT)
def test_what_stays(remedy: Remedy, body: Wire) -> None:
    kept, changes = remedied(body, [remedy])
    assert kept is body
    assert changes == []


ALL = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


@pytest.mark.parametrize(
    ("value", "allowed", "near"),
    [
        ("xhigh", ALL[:5], "high"),
        ("max", ("low", "high"), "high"),
        ("high", ("medium", "low"), "medium"),
        ("medium", ("high", "low"), "low"),  # the lower of two
        ("none", ("low", "high"), "low"),
        ("minimal", ("none", "low"), "low"),  # who wants some thinking gets some
        ("high", ("none", "default"), "default"),
        ("high", ("default", "low"), "low"),
        ("medium", ("none",), "none"),
        ("concise", ("detailed",), "detailed"),
        (True, ("false",), False),
        ({"type": "function", "function": {"name": "f"}}, ("none", "auto", "required"), "required"),
    ],
)
def test_clamp_to_the_nearest(value: Any, allowed: tuple[str, ...], near: Any) -> None:
    body, [(_, detail)] = remedied({"tool_choice": value}, [clamp("tool_choice", *allowed)])
    assert body == {"tool_choice": near}
    assert detail.endswith(f" as {str(near).lower()}")


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ("concise", ("detailed", "auto")),
        ("high", ("auto", "off")),
        (None, ALL),
        (0.2, ("1",)),
        (True, ("auto",)),
        (["a"], ("auto",)),
        ({"type": "function"}, ("none", "auto")),
    ],
)
def test_what_has_no_near_value_is_left_out(value: Any, allowed: tuple[str, ...]) -> None:
    assert remedied({"tool_choice": value}, [clamp("tool_choice", *allowed)]) == ({}, [("tool_choice", "left out")])


@pytest.mark.parametrize(
    ("value", "number", "least", "expected", "detail"),
    [
        (100_000, 16_384, False, 16_384, "100000 as 16384"),
        (5, 16.0, True, 16, "5 as 16"),
        (3, 2.5, False, 2, "3 as 2"),
        (2, 2.5, True, 3, "2 as 3"),
        (2.5, 2, False, 2, "2.5 as 2"),
        (10**20, 8, False, 8, "a huge number as 8"),
    ],
)
def test_clamp_to_a_limit(value: float, number: float, least: bool, expected: float, detail: str) -> None:
    body, changes = remedied({"max_tokens": value}, [limit("max_tokens", number, least=least)])
    assert body == {"max_tokens": expected}
    assert type(body["max_tokens"]) is type(expected)
    assert changes == [("max_tokens", detail)]


def test_a_number_that_python_does_not_write_is_no_trouble() -> None:
    assert remedied({"max_tokens": 10**5_000}, [limit("max_tokens", 8)])[0] == {"max_tokens": 8}


RENAMES: list[tuple[Remedy, Wire, Wire]] = [
    (rename("max_tokens", "max_completion_tokens"), {"max_tokens": 1}, {"max_completion_tokens": 1}),
    (rename("a", "b"), {"a": 1, "b": 2}, {"b": 2}),
    (rename("reasoning_effort", "reasoning.effort"), {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
    (rename("reasoning_effort", "reasoning.effort"), {"reasoning_effort": "low", "reasoning": {"summary": "auto"}},
     {"reasoning": {"effort": "low", "summary": "auto"}}),
    (rename("reasoning_effort", "reasoning.effort"), {"reasoning_effort": "low", "reasoning": {"effort": "high"}},
     {"reasoning": {"effort": "high"}}),
]  # fmt: skip


@pytest.mark.parametrize(("remedy", "body", "expected"), RENAMES)
def test_rename(remedy: Remedy, body: Wire, expected: Wire) -> None:
    assert remedied(body, [remedy]) == (expected, [(remedy.path, f"as {remedy.name}")])


def test_a_change_is_reported_once_and_the_rest_is_shared() -> None:
    body = {"messages": [{"name": "a", "role": "user"}, {"name": "b", "role": "user"}], "tools": [{}]}
    changed, changes = remedied(body, [drop("messages[].name"), drop("seed"), drop("user")])
    assert changes == [("messages[].name", "left out")]
    assert changed["tools"] is body["tools"]


NAMES = st.sampled_from(["a", "b", "type", "role", "messages", "tools", "name", "content", "max_tokens"])
KINDS = st.sampled_from(["", "[]", "[low]", "[a]", "[true]"])
PATHS = st.lists(st.tuples(NAMES, KINDS).map("".join), min_size=1, max_size=3).map(".".join) | st.text(max_size=6)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from([*ALL, "a", ""])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=10
)
REMEDIES = st.builds(
    Remedy,
    path=PATHS,
    action=st.sampled_from(["drop", "clamp", "rename"]),
    allowed=st.lists(st.sampled_from([*ALL, "default", "true"]), max_size=3).map(tuple),
    limit=st.none() | st.floats(),
    least=st.booleans(),
    name=st.sampled_from(["", "a", "b", "a.b", "max_tokens"]),
)


@given(body=st.dictionaries(NAMES, VALUES, max_size=5), remedies=st.lists(REMEDIES, max_size=3))
def test_the_given_body_stays(body: Wire, remedies: list[Remedy]) -> None:
    before = copy.deepcopy(body)
    changed, changes = remedied(body, remedies)
    assert body == before
    assert (changed is body) == (not changes)


@given(body=st.dictionaries(NAMES, VALUES, max_size=5), remedy=REMEDIES)
def test_twice_is_once(body: Wire, remedy: Remedy) -> None:
    once, _ = remedied(body, [remedy])
    assert remedied(once, [remedy]) == (once, [])
