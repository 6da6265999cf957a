"""Tool definitions ↔ `Tool`. Tool choice is `choice.py`.

MCP servers are read from two places (`mcp_servers` and `mcp_toolset` tools) into one hosted tool each.
Whether a target model has a tool is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trilogue.errors import BadRequest, InternalError, TrilogueError, Unsupported, UpstreamProtocolError
from trilogue.model import (
    ChoiceMode,
    FunctionTool,
    HostedKind,
    HostedTool,
    Json,
    Protocol,
    Request,
    Tool,
)
from trilogue.protocols.fields import Fields, LooseFields
from trilogue.protocols.jsontext import dump_text
from trilogue.protocols.location import read_location, write_location
from trilogue.protocols.messages.choice import encode_choice
from trilogue.protocols.messages.controls import Marks, take_cache
from trilogue.protocols.messages.wire import MCP_SERVER, TOOL_TYPES, TOOL_VERSION
from trilogue.protocols.outgoing import Outgoing
from trilogue.protocols.schema import is_object, nodes

_PLAIN = {"name", "description", "input_schema"}
"""the fields that most tools have; these take a short way"""
_LIMITS = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
    }
)
"""what a strict schema cannot say"""


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
    known = {name: server for server in servers if (name := LooseFields(server).text("name"))} if servers else {}
    tools = [decode_tool(value, f"tools[{index}]", known) for index, value in enumerate(values or ())]
    if not servers:
        return tuple(tools)
    used = {tool.server_label for tool in tools if isinstance(tool, HostedTool)}
    for index, server in enumerate(servers):
        fields = Fields(server, f"mcp_servers[{index}]")
        if fields.text("name") not in used:
            tools.append(_mcp_server(server, fields.path))
    return tuple(tools)


def decode_tool(value: Json, path: str, servers: dict[str, Json] | None = None) -> Tool:
    """One tool definition. `servers`: the request's MCP servers by name."""
    if type(value) is dict and value.keys() == _PLAIN:
        name, description, schema = value["name"], value["description"], value["input_schema"]
        if type(name) is type(description) is str and type(schema) is dict:
            return FunctionTool(name=name, description=description, parameters=schema, path=path)
    fields = Fields(value, path)
    kind = fields.text("type")
    if kind is None or kind == "custom":
        return _function(fields)
    hosted, on_client = TOOL_TYPES.get(TOOL_VERSION.sub("", kind), (HostedKind.OTHER, False))
    if hosted is HostedKind.MCP:
        return _mcp_toolset(fields, value, servers or {})
    common: dict[str, Any] = {"kind": hosted, "native": value, "type": kind, "runs_on_client": on_client, "path": path}
    common["name"] = fields.text("name")
    common["cache"] = take_cache(fields)
    if hosted is HostedKind.WEB_SEARCH:
        common |= _web_search(fields)
    return HostedTool(**common)


def _function(fields: Fields) -> Tool:
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


def _names(fields: Fields, name: str) -> tuple[str, ...] | None:
    values = fields.items(name)
    if values is None:
        return None
    if not all(isinstance(value, str) for value in values):
        raise BadRequest(f"{fields.at(name)} must be an array of strings", path=fields.at(name))
    return tuple(values)


def _web_search(fields: Fields) -> dict[str, Any]:
    place = fields.fields("user_location")
    location = read_location(place) if place else None
    if place is not None:
        place.any("type")
        fields.keep("user_location", place)
    return {
        "allowed_domains": _names(fields, "allowed_domains"),
        "blocked_domains": _names(fields, "blocked_domains"),
        "max_uses": fields.integer("max_uses"),
        "location": location,
        "extras": fields.rest(),
    }


def _mcp_toolset(fields: Fields, value: Json, servers: dict[str, Json]) -> Tool:
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
    names = _names(config, "allowed_tools")
    enabled = config.flag("enabled")
    server.keep("tool_configuration", config)
    return () if enabled is False else names


def _allowed_by_toolset(fields: Fields) -> tuple[str, ...] | None:
    """The tools that are on, if all others are off. Other configurations have no neutral form and stay extras."""
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


def encode_tools(request: Request, marks: Marks, out: Outgoing) -> dict[str, Json]:
    """The fields that offer tools: `tools`, `tool_choice`, `mcp_servers`."""
    body: dict[str, Json] = {}
    tools = _write_tools(request, marks, out)
    if tools:
        body["tools"] = tools
    if (choice := encode_choice(request, tools, out)) is not None:
        body["tool_choice"] = choice
    if not out.native and (servers := _servers(request, tools)):
        body["mcp_servers"] = servers
    return body


def _write_tools(request: Request, marks: Marks, out: Outgoing) -> list[Json]:
    written: list[Json] = []
    offered = _offered(request, out)
    for tool in offered:
        if out.native and isinstance(tool, HostedTool):
            if tool.type != MCP_SERVER and tool.added_at is None:
                written.append(tool.native)
            continue
        if out.native and tool.added_at is not None:
            continue
        wire = _write(tool, request, out)
        if wire is None:
            continue
        if type(tool) is HostedTool and _is_taken(wire.get("name"), offered, written):
            out.ledger.add("tool.hosted_dropped", tool.path, tool.type)
            continue
        if type(tool) is FunctionTool and tool.deferred:
            if out.native or any(_is_server_search(other) for other in request.tools):
                wire["defer_loading"] = True
            else:
                out.ledger.add("tool.defer_loading", tool.path)
        if not out.native:
            _declare(tool, out)
        if tool.cache is not None or out.native:
            marks.put(wire, tool.cache, tool.path, tool.extras if out.native else None)
        written.append(wire)
    return written


def _is_taken(name: Json, offered: Sequence[Tool], written: list[Json]) -> bool:
    """Whether another tool has the name of a hosted one: one of the client's own, or one that was written before it."""
    own = any(type(tool) is FunctionTool and tool.name == name for tool in offered)
    return own or any(name is not None and tool.get("name") == name for tool in written)


def _declare(tool: Tool, out: Outgoing) -> None:
    if tool.added_at is not None:
        out.ledger.add("tool.timing", tool.path)
    if out.source is Protocol.RESPONSES and type(tool) is FunctionTool and tool.strict is None:
        out.ledger.add("tool.strict_default", tool.path)


def _is_server_search(tool: Tool) -> bool:
    return isinstance(tool, HostedTool) and tool.kind is HostedKind.TOOL_SEARCH and not tool.runs_on_client


def _offered(request: Request, out: Outgoing) -> Sequence[Tool]:
    """All tools, or those that the choice is limited to."""
    choice = request.tool_choice
    if choice is None or choice.mode is not ChoiceMode.ALLOWED:
        return request.tools
    out.ledger.add("tool_choice.allowed_filtered", choice.path or "tool_choice")
    names = {ref.name for ref in choice.allowed if ref.hosted is None}
    kinds = {ref.hosted for ref in choice.allowed if ref.hosted is not None}
    if out.source is Protocol.CHAT:
        # Its search is no tool that a choice could name.
        kinds.add(HostedKind.WEB_SEARCH)
    return [
        tool
        for tool in request.tools
        if (tool.kind in kinds if isinstance(tool, HostedTool) else getattr(tool, "name", None) in names)
    ]


def _schema(parameters: dict[str, Json] | None) -> dict[str, Json]:
    if parameters is None:
        return {"type": "object", "properties": {}}
    return parameters if "type" in parameters else {"type": "object", **parameters}


def _fits_strict(schema: Json) -> bool:
    """Whether strict mode takes a schema: no limits, and no object with properties that it does not name."""
    return all(
        _LIMITS.isdisjoint(node) and (node.get("additionalProperties") is False or not is_object(node))
        for node in nodes(schema)
    )


def _write_function(tool: FunctionTool, _: Request, out: Outgoing) -> dict[str, Json]:
    native = out.native
    wire: dict[str, Json] = {"name": tool.name}
    if tool.description is not None:
        wire["description"] = tool.description
    if not native or tool.parameters is not None:
        wire["input_schema"] = tool.parameters if native else _schema(tool.parameters)
    if native and tool.strict is not None:
        wire["strict"] = tool.strict
    elif tool.strict and _fits_strict(wire["input_schema"]):
        wire["strict"] = True
    elif tool.strict:
        out.ledger.add("tool.strict_downgraded", tool.path)
    if native and tool.deferred is False:
        wire["defer_loading"] = False
    return wire


def _write_hosted(tool: HostedTool, request: Request, out: Outgoing) -> dict[str, Json] | None:
    writer = None if tool.runs_on_client else _HOSTED.get(tool.kind)
    if writer is None:
        out.ledger.add("tool.hosted_dropped", tool.path, tool.type)
        return None
    return writer(tool, request, out)


def _write_web_search(tool: HostedTool, request: Request, out: Outgoing) -> dict[str, Json]:
    wire: dict[str, Json] = {"type": "web_search_20250305", "name": "web_search"}
    limit = tool.max_uses if tool.max_uses is not None else request.sampling.max_tool_calls
    if limit is not None:
        wire["max_uses"] = limit
    if tool.allowed_domains:
        wire["allowed_domains"] = list(tool.allowed_domains)
    if tool.blocked_domains:
        if tool.allowed_domains:
            out.ledger.add("web_search.params", tool.path, "blocked_domains beside allowed_domains")
        else:
            wire["blocked_domains"] = list(tool.blocked_domains)
    if tool.location is not None:
        wire["user_location"] = {"type": "approximate", **write_location(tool.location)}
    if tool.context_size not in (None, "medium"):
        out.ledger.add("web_search.params", tool.path, "search_context_size")
    return wire


def _write_code(tool: HostedTool, _: Request, out: Outgoing) -> dict[str, Json]:
    out.ledger.add("code_exec.container", tool.path)
    return {"type": "code_execution_20250825", "name": "code_execution"}


def _write_search(tool: HostedTool, _: Request, out: Outgoing) -> dict[str, Json]:
    out.ledger.add("tool_search.algorithm", tool.path)
    return {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


def _write_mcp(tool: HostedTool, _: Request, __: Outgoing) -> dict[str, Json]:
    if tool.approval != "never":
        raise Unsupported(tool.path, "the target calls MCP tools without asking; require_approval must be never")
    if not tool.server_url or not tool.server_label:
        raise Unsupported(tool.path, "an MCP server needs a URL and a label")
    wire: dict[str, Json] = {"type": "mcp_toolset", "mcp_server_name": tool.server_label}
    if tool.allowed_tools is not None:
        wire["default_config"] = {"enabled": False}
        wire["configs"] = {name: {"enabled": True} for name in tool.allowed_tools}
    return wire


_HOSTED: dict[HostedKind, Callable[[HostedTool, Request, Outgoing], dict[str, Json]]] = {
    HostedKind.WEB_SEARCH: _write_web_search,
    HostedKind.CODE: _write_code,
    HostedKind.TOOL_SEARCH: _write_search,
    HostedKind.MCP: _write_mcp,
}
OFFERED = frozenset(_HOSTED)
"""hosted tools of other protocols that can be offered here"""

_WRITERS: dict[type[Tool], Callable[[Any, Request, Outgoing], dict[str, Json] | None]] = {
    FunctionTool: _write_function,
    HostedTool: _write_hosted,
}


def _write(tool: Tool, request: Request, out: Outgoing) -> dict[str, Json] | None:
    writer = _WRITERS.get(type(tool))
    if writer is None:
        raise InternalError(f"{type(tool).__name__} should have become a function before")
    return writer(tool, request, out)


def _servers(request: Request, tools: list[Json]) -> list[Json]:
    """The `mcp_servers` that the MCP tools of another protocol need."""
    labels = {tool["mcp_server_name"] for tool in tools if "type" in tool and tool["type"] == "mcp_toolset"}
    servers: list[Json] = []
    if not labels:
        return servers
    for tool in request.tools:
        if isinstance(tool, HostedTool) and tool.kind is HostedKind.MCP and tool.server_label in labels:
            server = {"type": "url", "name": tool.server_label, "url": tool.server_url}
            servers.append({**server, **({"authorization_token": tool.authorization} if tool.authorization else {})})
    return servers
