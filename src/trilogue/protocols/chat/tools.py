"""Tools in both directions: definitions, the choice among them, and the calls of complete responses.

The deprecated `functions` and `function_call` are read as tools and their choice; `web_search_options` is the only
hosted tool of this protocol. Servers leave out the type or the id of a call, send the object of the other kind next to
that of the call, or send arguments as an object. Calls that stream in are in `stream_assembly.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.base.json_text import dump_text
from trilogue.errors import BadRequest, Unsupported, UpstreamProtocolError
from trilogue.model import (
    CallKind,
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
    ToolCall,
    ToolChoice,
    ToolRef,
)
from trilogue.protocols.chat.content import read_cache
from trilogue.protocols.chat.fast_decode import short_function
from trilogue.protocols.chat.reasoning import entries
from trilogue.protocols.chat.wire import CALL_KINDS, MAX_CALL_ID, PROTOCOL, WEB_SEARCH
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fields import Fields, Kinds, LooseFields, restore_extras, sort_fields
from trilogue.protocols.openai.schema import fits_strict, parameters_of
from trilogue.protocols.parts import read_location, safe_call_id, write_location
from trilogue.protocols.stream.response_context import ResponseContext

TOOL_FIELDS = ("tools", "functions", WEB_SEARCH)
# Mistral has "any" where OpenAI has "required".
_CHOICE_MODES = {
    "auto": ChoiceMode.AUTO,
    "none": ChoiceMode.NONE,
    "required": ChoiceMode.REQUIRED,
    "any": ChoiceMode.REQUIRED,
}
_CHOICE_MODE_NAMES = {ChoiceMode.AUTO: "auto", ChoiceMode.NONE: "none", ChoiceMode.REQUIRED: "required"}
CHOICE_FIELDS = ("tool_choice", "function_call")
ARGUMENTS = {CallKind.FUNCTION: "arguments", CallKind.CUSTOM: "input"}
CALL: Kinds = {"id": str, **dict.fromkeys(("type", "index", "custom", "function"), object)}
CALL_BODY: Kinds = {"name": str, "arguments": object, "input": object}


def decode_tools(fields: Fields, _: object) -> tuple[Tool, ...]:
    """Return all tools of a request, from the three fields that can have them."""
    tools = [_decode_tool(tool, f"tools[{index}]") for index, tool in enumerate(fields.items("tools") or ())]
    if "functions" in fields.left:
        for index, function in enumerate(fields.items("functions") or ()):
            tools.append(_decode_function(Fields(function, f"functions[{index}]"), Fields({}, f"functions[{index}]")))
    if WEB_SEARCH in fields.left and (search := fields.mapping(WEB_SEARCH)) is not None:
        tools.append(_decode_web_search(search))
    return tuple(tools)


def _decode_tool(tool: Json, path: str) -> Tool:
    short = short_function(tool, path) if FAST_PATHS.on else None
    if short is not None:
        return short
    fields = Fields(tool, path)
    kind = fields.any("type")
    if kind == "custom" and isinstance(tool.get("custom"), dict):
        return _decode_custom(Fields(fields.any("custom"), fields.at("custom")), fields)
    # Some clients leave out the type.
    if kind in (None, "function") and isinstance(tool.get("function"), dict):
        return _decode_function(Fields(fields.any("function"), fields.at("function")), fields)
    if isinstance(kind, str) and kind not in CALL_KINDS:
        return _decode_hosted(fields, kind, tool)
    raise BadRequest(f"{path} is not a tool: it needs `type` and the object of that name", path=path)


def _decode_function(inner: Fields, outer: Fields) -> FunctionTool:
    return FunctionTool(
        name=inner.filled("name"),
        description=inner.text("description"),
        parameters=inner.mapping("parameters"),
        strict=inner.flag("strict"),
        path=outer.path,
        cache=read_cache(outer),
        extras=_rest(outer, "function", inner),
    )


def _decode_custom(inner: Fields, outer: Fields) -> CustomTool:
    name, description = inner.filled("name"), inner.text("description")
    syntax, grammar = None, None
    form = inner.fields("format")
    if form is not None and form.any("type") == "grammar":
        detail = Fields(form.any("grammar"), form.at("grammar"))
        syntax, grammar = detail.text("syntax"), detail.text("definition")
        form.keep("grammar", detail)
        inner.keep("format", form)
    # Text is the default format; only its unknown fields matter.
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


_OPENROUTER = {
    "openrouter:web_search": HostedKind.WEB_SEARCH,
    "openrouter:web_fetch": HostedKind.WEB_FETCH,
    "openrouter:advisor": HostedKind.ADVISOR,
}
"""tools that OpenRouter runs for any model"""


def _decode_hosted(fields: Fields, kind: str, native: dict[str, Json]) -> HostedTool:
    tool = HostedTool(kind=_OPENROUTER.get(kind, HostedKind.OTHER), native=native, type=kind, path=fields.path)
    if tool.kind not in (HostedKind.WEB_SEARCH, HostedKind.WEB_FETCH):
        return tool
    given = fields.fields("parameters") or LooseFields({})
    place = given.fields("user_location")
    location = read_location(place) if place else None
    if place is not None:
        place.any("type")
        given.keep("user_location", place)
    return replace(
        tool,
        allowed_domains=_names(given, "allowed_domains"),
        blocked_domains=_names(given, "excluded_domains"),
        max_uses=given.integer("max_uses"),
        context_size=given.text("search_context_size"),
        location=location,
        extras=_rest(fields, "parameters", given),
    )


def _names(fields: Fields, name: str) -> tuple[str, ...] | None:
    values = fields.items(name)
    return None if values is None else tuple(value for value in values if isinstance(value, str))


def _decode_web_search(options: dict[str, Json]) -> HostedTool:
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


def decode_choice(fields: Fields, _: object) -> ToolChoice | None:
    """Return the tool choice from `tool_choice` or the deprecated `function_call`; None if there is none."""
    for name, kind in (("tool_choice", "function"), ("function_call", "")):
        value = fields.any(name)
        if isinstance(value, str):
            if value not in _CHOICE_MODES:
                raise BadRequest(f"{name} must be none, auto, required or an object", path=name)
            return ToolChoice(mode=_CHOICE_MODES[value], path=name)
        if isinstance(value, dict):
            return _choice_object(value, name) if kind else _named_choice(value, name)
        if value is not None:
            raise BadRequest(f"{name} must be a string or an object", path=name)
    return None


def _choice_object(value: dict[str, Json], path: str) -> ToolChoice:
    kind = value.get("type", "function")
    if kind == "allowed_tools":
        return _allowed_choice(Fields(value, path))
    if isinstance(kind, str) and kind in CALL_KINDS:
        return _named_choice(value, path)
    return ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(hosted=HostedKind.OTHER, native=value), path=path)


def _named_choice(value: dict[str, Json], path: str) -> ToolChoice:
    return ToolChoice(mode=ChoiceMode.NAMED, tool=_decode_reference(value, path), path=path)


def _allowed_choice(fields: Fields) -> ToolChoice:
    fields.any("type")
    inner = Fields(fields.any("allowed_tools"), fields.at("allowed_tools"))
    mode = _CHOICE_MODES.get(inner.text("mode") or "auto", ChoiceMode.AUTO)
    tools = enumerate(inner.items("tools") or ())
    allowed = tuple([_decode_reference(tool, f"{inner.at('tools')}[{index}]") for index, tool in tools])
    fields.keep("allowed_tools", inner)
    return ToolChoice(
        mode=ChoiceMode.ALLOWED, allowed=allowed, allowed_mode=mode, path=fields.path, extras=fields.rest()
    )


def _decode_reference(value: Json, path: str) -> ToolRef:
    fields = Fields(value, path)
    kind = fields.any("type") or "function"
    if not isinstance(kind, str) or kind not in CALL_KINDS:
        return ToolRef(hosted=HostedKind.OTHER, native=value)
    inner = fields.fields(kind)
    # Some clients write the name flat, as Responses does.
    name = (inner if inner is not None else fields).filled("name")
    fields.keep(kind, inner)
    return ToolRef(name=name, kind=CALL_KINDS[kind], path=path, extras=fields.rest())


def encode_choice(choice: ToolChoice, offered: bool, out: EncodingContext) -> dict[str, Json]:
    """Return `tool_choice` as a field of the body; empty if it has no form here.

    `offered`: whether the request has tools. OpenAI and compatible servers refuse a choice without any.
    """
    # OpenAI and compatible servers refuse tool_choice without tools.
    if not offered and not out.native:
        if choice.mode not in (ChoiceMode.AUTO, ChoiceMode.NONE):
            out.ledger.add("tool_choice.dropped", choice.path)
        return {}
    if choice.mode in _CHOICE_MODE_NAMES:
        return {"tool_choice": _CHOICE_MODE_NAMES[choice.mode]}
    if choice.mode is ChoiceMode.ALLOWED:
        return {"tool_choice": _encode_allowed(choice, out)}
    wire = _encode_reference(choice.tool, out) if choice.tool is not None else None
    if wire is None:
        out.ledger.add("tool_choice.dropped", choice.path)
        return {}
    return {"tool_choice": wire}


def _encode_allowed(choice: ToolChoice, out: EncodingContext) -> Json:
    mode = _CHOICE_MODE_NAMES.get(choice.allowed_mode, "auto")
    # Only OpenAI's servers have allowed_tools; elsewhere the other tools are not offered at all.
    if not (out.native or out.profile.openai_fields):
        return mode
    tools = [wire for ref in choice.allowed if (wire := _encode_reference(ref, out)) is not None]
    allowed: dict[str, Json] = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
    if out.native and choice.extras:
        restore_extras(allowed, choice.extras)
    return allowed


def _encode_reference(ref: ToolRef, out: EncodingContext) -> dict[str, Json] | None:
    if ref.hosted is not None:
        return ref.native if out.native else None
    wire: dict[str, Json] = {"type": ref.kind.value, ref.kind.value: {"name": ref.name}}
    if out.native and ref.extras:
        restore_extras(wire, ref.extras)
    return wire


def arguments_text(value: Json) -> str:
    """Return arguments as the string that they should be; some servers send an object."""
    # Ollama sends an object.
    return value if isinstance(value, str) else "" if value is None else dump_text(value)


def kind_of(custom: Json, function: Json) -> CallKind:
    """Return the kind of a call. Some servers send both objects, one of them empty."""
    if not isinstance(custom, dict):
        return CallKind.FUNCTION
    is_function = isinstance(function, dict) and (any(function.values()) or not any(custom.values()))
    return CallKind.FUNCTION if is_function else CallKind.CUSTOM


def read_call(call: Json, fallback_id: str, path: str) -> ToolCall | None:
    """Return one tool call; None for the empty one that some servers always send.

    Raises `UpstreamProtocolError` if a call has arguments and no name.
    """
    fields, rest = sort_fields(call, CALL)
    # Qwen sends an empty id, others none at all.
    call_id = fields["id"] or fallback_id
    kind = kind_of(fields["custom"], fields["function"])
    inner, inner_rest = sort_fields(fields[kind], CALL_BODY)
    name, arguments = inner["name"] or "", arguments_text(inner[ARGUMENTS[kind]])
    if not name:
        if arguments:
            # Arguments without a name cannot be run, and dropping them would hide a broken response.
            raise UpstreamProtocolError("a tool call has no name")
        return None
    # Some models write null for a tool without parameters.
    if kind is CallKind.FUNCTION and arguments.strip() == "null":
        arguments = ""
    if inner_rest:
        rest |= dotted(kind, inner_rest)
    return ToolCall(id=call_id, name=name, arguments=arguments, kind=kind, path=path, extras=rest or None)


def dotted(kind: CallKind, inner_rest: dict[str, Json]) -> dict[str, Json]:
    """Return the unread fields of the object inside a call as extras, by dotted names."""
    return {f"{kind.value}.{name}": value for name, value in inner_rest.items()}


def call_id_of(call: ToolCall, context: ResponseContext) -> str:
    """Return the id of a call as Chat clients get it. Ids of Chat upstreams go back there, so they stay unchanged."""
    return call.id if context.source is PROTOCOL else safe_call_id(call.id, MAX_CALL_ID)


def takes_custom(name: str, context: ResponseContext) -> bool:
    """Return whether the client declared this tool as one that takes free text; True if its request is unknown."""
    if not context.body:
        return True
    tools = entries(context.body.get("tools"))
    names = (tool["custom"].get("name") for tool in tools if isinstance(tool.get("custom"), dict))
    return name in names


def encode_call(call: ToolCall, context: ResponseContext) -> dict[str, Json]:
    """Return one tool call as a wire object; free text has the form in which the client declared the tool."""
    head = {"id": call_id_of(call, context), "type": "function"}
    if call.kind is CallKind.FUNCTION:
        # Clients parse the arguments as JSON, so an empty string would be an error.
        body = {**head, "function": {"name": call.name, "arguments": call.arguments or "{}"}}
    elif context.source is PROTOCOL or takes_custom(call.name, context):
        body = {**head, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    else:
        context.ledger.add("tool.custom_emulated", call.path)
        body = {**head, "function": {"name": call.name, "arguments": dump_text({"input": call.arguments})}}
    # Gemini's signature is such an extra, and must come back with the call.
    if context.source is PROTOCOL and call.extras:
        restore_extras(body, call.extras)
    return body
