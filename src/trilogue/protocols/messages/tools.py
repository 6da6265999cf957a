"""Tool definitions and tool choice, both ways.

MCP servers are read from two places (`mcp_servers` and `mcp_toolset` tools) into one hosted tool each.
Whether a target model has a tool is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from trilogue.errors import BadRequest, InternalError, TrilogueError, Unsupported, UpstreamProtocolError
from trilogue.model import (
    ChoiceMode,
    FunctionTool,
    HostedKind,
    HostedTool,
    Json,
    Ledger,
    Protocol,
    Request,
    Tool,
    ToolChoice,
    ToolRef,
    UserLocation,
)
from trilogue.protocols.fields import Fields, LooseFields
from trilogue.protocols.jsontext import dump_text
from trilogue.protocols.messages.controls import Marks, take_cache
from trilogue.protocols.messages.wire import MCP_SERVER, TOOL_TYPES

_VERSION = re.compile(r"_\d{8}$")


def arguments_of(value: Json, fields: Fields) -> str:
    """Tool input as the string that the model wrote, as far as it can be known."""
    if value is None or type(value) is str:
        return value or ""
    try:
        return dump_text(value)
    except TrilogueError:
        fault = UpstreamProtocolError if isinstance(fields, LooseFields) else BadRequest
        raise fault(f"{fields.at('input')} cannot be written as JSON") from None


def decode_tools(values: list[Json] | None, servers: list[Json] | None) -> tuple[Tool, ...]:
    """`tools` and `mcp_servers`, in that order."""
    known = {name: server for server in servers or () if (name := LooseFields(server).text("name"))}
    tools = [decode_tool(value, f"tools[{index}]", known) for index, value in enumerate(values or ())]
    used = {tool.server_label for tool in tools if isinstance(tool, HostedTool)}
    for index, server in enumerate(servers or ()):
        fields = Fields(server, f"mcp_servers[{index}]")
        if fields.text("name") not in used:
            tools.append(_mcp_server(server, fields.path))
    return tuple(tools)


def decode_tool(value: Json, path: str, servers: dict[str, Json] | None = None) -> Tool:
    """One tool definition. `servers`: the request's MCP servers by name."""
    fields = Fields(value, path)
    kind = fields.text("type")
    if kind is None or kind == "custom":
        return _function(fields)
    hosted, on_client = TOOL_TYPES.get(_VERSION.sub("", kind), (HostedKind.OTHER, False))
    if hosted is HostedKind.MCP:
        return _mcp_toolset(fields, value, servers or {})
    common: dict[str, Any] = {"kind": hosted, "native": value, "type": kind, "runs_on_client": on_client, "path": path}
    common["name"] = fields.text("name")
    common["cache"] = take_cache(fields)
    if hosted is HostedKind.WEB_SEARCH:
        common |= _web_search(fields)
    return HostedTool(**common)


def _function(fields: Fields) -> Tool:
    name = fields.text("name")
    if name is None:
        raise fields.require("name")
    return FunctionTool(
        name=name,
        description=fields.text("description"),
        parameters=fields.mapping("input_schema"),
        strict=fields.flag("strict"),
        deferred=fields.flag("defer_loading"),
        path=fields.path,
        cache=take_cache(fields),
        extras=fields.rest(),
    )


def _names(fields: Fields, name: str) -> tuple[str, ...] | None:
    values = fields.items(name)
    if values is None:
        return None
    if not all(isinstance(value, str) for value in values):
        raise BadRequest(f"{fields.at(name)} must be an array of strings", path=fields.at(name))
    return tuple(values)


def _web_search(fields: Fields) -> dict[str, Any]:
    place = fields.fields("user_location")
    return {
        "allowed_domains": _names(fields, "allowed_domains"),
        "blocked_domains": _names(fields, "blocked_domains"),
        "max_uses": fields.integer("max_uses"),
        "location": UserLocation(**{name: place.text(name) for name in UserLocation.__struct_fields__})
        if place
        else None,
        "extras": fields.rest(),
    }


def _mcp_toolset(fields: Fields, value: Json, servers: dict[str, Json]) -> Tool:
    label = fields.text("mcp_server_name")
    if label is None:
        raise fields.require("mcp_server_name")
    server = LooseFields(servers.get(label, {}))
    allowed = _allowed_by_server(server)
    own = _allowed_by_toolset(fields)
    return HostedTool(
        kind=HostedKind.MCP,
        native=value,
        type="mcp_toolset",
        server_label=label,
        server_url=server.text("url"),
        authorization=server.text("authorization_token"),
        allowed_tools=own if own is not None else allowed,
        approval="never",
        path=fields.path,
        cache=take_cache(fields),
        extras=fields.rest(),
    )


def _mcp_server(value: Json, path: str) -> Tool:
    """A server without a toolset: the older form, where the server itself says which tools are on."""
    server = Fields(value, path)
    server.any("type")
    return HostedTool(
        kind=HostedKind.MCP,
        native=value,
        type=MCP_SERVER,
        server_label=server.text("name"),
        server_url=server.text("url"),
        authorization=server.text("authorization_token"),
        allowed_tools=_allowed_by_server(server),
        approval="never",
        path=path,
        extras=server.rest(),
    )


def _allowed_by_server(server: Fields) -> tuple[str, ...] | None:
    config = server.fields("tool_configuration")
    if config is None:
        return None
    return () if config.flag("enabled") is False else _names(config, "allowed_tools")


def _allowed_by_toolset(fields: Fields) -> tuple[str, ...] | None:
    """The tools that are on, if all others are off. Other configurations have no neutral form and stay extras."""
    default = LooseFields(fields.any("default_config"))
    configs = LooseFields(fields.any("configs")).rest() or {}
    if default.flag("enabled") is False:
        return tuple(name for name, config in configs.items() if LooseFields(config).flag("enabled") is True)
    if configs:
        fields.put_back("configs", configs)
    return None


_CHOICES = {"auto": ChoiceMode.AUTO, "any": ChoiceMode.REQUIRED, "none": ChoiceMode.NONE, "tool": ChoiceMode.NAMED}
_CHOICE_NAMES = {mode: name for name, mode in _CHOICES.items()}


def decode_choice(fields: Fields, tools: tuple[Tool, ...]) -> tuple[ToolChoice | None, bool | None]:
    """`tool_choice`: the choice, and whether tools may be called in parallel."""
    native = fields.mapping("tool_choice")
    if native is None:
        return None, None
    choice = Fields(native, fields.at("tool_choice"))
    kind = choice.text("type") or ""
    if kind not in _CHOICES:
        raise BadRequest(f"{choice.at('type')} must be one of {', '.join(_CHOICES)}", path=choice.at("type"))
    mode = _CHOICES[kind]
    disabled = choice.flag("disable_parallel_tool_use")
    ref = None
    if mode is ChoiceMode.NAMED:
        name = choice.text("name")
        if name is None:
            raise choice.require("name")
        hosted = next((t.kind for t in tools if isinstance(t, HostedTool) and _is_hosted(t, name)), None)
        ref = ToolRef(name=name, hosted=hosted, native=native if hosted else None)
        mode = ChoiceMode.HOSTED if hosted else mode
    result = ToolChoice(mode=mode, tool=ref, path=choice.path, extras=choice.rest())
    return result, None if disabled is None else not disabled


def _is_hosted(tool: HostedTool, name: str) -> bool:
    """A tool that the client runs is chosen by name like a function."""
    return tool.name == name and not tool.runs_on_client


def encode_tools(request: Request, marks: Marks, ledger: Ledger) -> list[Json]:
    """The `tools` array. Servers of MCP tools are written by `encode_servers`."""
    native = request.protocol is Protocol.MESSAGES
    searchable = native or any(_is_server_search(tool) for tool in request.tools)
    out: list[Json] = []
    for tool in _offered(request, ledger):
        if native and (tool.added_at is not None or (isinstance(tool, HostedTool) and tool.type == MCP_SERVER)):
            continue  # written where it came from: in a message, or in mcp_servers
        wire = tool.native if native and isinstance(tool, HostedTool) else _write(tool, request, ledger)
        if wire is None:
            continue
        if isinstance(tool, FunctionTool) and tool.deferred:
            if searchable:
                wire["defer_loading"] = True
            else:
                ledger.add("tool.defer_loading", tool.path)
        if not native:
            _declare(tool, request, ledger)
        if not (native and isinstance(tool, HostedTool)):
            marks.put(wire, tool.cache, tool.path, tool.extras if native else None)
        out.append(wire)
    return out


def _declare(tool: Tool, request: Request, ledger: Ledger) -> None:
    if tool.added_at is not None:
        ledger.add("tool.timing", tool.path)
    if isinstance(tool, FunctionTool) and tool.strict is None and request.protocol is Protocol.RESPONSES:
        ledger.add("tool.strict_default", tool.path)


def _is_server_search(tool: Tool) -> bool:
    return isinstance(tool, HostedTool) and tool.kind is HostedKind.TOOL_SEARCH and not tool.runs_on_client


def _offered(request: Request, ledger: Ledger) -> list[Tool]:
    """All tools, or those that the choice is limited to."""
    choice = request.tool_choice
    if choice is None or choice.mode is not ChoiceMode.ALLOWED:
        return list(request.tools)
    ledger.add("tool_choice.allowed_filtered", choice.path or "tool_choice")
    names = {ref.name for ref in choice.allowed if ref.hosted is None}
    kinds = {ref.hosted for ref in choice.allowed if ref.hosted is not None}
    return [
        tool
        for tool in request.tools
        if (tool.kind in kinds if isinstance(tool, HostedTool) else getattr(tool, "name", None) in names)
    ]


def _schema(parameters: dict[str, Json] | None) -> dict[str, Json]:
    if parameters is None:
        return {"type": "object", "properties": {}}
    return parameters if "type" in parameters else {"type": "object", **parameters}


def _write_function(tool: FunctionTool, request: Request, _: Ledger) -> dict[str, Json]:
    native = request.protocol is Protocol.MESSAGES
    wire: dict[str, Json] = {"name": tool.name}
    if tool.description is not None:
        wire["description"] = tool.description
    if not native or tool.parameters is not None:
        wire["input_schema"] = tool.parameters if native else _schema(tool.parameters)
    if tool.strict or (native and tool.strict is not None):
        wire["strict"] = tool.strict
    if native and tool.deferred is False:
        wire["defer_loading"] = False
    return wire


def _write_hosted(tool: HostedTool, request: Request, ledger: Ledger) -> dict[str, Json] | None:
    writer = None if tool.runs_on_client else _HOSTED.get(tool.kind)
    if writer is None:
        ledger.add("tool.hosted_dropped", tool.path, tool.type)
        return None
    return writer(tool, request, ledger)


def _write_web_search(tool: HostedTool, request: Request, ledger: Ledger) -> dict[str, Json]:
    wire: dict[str, Json] = {"type": "web_search_20250305", "name": "web_search"}
    limit = tool.max_uses if tool.max_uses is not None else request.sampling.max_tool_calls
    if limit is not None:
        wire["max_uses"] = limit
    if tool.allowed_domains:
        wire["allowed_domains"] = list(tool.allowed_domains)
    if tool.blocked_domains:
        if tool.allowed_domains:
            ledger.add("web_search.params", tool.path, "blocked_domains beside allowed_domains")
        else:
            wire["blocked_domains"] = list(tool.blocked_domains)
    if tool.location is not None:
        place = {name: value for name in tool.location.__struct_fields__ if (value := getattr(tool.location, name))}
        wire["user_location"] = {"type": "approximate", **place}
    if tool.context_size not in (None, "medium"):
        ledger.add("web_search.params", tool.path, "search_context_size")
    return wire


def _write_code(tool: HostedTool, _: Request, ledger: Ledger) -> dict[str, Json]:
    ledger.add("code_exec.container", tool.path)
    return {"type": "code_execution_20250825", "name": "code_execution"}


def _write_search(tool: HostedTool, _: Request, ledger: Ledger) -> dict[str, Json]:
    ledger.add("tool_search.algorithm", tool.path)
    return {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


def _write_mcp(tool: HostedTool, _: Request, __: Ledger) -> dict[str, Json]:
    if tool.approval != "never":
        raise Unsupported(tool.path, "the target calls MCP tools without asking; require_approval must be never")
    if not tool.server_url or not tool.server_label:
        raise Unsupported(tool.path, "an MCP server needs a URL and a label")
    wire: dict[str, Json] = {"type": "mcp_toolset", "mcp_server_name": tool.server_label}
    if tool.allowed_tools is not None:
        wire["default_config"] = {"enabled": False}
        wire["configs"] = {name: {"enabled": True} for name in tool.allowed_tools}
    return wire


_HOSTED: dict[HostedKind, Callable[[HostedTool, Request, Ledger], dict[str, Json]]] = {
    HostedKind.WEB_SEARCH: _write_web_search,
    HostedKind.CODE: _write_code,
    HostedKind.TOOL_SEARCH: _write_search,
    HostedKind.MCP: _write_mcp,
}
OFFERED_KINDS = frozenset(_HOSTED)

_WRITERS: dict[type[Tool], Callable[[Any, Request, Ledger], dict[str, Json] | None]] = {
    FunctionTool: _write_function,
    HostedTool: _write_hosted,
}


def _write(tool: Tool, request: Request, ledger: Ledger) -> dict[str, Json] | None:
    writer = _WRITERS.get(type(tool))
    if writer is None:
        raise InternalError(f"{type(tool).__name__} should have become a function before")
    return writer(tool, request, ledger)


def encode_servers(request: Request, tools: list[Json]) -> list[Json]:
    """The `mcp_servers` that the MCP tools of another protocol need."""
    labels = {tool["mcp_server_name"] for tool in tools if tool.get("type") == "mcp_toolset"}
    servers: list[Json] = []
    for tool in request.tools:
        if isinstance(tool, HostedTool) and tool.kind is HostedKind.MCP and tool.server_label in labels:
            server = {"type": "url", "name": tool.server_label, "url": tool.server_url}
            servers.append({**server, **({"authorization_token": tool.authorization} if tool.authorization else {})})
    return servers


def is_forced(request: Request) -> bool:
    """The model must call a tool."""
    choice = request.tool_choice
    if choice is None:
        return False
    mode = choice.allowed_mode if choice.mode is ChoiceMode.ALLOWED else choice.mode
    return mode in (ChoiceMode.REQUIRED, ChoiceMode.NAMED, ChoiceMode.HOSTED)


def encode_choice(request: Request, tools: list[Json], ledger: Ledger) -> dict[str, Json] | None:
    """`tool_choice`; it may only be sent together with tools."""
    choice, native = request.tool_choice, request.protocol is Protocol.MESSAGES
    wire = _choice(choice, tools, ledger) if choice is not None else None
    if not tools and not native:
        if is_forced(request) and choice is not None:
            ledger.add("tool_choice.dropped", choice.path or "tool_choice")
        return None
    if request.parallel_tools is False or (native and request.parallel_tools is not None):
        wire = wire or {"type": "auto"}
        if wire["type"] != "none" or native:
            wire["disable_parallel_tool_use"] = not request.parallel_tools
    if native and wire is not None and choice is not None and choice.extras:
        wire = {**choice.extras, **wire}
    return wire


def _choice(choice: ToolChoice, tools: list[Json], ledger: Ledger) -> dict[str, Json] | None:
    mode = choice.allowed_mode if choice.mode is ChoiceMode.ALLOWED else choice.mode
    if mode is ChoiceMode.HOSTED:
        return _hosted_choice(choice, tools, ledger)
    wire: dict[str, Json] = {"type": _CHOICE_NAMES.get(mode, "auto")}
    if choice.tool is not None and mode is ChoiceMode.NAMED:
        wire["name"] = choice.tool.name
    return wire


def _hosted_choice(choice: ToolChoice, tools: list[Json], ledger: Ledger) -> dict[str, Json] | None:
    kind = choice.tool.hosted if choice.tool else None
    for tool in tools:
        name = tool.get("name")
        if name and kind is TOOL_TYPES.get(_VERSION.sub("", tool.get("type") or ""), (None, False))[0]:
            return {"type": "tool", "name": name}
    ledger.add("tool_choice.dropped", choice.path or "tool_choice")
    return None
