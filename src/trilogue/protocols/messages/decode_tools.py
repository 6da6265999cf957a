"""Tool definitions of a request, read into `Tool` structs.

MCP servers are read from two places (`mcp_servers` and `mcp_toolset` tools) into one hosted tool each.
`encode_tools.py` writes them.
"""

from __future__ import annotations

from typing import Any

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.errors import BadRequest
from trilogue.model import FunctionTool, HostedKind, HostedTool, Json, Tool
from trilogue.protocols.content.parts import read_location
from trilogue.protocols.fields.reader import Fields, LooseFields
from trilogue.protocols.messages.controls import take_cache
from trilogue.protocols.messages.short_forms import short_function
from trilogue.protocols.messages.wire import MCP_SERVER, TOOL_TYPES, TOOL_VERSION


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
            tools.append(_mcp_server(server, fields.path))
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
        return _function(fields)
    # The type ends with a date, which does not change the kind of tool.
    hosted, on_client = TOOL_TYPES.get(TOOL_VERSION.sub("", kind), (HostedKind.OTHER, False))
    if hosted is HostedKind.MCP:
        return _mcp_toolset(fields, value, servers or {})
    common: dict[str, Any] = {"kind": hosted, "native": value, "type": kind, "runs_on_client": on_client, "path": path}
    common["name"] = fields.text("name")
    common["cache"] = take_cache(fields)
    if hosted in (HostedKind.WEB_SEARCH, HostedKind.WEB_FETCH):
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
        # Messages has no approvals: its MCP tools run without asking.
        approval="never",
        path=fields.path,
        cache=take_cache(fields),
        extras=fields.rest(),
    )


def _mcp_server(value: Json, path: str) -> Tool:
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
    names = _names(config, "allowed_tools")
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
