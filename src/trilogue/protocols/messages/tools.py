"""Tools in both directions: their definitions, and the choice among them.

MCP servers are read from two places (`mcp_servers` and `mcp_toolset` tools) into one hosted tool each. `tool_choice`
also says whether tools may be called in parallel. Whether a model has a hosted tool is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.errors import BadRequest, InternalError, Unsupported
from trilogue.model import (
    ChoiceMode,
    FunctionTool,
    HostedKind,
    HostedTool,
    Json,
    Protocol,
    Request,
    Tool,
    ToolChoice,
    ToolRef,
)
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fields import Fields, LooseFields
from trilogue.protocols.fit.thinking import is_forced
from trilogue.protocols.messages.controls import Marks, take_cache
from trilogue.protocols.messages.fast_decode import short_function
from trilogue.protocols.messages.wire import MCP_SERVER, TOOL_TYPES, TOOL_VERSION
from trilogue.protocols.parts import read_location, write_location

_CHOICES = {"auto": ChoiceMode.AUTO, "any": ChoiceMode.REQUIRED, "none": ChoiceMode.NONE, "tool": ChoiceMode.NAMED}
_CHOICE_NAMES = {mode: name for name, mode in _CHOICES.items()}


def decode_tools(values: list[Json] | None, servers: list[Json] | None) -> tuple[Tool, ...]:
    """Return the tools of `tools` and `mcp_servers`, in that order."""
    known = {name: server for server in servers if (name := LooseFields(server).text("name"))} if servers else {}
    tools = [decode_tool(value, f"tools[{index}]", known) for index, value in enumerate(values or ())]
    if not servers:
        return tuple(tools)
    used = {tool.server_label for tool in tools if isinstance(tool, HostedTool)}
    for index, server in enumerate(servers):
        fields = Fields(server, f"mcp_servers[{index}]")
        if fields.text("name") not in used:
            tools.append(_decode_mcp_server(server, fields.path))
    return tuple(tools)


def decode_tool(value: Json, path: str, servers: dict[str, Json] | None = None) -> Tool:
    """Return one tool. `servers`: the request's MCP servers by name."""
    short = short_function(value, path) if FAST_PATHS.on else None
    if short is not None:
        return short
    fields = Fields(value, path)
    kind = fields.text("type")
    # The type of a function is optional.
    if kind is None or kind == "custom":
        return _decode_function(fields)
    # The type ends with a date, which does not change the kind of tool.
    hosted, on_client = TOOL_TYPES.get(TOOL_VERSION.sub("", kind), (HostedKind.OTHER, False))
    if hosted is HostedKind.MCP:
        return _decode_mcp_toolset(fields, value, servers or {})
    common: dict[str, Any] = {"kind": hosted, "native": value, "type": kind, "runs_on_client": on_client, "path": path}
    common["name"] = fields.text("name")
    common["cache"] = take_cache(fields)
    if hosted in (HostedKind.WEB_SEARCH, HostedKind.WEB_FETCH):
        common |= _decode_web_search(fields)
    return HostedTool(**common)


def _decode_function(fields: Fields) -> Tool:
    return FunctionTool(
        name=fields.required("name"),
        description=fields.text("description"),
        parameters=fields.mapping("input_schema"),
        strict=fields.flag("strict"),
        deferred=fields.flag("defer_loading"),
        path=fields.path,
        cache=take_cache(fields),
        extras=fields.rest(),
    )


def _decode_names(fields: Fields, name: str) -> tuple[str, ...] | None:
    values = fields.items(name)
    if values is None:
        return None
    if not all(isinstance(value, str) for value in values):
        raise BadRequest(f"{fields.at(name)} must be an array of strings", path=fields.at(name))
    return tuple(values)


def _decode_web_search(fields: Fields) -> dict[str, Any]:
    place = fields.fields("user_location")
    location = read_location(place) if place else None
    if place is not None:
        place.any("type")
        fields.keep("user_location", place)
    return {
        "allowed_domains": _decode_names(fields, "allowed_domains"),
        "blocked_domains": _decode_names(fields, "blocked_domains"),
        "max_uses": fields.integer("max_uses"),
        "location": location,
        "extras": fields.rest(),
    }


def _decode_mcp_toolset(fields: Fields, value: Json, servers: dict[str, Json]) -> Tool:
    label = fields.required("mcp_server_name")
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
        # Messages has no approvals: its MCP tools run without asking.
        approval="never",
        path=fields.path,
        cache=take_cache(fields),
        extras=fields.rest(),
    )


def _decode_mcp_server(value: Json, path: str) -> Tool:
    """Return a server without a toolset: the older form, where the server itself has the list of enabled tools."""
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
    names = _decode_names(config, "allowed_tools")
    enabled = config.flag("enabled")
    server.keep("tool_configuration", config)
    # A disabled server offers no tools at all.
    return () if enabled is False else names


def _allowed_by_toolset(fields: Fields) -> tuple[str, ...] | None:
    """Return the enabled tools if all others are disabled.

    None for other configurations, which have no neutral form and stay extras.
    """
    default = LooseFields(fields.any("default_config"))
    configs = LooseFields(fields.any("configs")).rest() or {}
    if default.flag("enabled") is False:
        fields.keep("default_config", default)
        if any((LooseFields(config).rest() or {}).keys() - {"enabled"} for config in configs.values()):
            fields.put_back("configs", configs)
        return tuple(name for name, config in configs.items() if LooseFields(config).flag("enabled") is True)
    fields.keep("default_config", default)
    if configs:
        fields.put_back("configs", configs)
    return None


def encode_tools(request: Request, marks: Marks, out: EncodingContext) -> dict[str, Json]:
    """Return the fields for tools: `tools`, `tool_choice`, `mcp_servers`."""
    body: dict[str, Json] = {}
    tools = _write_tools(request, marks, out)
    if tools:
        body["tools"] = tools
    if (choice := encode_choice(request, tools, out)) is not None:
        body["tool_choice"] = choice
    if not out.native and (servers := _servers(request, tools)):
        body["mcp_servers"] = servers
    return body


def _write_tools(request: Request, marks: Marks, out: EncodingContext) -> list[Json]:
    offered = _offered(request, out)
    if out.native:
        return [_write_back(tool, request, marks, out) for tool in offered if not _is_outside_tools(tool)]
    written: list[Json] = []
    for tool in offered:
        wire = _write(tool, request, out)
        if wire is None:
            continue
        # Anthropic refuses two tools with one name; the client's own tool is kept.
        if type(tool) is HostedTool and _is_taken(wire.get("name"), offered, written):
            out.ledger.add("tool.hosted_dropped", tool.path, tool.type)
            continue
        if type(tool) is FunctionTool and tool.deferred:
            _defer(wire, tool, request, out)
        _declare(tool, out)
        if tool.cache is not None:
            marks.put(wire, tool.cache, tool.path)
        written.append(wire)
    return written


def _is_outside_tools(tool: Tool) -> bool:
    """Return whether a tool of this protocol was read from a later message or from `mcp_servers`, not from `tools`."""
    return tool.added_at is not None or (isinstance(tool, HostedTool) and tool.type == MCP_SERVER)


def _write_back(tool: Tool, request: Request, marks: Marks, out: EncodingContext) -> Json:
    """Return a tool of this protocol unchanged."""
    if isinstance(tool, HostedTool):
        return tool.native
    wire = _write(tool, request, out) or {}
    marks.put(wire, tool.cache, tool.path, tool.extras)
    return wire


def _defer(wire: dict[str, Json], tool: FunctionTool, request: Request, out: EncodingContext) -> None:
    """Mark a tool as deferred if there is a search that can find it; otherwise declare that it is offered now."""
    if tool.added_at is None and any(_is_server_search(other) for other in request.tools):
        wire["defer_loading"] = True
    else:
        out.ledger.add("tool.defer_loading", tool.path)


def _is_taken(name: Json, offered: Sequence[Tool], written: list[Json]) -> bool:
    """Return whether another tool has the name of a hosted one: a tool of the client, or an earlier hosted one."""
    own = any(type(tool) is FunctionTool and tool.name == name for tool in offered)
    return own or any(name is not None and tool.get("name") == name for tool in written)


def _declare(tool: Tool, out: EncodingContext) -> None:
    if tool.added_at is not None:
        out.ledger.add("tool.timing", tool.path)
    if out.source is Protocol.RESPONSES and type(tool) is FunctionTool and tool.strict is None:
        out.ledger.add("tool.strict_default", tool.path)


def _is_server_search(tool: Tool) -> bool:
    return isinstance(tool, HostedTool) and tool.kind is HostedKind.TOOL_SEARCH and not tool.runs_on_client


def _offered(request: Request, out: EncodingContext) -> Sequence[Tool]:
    """Return all tools, or those that the choice is limited to."""
    choice = request.tool_choice
    if choice is None or choice.mode is not ChoiceMode.ALLOWED:
        return request.tools
    out.ledger.add("tool_choice.allowed_filtered", choice.path or "tool_choice")
    names = {ref.name for ref in choice.allowed if ref.hosted is None}
    kinds = {ref.hosted for ref in choice.allowed if ref.hosted is not None}
    if out.source is Protocol.CHAT:
        # In Chat, web search is not a tool that a choice can name.
        kinds.add(HostedKind.WEB_SEARCH)
    return [
        tool
        for tool in request.tools
        if (tool.kind in kinds if isinstance(tool, HostedTool) else getattr(tool, "name", None) in names)
    ]


def _schema(parameters: dict[str, Json] | None) -> dict[str, Json]:
    # Anthropic requires a schema of type object.
    if parameters is None:
        return {"type": "object", "properties": {}}
    return parameters if "type" in parameters else {"type": "object", **parameters}


def _write_function(tool: FunctionTool, _: Request, out: EncodingContext) -> dict[str, Json]:
    native = out.native
    wire: dict[str, Json] = {"name": tool.name}
    if tool.description is not None:
        wire["description"] = tool.description
    if not native or tool.parameters is not None:
        wire["input_schema"] = tool.parameters if native else _schema(tool.parameters)
    if native and tool.strict is not None:
        wire["strict"] = tool.strict
    elif tool.strict:
        wire["strict"] = True
    if native and tool.deferred is not None:
        wire["defer_loading"] = tool.deferred
    return wire


def _write_hosted(tool: HostedTool, request: Request, out: EncodingContext) -> dict[str, Json] | None:
    writer = None if tool.runs_on_client else _HOSTED.get(tool.kind)
    if writer is None:
        out.ledger.add("tool.hosted_dropped", tool.path, tool.type)
        return None
    return writer(tool, request, out)


def _write_web_search(tool: HostedTool, request: Request, out: EncodingContext) -> dict[str, Json]:
    # The first version of the tool.
    wire: dict[str, Json] = {"type": "web_search_20250305", "name": "web_search"}
    limit = tool.max_uses if tool.max_uses is not None else request.sampling.max_tool_calls
    if limit is not None:
        wire["max_uses"] = limit
    # The API accepts allowed_domains or blocked_domains, not both.
    if tool.allowed_domains:
        wire["allowed_domains"] = list(tool.allowed_domains)
    if tool.blocked_domains:
        if tool.allowed_domains:
            out.ledger.add("web_search.params", tool.path, "blocked_domains together with allowed_domains")
        else:
            wire["blocked_domains"] = list(tool.blocked_domains)
    if tool.location is not None:
        wire["user_location"] = {"type": "approximate", **write_location(tool.location)}
    if tool.context_size not in (None, "medium"):
        out.ledger.add("web_search.params", tool.path, "search_context_size")
    return wire


def _write_code(tool: HostedTool, _: Request, out: EncodingContext) -> dict[str, Json]:
    out.ledger.add("code_exec.container", tool.path)
    return {"type": "code_execution_20250825", "name": "code_execution"}


def _write_search(tool: HostedTool, _: Request, out: EncodingContext) -> dict[str, Json]:
    out.ledger.add("tool_search.algorithm", tool.path)
    return {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


def _write_mcp(tool: HostedTool, request: Request, out: EncodingContext) -> dict[str, Json] | None:
    reason = None
    # Approvals of Responses ask the client before each call; Messages cannot do that.
    if tool.approval != "never":
        reason = "the target calls MCP tools without asking; require_approval must be never"
    elif not tool.server_url or not tool.server_label:
        reason = "an MCP server needs a URL and a label"
    if reason is not None:
        if not any(type(other) is FunctionTool for other in request.tools):
            raise Unsupported(tool.path, reason)
        out.ledger.add("tool.hosted_dropped", tool.path, tool.type)
        return None
    wire: dict[str, Json] = {"type": "mcp_toolset", "mcp_server_name": tool.server_label}
    if tool.allowed_tools is not None:
        # A toolset enables everything by default.
        wire["default_config"] = {"enabled": False}
        wire["configs"] = {name: {"enabled": True} for name in tool.allowed_tools}
    return wire


_HOSTED: dict[HostedKind, Callable[[HostedTool, Request, EncodingContext], dict[str, Json] | None]] = {
    HostedKind.WEB_SEARCH: _write_web_search,
    HostedKind.CODE: _write_code,
    HostedKind.TOOL_SEARCH: _write_search,
    HostedKind.MCP: _write_mcp,
}
OFFERED = frozenset(_HOSTED)
"""the hosted tools of other protocols that can be offered here"""
_WRITERS: dict[type[Tool], Callable[[Any, Request, EncodingContext], dict[str, Json] | None]] = {
    FunctionTool: _write_function,
    HostedTool: _write_hosted,
}


def _write(tool: Tool, request: Request, out: EncodingContext) -> dict[str, Json] | None:
    writer = _WRITERS.get(type(tool))
    if writer is None:
        raise InternalError(f"{type(tool).__name__} should have become a function before")
    return writer(tool, request, out)


def _servers(request: Request, tools: list[Json]) -> list[Json]:
    """Return the `mcp_servers` that the MCP tools of another protocol need."""
    labels = {tool["mcp_server_name"] for tool in tools if "type" in tool and tool["type"] == "mcp_toolset"}
    servers: list[Json] = []
    if not labels:
        return servers
    for tool in request.tools:
        if isinstance(tool, HostedTool) and tool.kind is HostedKind.MCP and tool.server_label in labels:
            server = {"type": "url", "name": tool.server_label, "url": tool.server_url}
            servers.append({**server, **({"authorization_token": tool.authorization} if tool.authorization else {})})
    return servers


def decode_choice(fields: Fields, tools: tuple[Tool, ...]) -> tuple[ToolChoice | None, bool | None]:
    """Return the tool choice, and whether tools may be called in parallel; None for what is not set."""
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
        name = choice.required("name")
        hosted = next((t.kind for t in tools if isinstance(t, HostedTool) and _is_hosted(t, name)), None)
        ref = ToolRef(name=name, hosted=hosted, native=native if hosted else None)
        mode = ChoiceMode.HOSTED if hosted else mode
    result = ToolChoice(mode=mode, tool=ref, path=choice.path, extras=choice.rest())
    return result, None if disabled is None else not disabled


def _is_hosted(tool: HostedTool, name: str) -> bool:
    """Return whether a name means a hosted tool. A tool that the client runs is chosen like a function."""
    return tool.name == name and not tool.runs_on_client


def encode_choice(request: Request, tools: list[Json], out: EncodingContext) -> dict[str, Json] | None:
    """Return `tool_choice`; None if there is none to send."""
    choice, native = request.tool_choice, out.native
    wire = _write_choice(choice, tools, out) if choice is not None else None
    # Anthropic refuses a tool choice without tools.
    if not tools and not native:
        if choice is not None and is_forced(choice):
            out.ledger.add("tool_choice.dropped", choice.path or "tool_choice")
        return None
    if request.parallel_tools is False or (native and request.parallel_tools is not None):
        # The flag has no place of its own: without a choice it needs one of type auto.
        wire = wire or {"type": "auto"}
        # The flag is not allowed on `none`.
        if wire["type"] != "none" or native:
            wire["disable_parallel_tool_use"] = not request.parallel_tools
    if native and wire is not None and choice is not None and choice.extras:
        wire = {**choice.extras, **wire}
    return wire


def _write_choice(choice: ToolChoice, tools: list[Json], out: EncodingContext) -> dict[str, Json] | None:
    mode = choice.allowed_mode if choice.mode is ChoiceMode.ALLOWED else choice.mode
    if mode is ChoiceMode.HOSTED:
        return _write_hosted_choice(choice, tools, out)
    wire: dict[str, Json] = {"type": _CHOICE_NAMES.get(mode, "auto")}
    if choice.tool is not None and mode is ChoiceMode.NAMED:
        wire["name"] = choice.tool.name
    return wire


def _write_hosted_choice(choice: ToolChoice, tools: list[Json], out: EncodingContext) -> dict[str, Json] | None:
    kind = choice.tool.hosted if choice.tool else None
    for tool in tools:
        name = tool.get("name")
        if name and kind is TOOL_TYPES.get(TOOL_VERSION.sub("", tool.get("type") or ""), (None, False))[0]:
            return {"type": "tool", "name": name}
    out.ledger.add("tool_choice.dropped", choice.path or "tool_choice")
    return None
