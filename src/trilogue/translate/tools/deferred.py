"""Deferred tools that have been found: they are offered like any other tool.

A Messages client adds a tool with a `tool_addition`, or names it in the result of a search that it ran itself. In other
protocols, a deferred tool can only be found by the provider's own search.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from trilogue.model import FunctionTool, Json, Ledger, Native, Request, Tool, ToolResult
from trilogue.protocols.content.parts import TOOL_NAME, TOOL_REFERENCE

_ADDITION = "tool_addition"


def offer_found(request: Request, ledger: Ledger) -> Request:
    """Return the request with every tool that was found in the history no longer deferred."""
    # Deferred tools are rare; do not search the history without any.
    if not any(type(tool) is FunctionTool and tool.deferred for tool in request.tools):
        return request
    names = set(_found(request))
    return replace(request, tools=tuple(_offered(tool, names, ledger) for tool in request.tools))


def _offered(tool: Tool, names: set[str], ledger: Ledger) -> Tool:
    if type(tool) is not FunctionTool or not tool.deferred or tool.name not in names:
        return tool
    ledger.add("tool.timing", tool.path)
    return replace(tool, deferred=None)


def _found(request: Request) -> Iterator[str]:
    for turn in request.turns:
        for block in turn.blocks:
            if type(block) is Native and block.type == _ADDITION:
                yield from _named(block.data.get("tool"))
            elif type(block) is ToolResult:
                for part in block.content:
                    if type(part) is Native and part.type == TOOL_REFERENCE:
                        yield from _named(part.data)


def _named(reference: Json) -> Iterator[str]:
    if isinstance(reference, dict) and reference.get("type") == TOOL_REFERENCE:
        for name in (TOOL_NAME, "name"):
            if isinstance(reference.get(name), str):
                yield reference[name]
