"""The search in deferred tools, by the rules of Anthropic's two searches."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from trilogue.gateway.response.tool_finder import LONGEST, MOST, arguments_of, find_tools
from trilogue.translate.tools.deferred import DeferredTool


def tool(
    name: str, description: str = "", namespace: str | None = None, group: str = "", **fields: Any
) -> DeferredTool:
    properties = {name: {"type": "string", "description": text} for name, text in fields.items()}
    schema = {"type": "object", "properties": properties}
    return DeferredTool(namespace, name, description, schema, group, "tools[0]")


TOOLS = (
    tool("get_user_data", "Read a user's record.", user_id="The number of the user."),
    tool("get_weather_data", "Read the weather of a city.", city="A town in Europe."),
    tool("sendMail", "Send an electronic letter.", to="Who gets it."),
    tool("slack_post", "Post to Slack.", channel="The channel."),
    tool("list_orders", "List open orders.", "crm", "Customers and what they bought."),
    tool("close_order", "Close one order.", "crm", "Customers and what they bought."),
)


def names(query: str, pattern: bool = True, most: int | None = None) -> list[str]:
    found = find_tools(TOOLS, query, pattern, most)
    assert found.error == ""
    return [one.name for one in found.tools]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("weather", ["get_weather_data"]),
        ("get_.*_data", ["get_user_data", "get_weather_data"]),
        ("letter|orders", ["list_orders", "sendMail"]),
        ("slack", ["slack_post"]),
        ("SLACK", []),
        ("(?i)SLACK", ["slack_post"]),
        ("Slack", ["slack_post"]),
        ("Europe", ["get_weather_data"]),
        ("^channel$", ["slack_post"]),
        ("crm__", ["list_orders", "close_order"]),
        ("no such thing", []),
        ("(?a)weather", ["get_weather_data"]),
        ("(?is)slack.*", ["slack_post"]),
    ],
)
def test_patterns(pattern: str, expected: list[str]) -> None:
    """They are sought in names, then in descriptions, then in arguments. Case matters unless the pattern says so."""
    assert names(pattern) == expected


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "(?=x)y", r"(a)\1", "x" * (LONGEST + 1), "(?x"])
def test_patterns_that_are_refused(pattern: str) -> None:
    found = find_tools(TOOLS, pattern, True)
    assert found.tools == ()
    assert found.error


def test_a_pattern_takes_linear_time() -> None:
    """Python's own engine would need centuries for this one."""
    many = tuple(tool(f"t{n}", "a" * 200) for n in range(200))
    begun = time.monotonic()
    assert find_tools(many, "(a|a)*b$", True).tools == ()
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("weather in a city", ["get_weather_data"]),
        ("send a mail", ["sendMail"]),
        ("users", ["get_user_data"]),
        ("what customers bought", ["list_orders", "close_order"]),
        ("crm", ["list_orders", "close_order"]),
        ("quantum", []),
        ("", []),
    ],
)
def test_words(query: str, expected: list[str]) -> None:
    """Words of names (also `sendMail`), descriptions, arguments and namespaces, whether singular or plural."""
    assert names(query, pattern=False)[: len(expected)] == expected
    assert bool(names(query, pattern=False)) is bool(expected)


def test_the_best_come_first() -> None:
    """A rare word counts more than a frequent one, and a word of the name more than one of the description."""
    tools = (
        tool("read_file", "Read a file, also one with a chart."),
        tool("write_file", "Write a file."),
        tool("draw_chart", "Draw from a file."),
    )
    assert [one.name for one in find_tools(tools, "file chart", False).tools] == [
        "draw_chart",
        "read_file",
        "write_file",
    ]


def test_limits() -> None:
    """Five at most, fewer if the model wants fewer; a whole namespace if it is named."""
    many = tuple(tool(f"tool_{n}", "The same.", "space") for n in range(20))
    for pattern in (True, False):
        assert [one.name for one in find_tools(many, "same", pattern).tools] == [f"tool_{n}" for n in range(MOST)]
        assert len(find_tools(many, "same", pattern, 2).tools) == 2
        assert len(find_tools(many, "same", pattern, 50).tools) == MOST
    assert len(find_tools(many, "space", False).tools) == 20


def test_nested_arguments() -> None:
    inner = {"type": "object", "properties": {"street": {"type": "string", "description": "With a number."}}}
    schema = {"properties": {"places": {"type": "array", "items": inner}, "odd": True, "null": None}}
    assert arguments_of(schema) == ["places", "street", "With a number.", "odd", "null"]
    assert arguments_of(None) == arguments_of({"properties": []}) == []
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"properties": {"a": deep}}
    assert 0 < len(arguments_of(deep)) < 20


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without RE2, a pattern is taken for words."""
    monkeypatch.setitem(sys.modules, "re2", None)
    assert names("weather|forecast") == ["get_weather_data"]
