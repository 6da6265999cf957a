"""Tool search that the provider runs, as clients of this protocol know it, for upstreams without one."""

from __future__ import annotations

from trilogue.base.json_text import dump_text
from trilogue.model import Block, HostedCall, HostedKind, HostedResult, HostedTool
from trilogue.protocols.content.tool_search import (
    ABOUT,
    AnsweredSearch,
    FoundToolsResult,
    SearchCall,
    SearchFunction,
    ToolSearchForm,
    Wire,
)
from trilogue.protocols.fields.reader import LooseFields
from trilogue.protocols.messages.hosted import OWN_CALL
from trilogue.protocols.messages.wire import TOOL_VERSION

_REGEX = "tool_search_tool_regex"
_WORDS = "tool_search_tool_bm25"


def function(tool: HostedTool) -> SearchFunction:
    """Return the function that replaces a search."""
    kind = TOOL_VERSION.sub("", tool.type)
    if kind == _REGEX:
        argument, what = "pattern", "A Python regular expression, at most 200 characters, such as weather|forecast."
        what += " It distinguishes upper and lower case; begin with (?i) to ignore that."
    else:
        argument, what = "query", "What the tool should do, in a few words."
    fields: Wire = {argument: {"type": "string", "description": what}}
    return SearchFunction(
        name=tool.name or kind,
        argument=argument,
        description=ABOUT,
        parameters={"type": "object", "properties": fields, "required": [argument]},
        pattern=kind == _REGEX,
    )


def call(block: Block) -> SearchCall | None:
    """Return a search of the history."""
    if type(block) is not HostedCall or block.tool is not HostedKind.TOOL_SEARCH:
        return None
    return SearchCall(block.id, block.input or "{}")


def result(block: Block) -> FoundToolsResult | None:
    """Return the result of a search of the history."""
    if type(block) is not HostedResult or block.tool is not HostedKind.TOOL_SEARCH:
        return None
    if block.error is not None:
        return FoundToolsResult(error=block.error)
    content = LooseFields(LooseFields(block.native).mapping("content"))
    names = [LooseFields(one).text("tool_name") for one in content.items("tool_references") or ()]
    return FoundToolsResult(tuple([(None, name) for name in names if name]))


def blocks(search: AnsweredSearch) -> tuple[Block, Block]:
    """Return a search with its result."""
    call_id, kind = f"{OWN_CALL}{search.id}", HostedKind.TOOL_SEARCH
    names = "\n".join(tool.name for tool in search.tools)
    error = f"{search.error}: {search.message}" if search.message else search.error
    return (
        HostedCall(id=call_id, tool=kind, name=search.name, input=dump_text(search.arguments)),
        HostedResult(call_id=call_id, tool=kind, text=names or None, error=error or None),
    )


def continued(request: Wire, response: Wire) -> Wire:
    """Return a request with the turn so far at its end."""
    return {**request, "messages": [*request["messages"], {"role": "assistant", "content": response["content"]}]}


TOOL_SEARCH = ToolSearchForm(function=function, call=call, result=result, blocks=blocks, continued=continued)
