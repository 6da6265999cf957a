"""Tool definitions and choices, both ways."""

from typing import Any

import pytest

from trilogue.model import (
    ChoiceMode,
    CustomTool,
    FunctionTool,
    HostedKind,
    HostedTool,
    Ledger,
    Protocol,
    Request,
    Tool,
    ToolChoice,
    ToolRef,
    UserLocation,
)
from trilogue.protocols.codec import Target
from trilogue.protocols.responses import CODEC

TARGET = Target.of(Protocol.RESPONSES, "gpt-6")

NAMESPACE = {
    "type": "namespace",
    "name": "crm",
    "description": "customers",
    "tools": [
        {"type": "function", "name": "find", "parameters": {"type": "object"}, "strict": False, "defer_loading": True},
        {"type": "custom", "name": "note", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}},
    ],
}


def decode(*tools: Any) -> Request:
    return CODEC.decode_request({"model": "m", "input": "x", "tools": list(tools)})


def written(source: Protocol, *tools: Tool, choice: ToolChoice | None = None) -> tuple[dict[str, Any], list[str]]:
    ledger = Ledger()
    request = Request(protocol=source, model="m", tools=tools, tool_choice=choice)
    return CODEC.encode_request(request, TARGET, ledger), [loss.code for loss in ledger.losses]


def test_namespace_is_flattened_and_regrouped() -> None:
    """Other protocols need flat tools; this one needs its groups back."""
    request = decode(NAMESPACE)
    assert [getattr(tool, "namespace", None) for tool in request.tools] == ["crm", "crm"]
    assert request.namespaces == {"crm": "customers"}
    assert CODEC.encode_request(request, TARGET, Ledger())["tools"] == [NAMESPACE]


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "name": "f", "parameters": {"type": "object"}},
        {
            "type": "function",
            "name": "f",
            "parameters": {},
            "strict": True,
            "allowed_callers": ["direct"],
            "async": True,
        },
        {"type": "custom", "name": "c", "description": "d", "format": {"type": "text"}},
        {"type": "web_search", "filters": {"allowed_domains": ["a.b"]}, "search_context_size": "low"},
        {"type": "mcp", "server_label": "s", "server_url": "https://s", "require_approval": {"never": {}}},
        {"type": "tool_search", "execution": "client"},
        {"type": "shell", "environment": {"type": "local"}},
        {"type": "future_tool", "x": 1},
        {"type": "namespace", "name": "n", "description": "", "tools": [{"type": "web_search"}]},
    ],
)
def test_tools_go_back_as_they_came(tool: dict[str, Any]) -> None:
    """Same protocol, nothing lost."""
    assert CODEC.encode_request(decode(tool), TARGET, Ledger())["tools"] == [tool]


@pytest.mark.parametrize(
    ("tool", "kind", "on_client"),
    [
        ({"type": "web_search_preview"}, HostedKind.WEB_SEARCH, False),
        ({"type": "computer"}, HostedKind.COMPUTER, True),
        ({"type": "local_shell"}, HostedKind.SHELL, True),
        ({"type": "shell", "environment": {"type": "container_auto"}}, HostedKind.SHELL, False),
        ({"type": "tool_search", "execution": "client"}, HostedKind.TOOL_SEARCH, True),
        ({"type": "programmatic_tool_calling"}, HostedKind.OTHER, False),
    ],
)
def test_hosted_tools_have_a_kind(tool: dict[str, Any], kind: HostedKind, on_client: bool) -> None:
    """Translation decides by kind and by who runs it."""
    (hosted,) = decode(tool).tools
    assert isinstance(hosted, HostedTool)
    assert (hosted.kind, hosted.runs_on_client) == (kind, on_client)


def test_web_search_settings_are_neutral_or_extra() -> None:
    """What another protocol could say is neutral; the rest must be declared there."""
    (tool,) = decode(
        {
            "type": "web_search",
            "filters": {"allowed_domains": ["a.b"]},
            "user_location": {"type": "approximate", "city": "Bern"},
            "external_web_access": False,
        }
    ).tools
    assert isinstance(tool, HostedTool)
    assert tool.allowed_domains == ("a.b",)
    assert tool.location == UserLocation(city="Bern")
    assert tool.extras == {"external_web_access": False}


def test_mcp_needs_approval_unless_it_says_never() -> None:
    """That is the protocol's default, which the others do not share."""
    silent, never = decode(
        {"type": "mcp", "server_label": "s", "server_url": "u"},
        {"type": "mcp", "server_label": "t", "server_url": "u", "require_approval": "never", "allowed_tools": ["a"]},
    ).tools
    assert isinstance(silent, HostedTool)
    assert isinstance(never, HostedTool)
    assert (silent.approval, never.approval, never.allowed_tools) == ("always", "never", ("a",))


@pytest.mark.parametrize("strict", [None, False])
def test_foreign_functions_are_not_strict_unless_they_say_so(strict: bool | None) -> None:
    """Left out, the server would try strict mode."""
    body, losses = written(Protocol.CHAT, FunctionTool(name="f", strict=strict))
    assert body["tools"] == [
        {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False}
    ]
    assert losses == []


def test_strict_schema_outside_the_subset_is_downgraded() -> None:
    """Messages takes schemas in strict mode that OpenAI refuses."""
    loose = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    body, losses = written(Protocol.MESSAGES, FunctionTool(name="f", parameters=loose, strict=True))
    assert body["tools"][0]["strict"] is False
    assert losses == ["tool.strict_downgraded"]
    fitting = {**loose, "required": ["a"]}
    body, losses = written(Protocol.MESSAGES, FunctionTool(name="f", parameters=fitting, strict=True))
    assert (body["tools"][0]["strict"], losses) == (True, [])


def test_custom_tool_of_chat() -> None:
    """Chat nests the grammar, this protocol does not."""
    body, _ = written(Protocol.CHAT, CustomTool(name="c", syntax="regex", grammar="a+"))
    assert body["tools"] == [
        {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "regex", "definition": "a+"}}
    ]


def test_hosted_tools_of_messages() -> None:
    """Search, MCP and code have equivalents; what they cannot carry is declared."""
    search = HostedTool(
        kind=HostedKind.WEB_SEARCH,
        type="web_search_20260318",
        native={},
        allowed_domains=("a.b",),
        blocked_domains=("c.d",),
        max_uses=3,
        path="tools[0]",
    )
    body, losses = written(Protocol.MESSAGES, search)
    assert body["tools"] == [{"type": "web_search", "filters": {"allowed_domains": ["a.b"]}}]
    assert body["max_tool_calls"] == 3
    assert losses == ["web_search.params", "web_search.params"]
    server = HostedTool(kind=HostedKind.MCP, type="mcp", native={}, server_label="s", server_url="u", authorization="t")
    code = HostedTool(kind=HostedKind.CODE, type="code_execution", native={})
    body, losses = written(Protocol.MESSAGES, server, code)
    mcp = {"type": "mcp", "server_label": "s", "server_url": "u", "authorization": "t", "require_approval": "never"}
    assert body["tools"] == [mcp, {"type": "code_interpreter", "container": {"type": "auto"}}]
    assert losses == ["code_exec.container"]


def test_marks_and_unknown_hosted_tools_are_declared() -> None:
    """Neither has a place here."""
    memory = HostedTool(kind=HostedKind.MEMORY, type="memory", native={}, path="tools[0]")
    body, losses = written(Protocol.MESSAGES, memory)
    assert "tools" not in body
    assert losses == ["tool.hosted_dropped"]


@pytest.mark.parametrize(
    "choice",
    [
        "auto",
        "none",
        "required",
        {"type": "function", "name": "f"},
        {"type": "custom", "name": "c"},
        {"type": "mcp", "server_label": "s", "name": "n"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}, {"type": "mcp"}]},
        {"type": "web_search_preview"},
        {"type": "apply_patch"},
    ],
)
def test_choices_go_back_as_they_came(choice: Any) -> None:
    """Every form the SDK knows."""
    request = CODEC.decode_request({"model": "m", "input": "x", "tool_choice": choice})
    assert CODEC.encode_request(request, TARGET, Ledger())["tool_choice"] == choice


def test_foreign_choices() -> None:
    """Named and limited choices exist here; a hosted one that does not is dropped and declared."""
    named = ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(name="f"))
    assert written(Protocol.MESSAGES, choice=named)[0]["tool_choice"] == {"type": "function", "name": "f"}
    allowed = ToolChoice(mode=ChoiceMode.ALLOWED, allowed=(ToolRef(name="f"),), allowed_mode=ChoiceMode.REQUIRED)
    assert written(Protocol.CHAT, choice=allowed)[0]["tool_choice"] == {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "f"}],
    }
    hosted = ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(hosted=HostedKind.WEB_FETCH), path="tool_choice")
    body, losses = written(Protocol.MESSAGES, choice=hosted)
    assert "tool_choice" not in body
    assert losses == ["tool_choice.dropped"]


def test_deferred_tools_wait_only_where_something_finds_them() -> None:
    """The API takes a deferred tool only beside a tool search."""
    tool = FunctionTool(name="f", deferred=True, path="tools[0]")
    search = HostedTool(kind=HostedKind.TOOL_SEARCH, type="tool_search_tool_bm25", native={}, path="tools[1]")
    alone, losses = written(Protocol.MESSAGES, tool)
    assert "defer_loading" not in alone["tools"][0]
    assert "tool.defer_loading" in losses
    beside, losses = written(Protocol.MESSAGES, tool, search)
    assert beside["tools"][0]["defer_loading"] is True
    assert "tool.defer_loading" not in losses
