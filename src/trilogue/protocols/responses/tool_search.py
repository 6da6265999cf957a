"""Tool search that the provider runs, as clients of this protocol know it, for upstreams without one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trilogue.base.json_text import dump_text
from trilogue.model import Block, HostedTool, Json, Native
from trilogue.protocols.content.tool_search import (
    ABOUT,
    AnsweredSearch,
    FoundTool,
    FoundToolsResult,
    SearchCall,
    SearchFunction,
    ToolKey,
    ToolSearchForm,
    Wire,
)
from trilogue.protocols.fields.reader import LooseFields

_CALL, _OUTPUT = "tool_search_call", "tool_search_output"
_QUERY = "What the tools should do, in a few words, or the name of a namespace to get all of its tools."


def function(tool: HostedTool) -> SearchFunction:
    """Return the function that replaces the search."""
    return SearchFunction(
        name="tool_search",
        argument="query",
        description=LooseFields(tool.native).text("description") or ABOUT,
        parameters={
            "type": "object",
            "properties": {"query": {"type": "string", "description": _QUERY}},
            "required": ["query"],
        },
    )


def _is_server(block: Block, kind: str) -> bool:
    # An item without `execution` is one of the client.
    return type(block) is Native and block.type == kind and block.data.get("execution") == "server"


def call(block: Block) -> SearchCall | None:
    """Return a search of the history."""
    if type(block) is not Native or not _is_server(block, _CALL):
        return None
    fields = LooseFields(block.data)
    given = fields.mapping("arguments")
    return SearchCall(fields.text("call_id") or fields.text("id") or "", dump_text(given or {}))


def result(block: Block) -> FoundToolsResult | None:
    """Return the result of a search of the history."""
    if type(block) is not Native or not _is_server(block, _OUTPUT):
        return None
    tools = tuple(_keys(block.data.get("tools")))
    failed = not tools and block.data.get("status") == "incomplete"
    return FoundToolsResult(tools, "the search failed" if failed else "")


def _keys(tools: Json) -> Iterator[ToolKey]:
    for tool in tools if isinstance(tools, list) else []:
        fields = LooseFields(tool)
        name = fields.text("name") or ""
        if fields.text("type") == "namespace":
            inner = [LooseFields(one).text("name") for one in fields.items("tools") or ()]
            yield from [(name, one) for one in inner if one]
        elif name:
            yield None, name


def blocks(search: AnsweredSearch) -> tuple[Block, Block]:
    """Return a search with its result."""
    where: Wire = {"call_id": None, "execution": "server"}
    asked: Wire = {"type": _CALL, "id": f"tsc_{search.id}", "arguments": search.arguments, "status": "completed"}
    status = "incomplete" if search.error else "completed"
    output: Wire = {"type": _OUTPUT, "id": f"tso_{search.id}", "tools": _written(search.tools), "status": status}
    return (
        Native(type=_CALL, data={**asked, **where}, for_client=True, harmless=True),
        Native(type=_OUTPUT, data={**output, **where}, for_client=True, harmless=True),
    )


def _written(tools: Iterable[FoundTool]) -> list[Json]:
    """Return definitions as the client has sent them, with those of a namespace in one group."""
    written: list[Json] = []
    groups: dict[str, Wire] = {}
    for tool in tools:
        if tool.namespace is None:
            written.append(tool.wire)
            continue
        if tool.namespace not in groups:
            groups[tool.namespace] = {**tool.group, "tools": []}
            written.append(groups[tool.namespace])
        groups[tool.namespace]["tools"].append(tool.wire)
    return written


def continued(request: Wire, response: Wire) -> Wire:
    """Return a request with the items of the response so far at its end."""
    given = request.get("input")
    items = given if isinstance(given, list) else [{"role": "user", "content": given or ""}]
    return {**request, "input": [*items, *response["output"]]}


TOOL_SEARCH = ToolSearchForm(function=function, call=call, result=result, blocks=blocks, continued=continued)
