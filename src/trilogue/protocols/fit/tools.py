"""Tools as the model takes them: their schemas, how many are strict, and whether they may be called in parallel."""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.model import FunctionTool, Request, Tool
from trilogue.profiles import Profile
from trilogue.protocols.fit.schemas import fits_closed, fits_strict, is_plain_object, plain_object
from trilogue.protocols.outgoing import Outgoing


def fit_tools(request: Request, out: Outgoing) -> Request:
    """Return the request with tools and tool settings that the model takes."""
    if request.parallel_tools is not None and not out.profile.parallel_tools:
        if not request.parallel_tools:
            out.ledger.add("param.dropped", request.where("parallel_tools"))
        request = replace(request, parallel_tools=None)
    tools = tuple([_plain(tool, out) for tool in request.tools])
    tools = _strict(tools, out)
    return request if all(map(_same, tools, request.tools)) else replace(request, tools=tools)


def _same(one: Tool, other: Tool) -> bool:
    return one is other


def _plain(tool: Tool, out: Outgoing) -> Tool:
    if type(tool) is not FunctionTool or tool.parameters is None or not out.profile.plain_tool_schemas:
        return tool
    if is_plain_object(tool.parameters):
        return tool
    out.ledger.add("schema.transformed", tool.path, tool.name)
    return replace(tool, parameters=plain_object(tool.parameters))


def _strict(tools: tuple[Tool, ...], out: Outgoing) -> tuple[Tool, ...]:
    """Return the tools with no more strict ones than the model takes, the first ones, and only such as can be."""
    profile, fitted, count = out.profile, list(tools), 0
    for place, tool in enumerate(tools):
        if type(tool) is not FunctionTool or not tool.strict:
            continue
        full = profile.max_strict_tools is not None and count >= profile.max_strict_tools
        if full or not _can_be_strict(tool, profile):
            out.ledger.add("tool.strict_downgraded", tool.path, tool.name)
            fitted[place] = replace(tool, strict=False)
        else:
            count += 1
    return tuple(fitted)


def _can_be_strict(tool: FunctionTool, profile: Profile) -> bool:
    """Tell whether strict mode takes a tool's schema as it is: nobody but its author may change what it allows."""
    if not profile.strict_tools:
        return False
    if profile.strict_schemas and not fits_strict(tool.parameters):
        return False
    return not profile.closed_schemas or fits_closed(tool.parameters)
