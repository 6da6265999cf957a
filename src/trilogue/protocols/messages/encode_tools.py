"""Tool definitions of a request, written from `Tool` structs. Tool choice is in `choice.py`.

Whether a model has a hosted tool is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trilogue.errors import InternalError, Unsupported
from trilogue.model import ChoiceMode, FunctionTool, HostedKind, HostedTool, Json, Protocol, Request, Tool
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.content.parts import write_location
from trilogue.protocols.messages.choice import encode_choice
from trilogue.protocols.messages.controls import Marks
from trilogue.protocols.messages.wire import MCP_SERVER


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
