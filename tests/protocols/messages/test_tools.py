from typing import Any

import pytest

from tests.protocols.messages.wire_samples import encode, foreign, native, user
from trilogue.errors import Unsupported
from trilogue.model import (
    CacheMark,
    ChoiceMode,
    FunctionTool,
    HostedKind,
    HostedTool,
    Protocol,
    Sampling,
    ToolChoice,
    ToolRef,
    UserLocation,
)
from trilogue.protocols.messages import CODEC
from trilogue.protocols.messages.tools import decode_tool

USER = {"role": "user", "content": "hi"}


def hosted(**fields: Any) -> HostedTool:
    tool = decode_tool(fields, "tools[0]")
    assert isinstance(tool, HostedTool)
    return tool


@pytest.mark.parametrize("kind", [{}, {"type": None}, {"type": "custom"}])
def test_custom_tools_under_all_three_types(kind: dict[str, Any]) -> None:
    """Absent, null and custom mean the same."""
    schema = {"type": "object", "properties": {"a": {}}}
    tool = decode_tool({**kind, "name": "f", "description": "d", "input_schema": schema, "strict": True}, "tools[0]")
    assert tool == FunctionTool(name="f", description="d", parameters=schema, strict=True, path="tools[0]")


@pytest.mark.parametrize(
    ("kind", "expected", "on_client"),
    [
        ("bash_20250124", HostedKind.SHELL, True),
        ("bash_20241022", HostedKind.SHELL, True),
        ("text_editor_20250728", HostedKind.EDITOR, True),
        ("memory_20250818", HostedKind.MEMORY, True),
        ("computer_20251124", HostedKind.COMPUTER, True),
        ("computer_toolset_20260801", HostedKind.COMPUTER, True),
        ("browser_toolset_20260801", HostedKind.BROWSER, True),
        ("web_search_20260318", HostedKind.WEB_SEARCH, False),
        ("web_fetch_20250910", HostedKind.WEB_FETCH, False),
        ("code_execution_20260521", HostedKind.CODE, False),
        ("tool_search_tool_regex_20251119", HostedKind.TOOL_SEARCH, False),
        ("tool_search_tool_bm25", HostedKind.TOOL_SEARCH, False),
        ("advisor_20260301", HostedKind.ADVISOR, False),
        ("teleport_20300101", HostedKind.OTHER, False),
    ],
)
def test_built_in_tools_by_kind_whatever_their_version(kind: str, expected: HostedKind, on_client: bool) -> None:
    """A new version of a tool is the same kind of tool; who runs it decides what can be done with it."""
    tool = hosted(type=kind, name="n")
    assert (tool.kind, tool.runs_on_client, tool.type) == (expected, on_client, kind)
    assert tool.native == {"type": kind, "name": "n"}


def test_web_search_settings() -> None:
    """The settings that other protocols have too get neutral fields, the rest stays."""
    tool = hosted(
        type="web_search_20260318",
        name="web_search",
        max_uses=3,
        allowed_domains=["a.com"],
        user_location={"type": "approximate", "city": "Bern", "country": "CH"},
        response_inclusion="full",
    )
    assert (tool.max_uses, tool.allowed_domains) == (3, ("a.com",))
    assert tool.location == UserLocation(city="Bern", country="CH")
    assert tool.extras == {"response_inclusion": "full"}


def test_mcp_servers_and_toolsets_are_one_tool_each() -> None:
    """The address is in one place of the request and the choice of tools in another."""
    body = {
        "model": "m",
        "messages": [USER],
        "mcp_servers": [
            {"type": "url", "name": "a", "url": "https://a", "authorization_token": "T"},
            {"type": "url", "name": "b", "url": "https://b", "tool_configuration": {"allowed_tools": ["y"]}},
        ],
        "tools": [
            {
                "type": "mcp_toolset",
                "mcp_server_name": "a",
                "default_config": {"enabled": False},
                "configs": {"x": {"enabled": True}, "z": {"enabled": False}},
            }
        ],
    }
    first, second = CODEC.decode_request(body).tools
    assert isinstance(first, HostedTool)
    assert isinstance(second, HostedTool)
    assert (first.server_label, first.server_url, first.authorization) == ("a", "https://a", "T")
    assert first.allowed_tools == ("x",)
    assert (second.server_label, second.allowed_tools, second.approval) == ("b", ("y",), "never")
    assert native(body) == (body, [])


def test_choice_of_a_hosted_tool() -> None:
    """A name in the choice may be that of a tool which other protocols choose by kind."""
    tools = [{"type": "web_search_20250305", "name": "web_search"}, {"type": "bash_20250124", "name": "bash"}]

    def choose(name: str) -> ToolChoice | None:
        choice = {"type": "tool", "name": name}
        return CODEC.decode_request({"messages": [USER], "tools": tools, "tool_choice": choice}).tool_choice

    search, shell = choose("web_search"), choose("bash")
    assert search is not None
    assert shell is not None
    assert search.mode is ChoiceMode.HOSTED
    assert shell.mode is ChoiceMode.NAMED


def function(name: str = "f", **fields: Any) -> FunctionTool:
    return FunctionTool(name=name, path="tools[0]", **fields)


def test_function_tools_of_other_protocols() -> None:
    """The API demands an object schema; strict is only sent when it is on."""
    closed = {"properties": {}, "additionalProperties": False}
    body, losses = encode(foreign(tools=(function(), function("g", parameters=closed, strict=True))))
    assert body["tools"] == [
        {"name": "f", "input_schema": {"type": "object", "properties": {}}},
        {"name": "g", "input_schema": {"type": "object", **closed}, "strict": True},
    ]
    assert not losses


@pytest.mark.parametrize(
    "inner",
    [
        {"type": "integer", "minimum": 1},
        {"type": "array", "items": {"type": "string", "maxLength": 3}},
        {"type": "object"},
    ],
)
def test_schemas_that_strict_mode_refuses(inner: dict[str, Any]) -> None:
    """The schema stays as it is: the API would answer 400 to it only in strict mode."""
    schema = {"type": "object", "properties": {"a": inner}, "required": ["a"], "additionalProperties": False}
    body, losses = encode(foreign(tools=(function(parameters=schema, strict=True),)))
    assert body["tools"] == [{"name": "f", "input_schema": schema}]
    assert losses == ["tool.strict_downgraded"]


def test_strict_by_default_is_declared_for_responses_only() -> None:
    """Responses tries strict mode unless told not to; Chat does not."""
    _, losses = encode(foreign(tools=(function(),), protocol=Protocol.RESPONSES))
    assert losses == ["tool.strict_default"]


def test_cache_mark_on_a_tool() -> None:
    """Tools can be marked here."""
    body, _ = encode(foreign(tools=(function(cache=CacheMark(1800), strict=False),)))
    assert body["tools"][0]["cache_control"] == {"type": "ephemeral", "ttl": "5m"}


def test_deferred_tools_need_a_search() -> None:
    """Without tool search a deferred tool would never be found."""
    deferred = function(deferred=True, strict=False)
    body, losses = encode(foreign(tools=(deferred,)))
    assert "defer_loading" not in body["tools"][0]
    assert losses == ["tool.defer_loading"]
    search = HostedTool(kind=HostedKind.TOOL_SEARCH, native={}, type="tool_search", path="tools[1]")
    body, losses = encode(foreign(tools=(deferred, search)))
    assert body["tools"][0]["defer_loading"] is True
    assert losses == ["tool_search.algorithm"]


def test_a_tool_added_later_is_offered_from_the_start() -> None:
    """There is no other place for it that all models take."""
    _, losses = encode(foreign(tools=(function(added_at=1, strict=False),)))
    assert losses == ["tool.timing"]


def web_search(**fields: Any) -> HostedTool:
    return HostedTool(kind=HostedKind.WEB_SEARCH, native={}, type="web_search", path="tools[0]", **fields)


def test_web_search_of_other_protocols() -> None:
    """What both have is carried, what is not is declared."""
    tool = web_search(location=UserLocation(city="Bern"), allowed_domains=("a.com",), context_size="high")
    body, losses = encode(foreign(tools=(tool,), sampling=Sampling(max_tokens=9, max_tool_calls=2)))
    assert body["tools"] == [
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "max_uses": 2,
            "allowed_domains": ["a.com"],
            "user_location": {"type": "approximate", "city": "Bern"},
        }
    ]
    assert losses == ["web_search.params", "param.dropped"]


def test_both_domain_lists_at_once_are_not_taken() -> None:
    """The API takes one of the two."""
    body, losses = encode(foreign(tools=(web_search(allowed_domains=("a",), blocked_domains=("b",)),)))
    assert "blocked_domains" not in body["tools"][0]
    assert losses == ["web_search.params"]


def mcp(**fields: Any) -> HostedTool:
    given = {"server_label": "s", "server_url": "https://s", "approval": "never", **fields}
    return HostedTool(kind=HostedKind.MCP, native={}, type="mcp", path="tools[0]", **given)


def test_mcp_of_responses() -> None:
    """One tool there, a server and a toolset here."""
    body, losses = encode(foreign(tools=(mcp(authorization="T", allowed_tools=("x",)),)))
    assert body["mcp_servers"] == [{"type": "url", "name": "s", "url": "https://s", "authorization_token": "T"}]
    assert body["tools"] == [
        {
            "type": "mcp_toolset",
            "mcp_server_name": "s",
            "default_config": {"enabled": False},
            "configs": {"x": {"enabled": True}},
        }
    ]
    assert not losses


@pytest.mark.parametrize("fields", [{"approval": None}, {"approval": "always"}, {"server_url": None}])
def test_mcp_that_cannot_be_mapped(fields: dict[str, Any]) -> None:
    """Approvals are a promise to the user; a connector is the provider's own."""
    with pytest.raises(Unsupported):
        encode(foreign(tools=(mcp(**fields),)))


def test_code_execution_gets_a_new_container() -> None:
    """Containers cannot move between providers."""
    tool = HostedTool(kind=HostedKind.CODE, native={}, type="code_interpreter", path="tools[0]")
    body, losses = encode(foreign(tools=(tool,)))
    assert body["tools"] == [{"type": "code_execution_20250825", "name": "code_execution"}]
    assert losses == ["code_exec.container"]


def test_a_hosted_tool_that_the_client_runs_is_not_offered() -> None:
    """A search that the client runs itself has no form here."""
    tool = HostedTool(kind=HostedKind.TOOL_SEARCH, native={}, type="tool_search", runs_on_client=True, path="tools[0]")
    body, losses = encode(foreign(tools=(tool,)))
    assert "tools" not in body
    assert losses == ["tool.hosted_dropped"]


def choice(mode: ChoiceMode, **fields: Any) -> ToolChoice:
    return ToolChoice(mode=mode, path="tool_choice", **fields)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (choice(ChoiceMode.AUTO), {"type": "auto"}),
        (choice(ChoiceMode.NONE), {"type": "none"}),
        (choice(ChoiceMode.REQUIRED), {"type": "any"}),
        (choice(ChoiceMode.NAMED, tool=ToolRef(name="f")), {"type": "tool", "name": "f"}),
    ],
)
def test_choices(given: ToolChoice, expected: dict[str, str]) -> None:
    """All four that both sides know."""
    body, losses = encode(foreign(tools=(function(strict=False),), tool_choice=given))
    assert body["tool_choice"] == expected
    assert not losses


def test_no_parallel_calls() -> None:
    """The flag is inside the choice, which is made up for it; it says nothing without tools."""
    tools = (function(strict=False),)
    assert encode(foreign(tools=tools, parallel_tools=False))[0]["tool_choice"] == {
        "type": "auto",
        "disable_parallel_tool_use": True,
    }
    assert "tool_choice" not in encode(foreign(tools=tools, parallel_tools=True))[0]
    assert "tool_choice" not in encode(foreign(parallel_tools=False))[0]
    none = encode(foreign(tools=tools, parallel_tools=False, tool_choice=choice(ChoiceMode.NONE)))[0]
    assert none["tool_choice"] == {"type": "none"}


def test_allowed_tools_are_the_only_ones_offered() -> None:
    """There is no list of allowed tools here, so the others are left away."""
    tools = (function("f", strict=False), function("g", strict=False), web_search())
    allowed = (ToolRef(name="g"), ToolRef(hosted=HostedKind.WEB_SEARCH))
    given = choice(ChoiceMode.ALLOWED, allowed=allowed, allowed_mode=ChoiceMode.REQUIRED)
    body, losses = encode(foreign(tools=tools, tool_choice=given))
    assert [tool["name"] for tool in body["tools"]] == ["g", "web_search"]
    assert body["tool_choice"] == {"type": "any"}
    assert losses == ["tool_choice.allowed_filtered"]


def test_choice_of_a_hosted_tool_of_another_protocol() -> None:
    """It is a name here."""
    given = choice(ChoiceMode.HOSTED, tool=ToolRef(hosted=HostedKind.WEB_SEARCH))
    body, _ = encode(foreign(tools=(web_search(),), tool_choice=given))
    assert body["tool_choice"] == {"type": "tool", "name": "web_search"}
    body, losses = encode(foreign(tools=(function(strict=False),), tool_choice=given))
    assert "tool_choice" not in body
    assert losses == ["tool_choice.dropped"]


def test_a_forced_choice_without_tools_is_declared() -> None:
    """The API refuses a choice among nothing."""
    body, losses = encode(foreign(user(), tool_choice=choice(ChoiceMode.REQUIRED)))
    assert "tool_choice" not in body
    assert losses == ["tool_choice.dropped"]
