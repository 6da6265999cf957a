"""Deferred tools: those that have been found are offered, those that the client can still find are not.

A Messages client adds a tool with a `tool_addition`, or names it in the result of a search that it ran itself. If it
has such a search, the model sees a deferred tool only once it was found, as at its own provider; found tools come last,
in the order in which they were found, so that the tools of an earlier request are the beginning of the later ones.
Without one, only the provider's own search could find them: then they are offered from the start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from trilogue.model import FunctionTool, HostedKind, HostedTool, Json, Ledger, Native, Request, Tool, ToolResult, Turn
from trilogue.protocols.parts import TOOL_NAME, TOOL_REFERENCE

_ADDITION = "tool_addition"
_SEARCH = re.compile(r"tool_?search|search_?tools?$", re.IGNORECASE)
"""names of functions with which clients find their own tools"""


def offer_found(request: Request, ledger: Ledger) -> Request:
    """Return the request with every tool that was found in the history no longer deferred, after all others.

    Tools that the client may still find are left out.
    """
    # Deferred tools are rare; do not search the history without any.
    if not any([_is_deferred(tool) for tool in request.tools]):
        return request
    found = {name: place for place, name in reversed(list(enumerate(_found(request))))}
    if not _client_searches(request):
        return replace(request, tools=tuple(_offered(tool, found, ledger) for tool in request.tools))
    chosen = request.tool_choice.tool if request.tool_choice is not None else None
    if chosen is not None:
        found.setdefault(chosen.name or "", len(found))
    stay = [tool for tool in request.tools if not _is_deferred(tool)]
    later = [tool for tool in request.tools if isinstance(tool, FunctionTool) and tool.deferred and tool.name in found]
    later.sort(key=lambda tool: found[tool.name])
    return replace(request, tools=(*stay, *[_offered(tool, found, ledger) for tool in later]))


def _is_deferred(tool: Tool) -> bool:
    return type(tool) is FunctionTool and bool(tool.deferred)


def _client_searches(request: Request) -> bool:
    """Return whether the client can find its deferred tools, and the provider is not asked to."""
    if any([type(tool) is HostedTool and tool.kind is HostedKind.TOOL_SEARCH for tool in request.tools]):
        return False
    return any(
        [type(tool) is FunctionTool and not tool.deferred and _SEARCH.search(tool.name) for tool in request.tools]
    )


def _offered(tool: Tool, names: dict[str, int], ledger: Ledger) -> Tool:
    if type(tool) is not FunctionTool or not tool.deferred or tool.name not in names:
        return tool
    ledger.add("tool.timing", tool.path)
    return replace(tool, deferred=None)


def _found(request: Request) -> Iterator[str]:
    for turn in request.turns:
        yield from found_in(turn)


def found_in(turn: Turn) -> Iterator[str]:
    """Yield the names of the tools that a turn of the client has added or found."""
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
