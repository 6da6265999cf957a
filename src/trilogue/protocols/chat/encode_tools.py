"""Tool definitions of a request, written from `Tool` structs. Tool choice is in `choice.py`."""

from __future__ import annotations

from collections.abc import Callable

from trilogue.errors import Unsupported
from trilogue.model import ChoiceMode, CustomTool, FunctionTool, HostedKind, HostedTool, Json, Protocol, Request, Tool
from trilogue.protocols.chat.choice import encode_choice
from trilogue.protocols.chat.wire import WEB_SEARCH
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.content.parts import write_location
from trilogue.protocols.fields.extras import restore_extras
from trilogue.protocols.openai.schema import fits_strict, parameters_of


def encode_tools(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the fields for tools: `tools`, `web_search_options`, `tool_choice`, `parallel_tool_calls`."""
    offered = _filtered(request, out)
    searches = [tool for tool in offered if type(tool) is HostedTool and _is_search(tool, out)]
    body: dict[str, Json] = {}
    tools = [wire for tool in offered if (wire := _encode_tool(tool, out)) is not None]
    if tools:
        body["tools"] = tools
    if searches:
        # Chat has one search, as an option of the request.
        body.update(_encode_search(searches[0], bool(tools), out))
        for other in searches[1:]:
            out.ledger.add("tool.hosted_dropped", other.path, other.type)
    if request.tool_choice is not None:
        body |= encode_choice(request.tool_choice, bool(tools), out)
    # OpenAI refuses this field without tools.
    if request.parallel_tools is not None and (tools or out.native):
        body["parallel_tool_calls"] = request.parallel_tools
    return body


def _is_search(tool: HostedTool, out: EncodingContext) -> bool:
    """Return whether a tool is written as `web_search_options`; those of compatible servers are in `tools`."""
    return tool.kind is HostedKind.WEB_SEARCH and (not out.native or tool.type == WEB_SEARCH)


def _filtered(request: Request, out: EncodingContext) -> tuple[Tool, ...]:
    """Return the tools to offer: only the allowed ones if the server does not have `allowed_tools`."""
    choice = request.tool_choice
    if choice is None or choice.mode is not ChoiceMode.ALLOWED or out.native or out.profile.openai_fields:
        return request.tools
    out.ledger.add("tool_choice.allowed_filtered", choice.path)
    names = {ref.name for ref in choice.allowed}
    return tuple(
        tool for tool in request.tools if not isinstance(tool, FunctionTool | CustomTool) or tool.name in names
    )


def _encode_tool(tool: Tool, out: EncodingContext) -> dict[str, Json] | None:
    if isinstance(tool, HostedTool):
        if _is_search(tool, out):
            return None
        if out.native:
            return tool.native
        out.ledger.add("tool.hosted_dropped", tool.path, tool.type)
        return None
    if not out.native:
        _declare(tool, out)
    return _ENCODERS[type(tool)](tool, out)


def _declare(tool: Tool, out: EncodingContext) -> None:
    """Declare the marks on a tool that Chat has no field for."""
    if tool.cache is not None:
        out.ledger.add("cache.tool_mark", tool.path)
    if getattr(tool, "deferred", None):
        out.ledger.add("tool.defer_loading", tool.path)
    if tool.added_at is not None:
        out.ledger.add("tool.timing", tool.path)


def _encode_function(tool: FunctionTool, out: EncodingContext) -> dict[str, Json]:
    function: dict[str, Json] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.parameters is not None:
        # MCP tools without parameters must become an object with `properties`.
        function["parameters"] = tool.parameters if out.native else parameters_of(tool.parameters)
    strict = tool.strict if out.native else _strict(tool, out)
    if strict is not None:
        function["strict"] = strict
    return _with_extras({"type": "function", "function": function}, tool, out)


def _strict(tool: FunctionTool, out: EncodingContext) -> bool | None:
    """Return `strict` for a tool from another protocol; None for false, which is the default.

    Responses tries strict mode by default, which Chat cannot express.
    """
    if tool.strict is None and out.source is Protocol.RESPONSES:
        out.ledger.add("tool.strict_default", tool.path)
    if not tool.strict:
        return None
    if out.source is Protocol.RESPONSES or fits_strict(tool.parameters):
        return True
    out.ledger.add("tool.strict_downgraded", tool.path)
    return None


def _encode_custom(tool: CustomTool, out: EncodingContext) -> dict[str, Json]:
    custom: dict[str, Json] = {"name": tool.name}
    if tool.description is not None:
        custom["description"] = tool.description
    if tool.grammar is not None:
        grammar = {"syntax": tool.syntax or "lark", "definition": tool.grammar}
        custom["format"] = {"type": "grammar", "grammar": grammar}
    return _with_extras({"type": "custom", "custom": custom}, tool, out)


def _with_extras(wire: dict[str, Json], tool: Tool, out: EncodingContext) -> dict[str, Json]:
    if out.native and tool.extras:
        restore_extras(wire, tool.extras)
    return wire


_ENCODERS: dict[type[Tool], Callable[..., dict[str, Json]]] = {
    FunctionTool: _encode_function,
    CustomTool: _encode_custom,
}


def _encode_search(tool: HostedTool, others: bool, out: EncodingContext) -> dict[str, Json]:
    if out.native:
        return {WEB_SEARCH: tool.native}
    if not out.profile.web_search:
        if not others:
            # No other tool is offered, so the client relies on this one.
            raise Unsupported(tool.path, "the model has no web search")
        out.ledger.add("tool.hosted_dropped", tool.path, tool.type)
        return {}
    for name in ("allowed_domains", "blocked_domains", "max_uses"):
        if getattr(tool, name) is not None:
            out.ledger.add("web_search.params", f"{tool.path}.{name}")
    options: dict[str, Json] = {}
    if tool.context_size is not None:
        options["search_context_size"] = tool.context_size
    if tool.location is not None:
        options["user_location"] = {"type": "approximate", "approximate": write_location(tool.location)}
    return {WEB_SEARCH: options}
