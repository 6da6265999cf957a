"""Tool definitions ↔ `Tool`. Tool choice is `choice.py`.

The deprecated `functions` are read as tools and written as tools. `web_search_options` is the one hosted tool of this
protocol.
"""

from __future__ import annotations

from collections.abc import Callable

from trilogue.errors import BadRequest, Unsupported
from trilogue.model import (
    ChoiceMode,
    CustomTool,
    Extras,
    FunctionTool,
    HostedKind,
    HostedTool,
    Json,
    Protocol,
    Request,
    Tool,
)
from trilogue.protocols.chat.choice import encode_choice
from trilogue.protocols.chat.decode_content import read_cache
from trilogue.protocols.chat.wire import CALL_KINDS
from trilogue.protocols.extras import restore_extras
from trilogue.protocols.fields import Fields, LooseFields
from trilogue.protocols.location import read_location, write_location
from trilogue.protocols.openai_schema import fits_strict, parameters_of
from trilogue.protocols.outgoing import Outgoing

WEB_SEARCH = "web_search_options"


TOOL_FIELDS = ("tools", "functions", WEB_SEARCH)


def decode_tools(fields: Fields, _: object) -> tuple[Tool, ...]:
    """All tools of a request, wherever it lists them."""
    tools = [_decode_tool(tool, f"tools[{index}]") for index, tool in enumerate(fields.items("tools") or ())]
    if "functions" in fields.left:
        for index, function in enumerate(fields.items("functions") or ()):
            tools.append(_function(Fields(function, f"functions[{index}]"), Fields({}, f"functions[{index}]")))
    if WEB_SEARCH in fields.left and (search := fields.mapping(WEB_SEARCH)) is not None:
        tools.append(_web_search(search))
    return tuple(tools)


def _decode_tool(tool: Json, path: str) -> Tool:
    short = _short_function(tool, path)
    if short is not None:
        return short
    fields = Fields(tool, path)
    kind = fields.any("type")
    if kind == "custom" and isinstance(tool.get("custom"), dict):
        return _custom(Fields(fields.any("custom"), fields.at("custom")), fields)
    if kind in (None, "function") and isinstance(tool.get("function"), dict):
        return _function(Fields(fields.any("function"), fields.at("function")), fields)
    if isinstance(kind, str) and kind not in CALL_KINDS:
        return HostedTool(kind=HostedKind.OTHER, native=tool, type=kind, path=path)
    raise BadRequest(f"{path} is not a tool: it needs `type` and the object of that name", path=path)


_PLAIN = {"name", "description", "parameters"}


def _short_function(tool: Json, path: str) -> Tool | None:
    """The short way for a function in its usual form; None if there is more to it."""
    function = tool.get("function") if type(tool) is dict and len(tool) == 2 else None
    if type(function) is not dict or function.keys() != _PLAIN or tool.get("type") != "function":
        return None
    name, description, schema = function["name"], function["description"], function["parameters"]
    if not name or not (type(name) is type(description) is str) or type(schema) is not dict:
        return None
    return FunctionTool(name=name, description=description, parameters=schema, path=path)


def _function(inner: Fields, outer: Fields) -> FunctionTool:
    return FunctionTool(
        name=inner.filled("name"),
        description=inner.text("description"),
        parameters=inner.mapping("parameters"),
        strict=inner.flag("strict"),
        path=outer.path,
        cache=read_cache(outer),
        extras=_rest(outer, "function", inner),
    )


def _custom(inner: Fields, outer: Fields) -> CustomTool:
    name, description = inner.filled("name"), inner.text("description")
    syntax, grammar = None, None
    form = inner.fields("format")
    if form is not None and form.any("type") == "grammar":
        detail = Fields(form.any("grammar"), form.at("grammar"))
        syntax, grammar = detail.text("syntax"), detail.text("definition")
        form.keep("grammar", detail)
        inner.keep("format", form)
    elif form is not None and form.left:
        inner.put_back("format", {"type": "text", **form.left})
    return CustomTool(
        name=name,
        description=description,
        syntax=syntax,
        grammar=grammar,
        path=outer.path,
        cache=read_cache(outer),
        extras=_rest(outer, "custom", inner),
    )


def _rest(outer: Fields, name: str, inner: Fields) -> Extras:
    outer.keep(name, inner)
    return outer.rest()


def _web_search(options: dict[str, Json]) -> HostedTool:
    fields = LooseFields(options, WEB_SEARCH)
    size = fields.text("search_context_size")
    place = fields.fields("user_location") or LooseFields({})
    where = place.fields("approximate") or LooseFields({})
    location = read_location(where)
    place.any("type")
    place.keep("approximate", where)
    fields.keep("user_location", place)
    return HostedTool(
        kind=HostedKind.WEB_SEARCH,
        native=options,
        type=WEB_SEARCH,
        context_size=size,
        location=location,
        path=WEB_SEARCH,
        extras=fields.rest(),
    )


def encode_tools(request: Request, out: Outgoing) -> dict[str, Json]:
    """The fields that offer tools: `tools`, `web_search_options`, `tool_choice`, `parallel_tool_calls`."""
    offered = _filtered(request, out)
    searches = [tool for tool in offered if type(tool) is HostedTool and tool.kind is HostedKind.WEB_SEARCH]
    body: dict[str, Json] = {}
    tools = [wire for tool in offered if (wire := _encode_tool(tool, out)) is not None]
    if tools:
        body["tools"] = tools
    if searches:
        body.update(_encode_search(searches[0], bool(tools), out))
        for other in searches[1:]:
            out.ledger.add("tool.hosted_dropped", other.path, other.type)
    if request.tool_choice is not None:
        body |= encode_choice(request.tool_choice, bool(tools), out)
    # OpenAI answers 400 to this field without tools.
    if request.parallel_tools is not None and (tools or out.native):
        body["parallel_tool_calls"] = request.parallel_tools
    return body


def _filtered(request: Request, out: Outgoing) -> tuple[Tool, ...]:
    """Servers that do not know `allowed_tools` are only told of the tools that are allowed."""
    choice = request.tool_choice
    if choice is None or choice.mode is not ChoiceMode.ALLOWED or out.native or out.profile.openai_fields:
        return request.tools
    out.ledger.add("tool_choice.allowed_filtered", choice.path)
    names = {ref.name for ref in choice.allowed}
    return tuple(
        tool for tool in request.tools if not isinstance(tool, FunctionTool | CustomTool) or tool.name in names
    )


def _encode_tool(tool: Tool, out: Outgoing) -> dict[str, Json] | None:
    if isinstance(tool, HostedTool):
        if tool.kind is HostedKind.WEB_SEARCH and (not out.native or tool.type == WEB_SEARCH):
            return None
        if out.native:
            return tool.native
        out.ledger.add("tool.hosted_dropped", tool.path, tool.type)
        return None
    if not out.native:
        _declare(tool, out)
    return _ENCODERS[type(tool)](tool, out)


def _declare(tool: Tool, out: Outgoing) -> None:
    """The marks on a tool that Chat has no name for."""
    if tool.cache is not None:
        out.ledger.add("cache.tool_mark", tool.path)
    if getattr(tool, "deferred", None):
        out.ledger.add("tool.defer_loading", tool.path)
    if tool.added_at is not None:
        out.ledger.add("tool.timing", tool.path)


def _encode_function(tool: FunctionTool, out: Outgoing) -> dict[str, Json]:
    function: dict[str, Json] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.parameters is not None:
        function["parameters"] = tool.parameters if out.native else parameters_of(tool.parameters)
    strict = tool.strict if out.native else _strict(tool, out)
    if strict is not None:
        function["strict"] = strict
    return _with_extras({"type": "function", "function": function}, tool, out)


def _strict(tool: FunctionTool, out: Outgoing) -> bool | None:
    """False is the default here and not written. Responses' default is to try, which Chat cannot say."""
    if tool.strict is None and out.source is Protocol.RESPONSES:
        out.ledger.add("tool.strict_default", tool.path)
    if not tool.strict:
        return None
    if out.profile.strict_tools and (out.source is Protocol.RESPONSES or fits_strict(tool.parameters)):
        return True
    out.ledger.add("tool.strict_downgraded", tool.path)
    return None


def _encode_custom(tool: CustomTool, out: Outgoing) -> dict[str, Json]:
    custom: dict[str, Json] = {"name": tool.name}
    if tool.description is not None:
        custom["description"] = tool.description
    if tool.grammar is not None:
        grammar = {"syntax": tool.syntax or "lark", "definition": tool.grammar}
        custom["format"] = {"type": "grammar", "grammar": grammar}
    return _with_extras({"type": "custom", "custom": custom}, tool, out)


def _with_extras(wire: dict[str, Json], tool: Tool, out: Outgoing) -> dict[str, Json]:
    if out.native and tool.extras:
        restore_extras(wire, tool.extras)
    return wire


_ENCODERS: dict[type[Tool], Callable[..., dict[str, Json]]] = {
    FunctionTool: _encode_function,
    CustomTool: _encode_custom,
}


def _encode_search(tool: HostedTool, others: bool, out: Outgoing) -> dict[str, Json]:
    if out.native:
        return {WEB_SEARCH: tool.native}
    if not out.profile.web_search:
        if not others:
            # Nothing else is offered: the client relies on it.
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
