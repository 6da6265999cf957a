"""Tool definitions and tool choice ↔ `Tool` and `ToolChoice`.

The deprecated `functions` and `function_call` are read as tools and written as tools. `web_search_options` is the one
hosted tool of this protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trilogue.errors import BadRequest, Unsupported
from trilogue.model import (
    CallKind,
    ChoiceMode,
    CustomTool,
    FunctionTool,
    HostedKind,
    HostedTool,
    Json,
    Protocol,
    Request,
    Tool,
    ToolChoice,
    ToolRef,
    UserLocation,
)
from trilogue.protocols.chat.content import Writer, read_cache
from trilogue.protocols.fields import Fields, LooseFields

WEB_SEARCH = "web_search_options"

# Mistral says "any" where OpenAI says "required".
_MODES = {
    "auto": ChoiceMode.AUTO,
    "none": ChoiceMode.NONE,
    "required": ChoiceMode.REQUIRED,
    "any": ChoiceMode.REQUIRED,
}
_MODE_NAMES = {ChoiceMode.AUTO: "auto", ChoiceMode.NONE: "none", ChoiceMode.REQUIRED: "required"}
_KINDS = {"function": CallKind.FUNCTION, "custom": CallKind.CUSTOM}


def decode_tools(fields: Fields) -> tuple[Tool, ...]:
    """All tools of a request, wherever it lists them."""
    tools = [_decode_tool(tool, f"tools[{index}]") for index, tool in enumerate(fields.items("tools") or ())]
    for index, function in enumerate(fields.items("functions") or ()):
        tools.append(_function(Fields(function, f"functions[{index}]"), Fields({}, f"functions[{index}]")))
    search = fields.mapping(WEB_SEARCH)
    if search is not None:
        tools.append(_web_search(search))
    return tuple(tools)


def _decode_tool(tool: Json, path: str) -> Tool:
    fields = Fields(tool, path)
    kind = fields.any("type")
    if kind == "custom" and isinstance(tool.get("custom"), dict):
        return _custom(Fields(fields.any("custom"), fields.at("custom")), fields)
    if kind in (None, "function") and isinstance(tool.get("function"), dict):
        return _function(Fields(fields.any("function"), fields.at("function")), fields)
    if isinstance(kind, str) and kind not in _KINDS:
        return HostedTool(kind=HostedKind.OTHER, native=tool, type=kind, path=path)
    raise BadRequest(f"{path} is not a tool: it needs `type` and the object of that name", path=path)


def _function(inner: Fields, outer: Fields) -> FunctionTool:
    return FunctionTool(
        name=_name(inner),
        description=inner.text("description"),
        parameters=inner.mapping("parameters"),
        strict=inner.flag("strict"),
        path=outer.path,
        cache=read_cache(outer),
        extras=_extras(outer, "function", inner),
    )


def _custom(inner: Fields, outer: Fields) -> CustomTool:
    name, description = _name(inner), inner.text("description")
    syntax, grammar = None, None
    form = inner.fields("format")
    if form is not None and form.any("type") == "grammar":
        detail = Fields(form.any("grammar"), form.at("grammar"))
        syntax, grammar = detail.text("syntax"), detail.text("definition")
    return CustomTool(
        name=name,
        description=description,
        syntax=syntax,
        grammar=grammar,
        path=outer.path,
        cache=read_cache(outer),
        extras=_extras(outer, "custom", inner),
    )


def _name(fields: Fields) -> str:
    name = fields.text("name")
    if not name:
        raise fields.require("name")
    return name


def _extras(outer: Fields, name: str, inner: Fields) -> dict[str, Json] | None:
    rest = inner.rest()
    if rest is not None:
        outer.put_back(name, rest)
    return outer.rest()


def _web_search(options: dict[str, Json]) -> HostedTool:
    fields = LooseFields(options, WEB_SEARCH)
    size = fields.text("search_context_size")
    where = LooseFields(LooseFields(fields.any("user_location")).any("approximate"))
    names = ("city", "region", "country", "timezone")
    known = {name: where.text(name) for name in names}
    return HostedTool(
        kind=HostedKind.WEB_SEARCH,
        native=options,
        type=WEB_SEARCH,
        context_size=size,
        location=UserLocation(**known) if any(known.values()) else None,
        path=WEB_SEARCH,
    )


def decode_choice(fields: Fields) -> ToolChoice | None:
    """`tool_choice`, or the deprecated `function_call`."""
    for name, kind in (("tool_choice", "function"), ("function_call", "")):
        value = fields.any(name)
        if isinstance(value, str):
            if value not in _MODES:
                raise BadRequest(f"{name} must be none, auto, required or an object", path=name)
            return ToolChoice(mode=_MODES[value], path=name)
        if isinstance(value, dict):
            return _choice_object(value if kind else {"type": "function", "function": value}, name)
        if value is not None:
            raise BadRequest(f"{name} must be a string or an object", path=name)
    return None


def _choice_object(value: dict[str, Json], path: str) -> ToolChoice:
    kind = value.get("type", "function")
    if kind == "allowed_tools":
        inner = Fields(value.get("allowed_tools"), f"{path}.allowed_tools")
        mode = _MODES.get(inner.text("mode") or "auto", ChoiceMode.AUTO)
        allowed = tuple(_reference(tool, inner.at("tools")) for tool in inner.items("tools") or ())
        return ToolChoice(mode=ChoiceMode.ALLOWED, allowed=allowed, allowed_mode=mode, path=path)
    if kind in _KINDS:
        return ToolChoice(mode=ChoiceMode.NAMED, tool=_reference(value, path), path=path)
    return ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(hosted=HostedKind.OTHER, native=value), path=path)


def _reference(value: Json, path: str) -> ToolRef:
    fields = Fields(value, path)
    kind = fields.any("type") or "function"
    if kind not in _KINDS:
        return ToolRef(hosted=HostedKind.OTHER, native=value)
    inner = fields.fields(kind)
    # Some clients write the name flat, as Responses does.
    return ToolRef(name=_name(inner if inner is not None else fields), kind=_KINDS[kind])


def encode_tools(request: Request, out: Writer) -> dict[str, Json]:
    """The fields that offer tools: `tools`, `web_search_options`, `tool_choice`, `parallel_tool_calls`."""
    offered = _filtered(request, out)
    searches = [tool for tool in offered if isinstance(tool, HostedTool) and tool.kind is HostedKind.WEB_SEARCH]
    body: dict[str, Json] = {}
    tools = [wire for tool in offered for wire in _encode_tool(tool, out)]
    if tools:
        body["tools"] = tools
    if searches:
        body.update(_encode_search(searches[0], bool(tools), out))
    body.update(_encode_choice(request.tool_choice, bool(tools), out))
    # OpenAI answers 400 to this field without tools.
    if request.parallel_tools is not None and (tools or out.native):
        body["parallel_tool_calls"] = request.parallel_tools
    return body


def _filtered(request: Request, out: Writer) -> tuple[Tool, ...]:
    """Servers that do not know `allowed_tools` are only told of the tools that are allowed."""
    choice = request.tool_choice
    if choice is None or choice.mode is not ChoiceMode.ALLOWED or out.native or out.profile.openai_fields:
        return request.tools
    out.ledger.add("tool_choice.allowed_filtered", choice.path)
    names = {ref.name for ref in choice.allowed}
    return tuple(
        tool for tool in request.tools if not isinstance(tool, FunctionTool | CustomTool) or tool.name in names
    )


def _encode_tool(tool: Tool, out: Writer) -> Iterator[dict[str, Json]]:
    if isinstance(tool, HostedTool):
        if tool.kind is HostedKind.WEB_SEARCH and (not out.native or tool.type == WEB_SEARCH):
            return
        if out.native:
            yield tool.native
        else:
            out.ledger.add("tool.hosted_dropped", tool.path, tool.type)
        return
    if not out.native:
        _declare(tool, out)
    yield _ENCODERS[type(tool)](tool, out)


def _declare(tool: Tool, out: Writer) -> None:
    """The marks on a tool that Chat has no name for."""
    if tool.cache is not None:
        out.ledger.add("cache.tool_mark", tool.path)
    if getattr(tool, "deferred", None):
        out.ledger.add("tool.defer_loading", tool.path)
    if tool.added_at is not None:
        out.ledger.add("tool.timing", tool.path)


def _encode_function(tool: FunctionTool, out: Writer) -> dict[str, Json]:
    function: dict[str, Json] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.parameters is not None:
        function["parameters"] = tool.parameters
    strict = tool.strict if out.native else _strict(tool, out)
    if strict is not None:
        function["strict"] = strict
    return _whole({"type": "function", "function": function}, tool, out)


def _strict(tool: FunctionTool, out: Writer) -> bool | None:
    """False is the default here and not written. Responses' default is to try, which Chat cannot say."""
    if tool.strict is None and out.source is Protocol.RESPONSES:
        out.ledger.add("tool.strict_default", tool.path)
    if not tool.strict:
        return None
    if out.profile.strict_tools and (out.source is Protocol.RESPONSES or fits_strict(tool.parameters)):
        return True
    out.ledger.add("tool.strict_downgraded", tool.path)
    return None


_MAX_STRICT_DEPTH = 32
"""OpenAI takes ten levels; a level is two steps here"""


def fits_strict(schema: Json, depth: int = 0) -> bool:
    """A schema that strict mode takes: every object is closed and requires all of its properties."""
    if depth > _MAX_STRICT_DEPTH:
        return False
    if isinstance(schema, list):
        return all(fits_strict(item, depth + 1) for item in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        required = schema.get("required")
        missing = [name for name in schema.get("properties") or () if name not in (required or ())]
        if missing or schema.get("additionalProperties") is not False:
            return False
    return all(fits_strict(value, depth + 1) for value in schema.values())


def _encode_custom(tool: CustomTool, out: Writer) -> dict[str, Json]:
    custom: dict[str, Json] = {"name": tool.name}
    if tool.description is not None:
        custom["description"] = tool.description
    if tool.grammar is not None:
        grammar = {"syntax": tool.syntax or "lark", "definition": tool.grammar}
        custom["format"] = {"type": "grammar", "grammar": grammar}
    return _whole({"type": "custom", "custom": custom}, tool, out)


def _whole(wire: dict[str, Json], tool: Tool, out: Writer) -> dict[str, Json]:
    if out.native:
        for name, value in (tool.extras or {}).items():
            wire[name] = {**wire[name], **value} if isinstance(wire.get(name), dict) else value
    return wire


_ENCODERS: dict[type[Tool], Callable[..., dict[str, Json]]] = {
    FunctionTool: _encode_function,
    CustomTool: _encode_custom,
}


def _encode_search(tool: HostedTool, others: bool, out: Writer) -> dict[str, Json]:
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
        names = ("city", "region", "country", "timezone")
        known = {name: value for name in names if (value := getattr(tool.location, name)) is not None}
        options["user_location"] = {"type": "approximate", "approximate": known}
    return {WEB_SEARCH: options}


def _encode_choice(choice: ToolChoice | None, offered: bool, out: Writer) -> dict[str, Json]:
    if choice is None:
        return {}
    if not offered and not out.native:
        if choice.mode not in (ChoiceMode.AUTO, ChoiceMode.NONE):
            out.ledger.add("tool_choice.dropped", choice.path)
        return {}
    if choice.mode in _MODE_NAMES:
        return {"tool_choice": _MODE_NAMES[choice.mode]}
    if choice.mode is ChoiceMode.ALLOWED:
        return {"tool_choice": _encode_allowed(choice, out)}
    wire = _encode_reference(choice.tool, out) if choice.tool is not None else None
    if wire is None:
        out.ledger.add("tool_choice.dropped", choice.path)
        return {}
    return {"tool_choice": wire}


def _encode_allowed(choice: ToolChoice, out: Writer) -> Json:
    mode = _MODE_NAMES.get(choice.allowed_mode, "auto")
    if not (out.native or out.profile.openai_fields):
        return mode
    tools = [wire for ref in choice.allowed if (wire := _encode_reference(ref, out)) is not None]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def _encode_reference(ref: ToolRef, out: Writer) -> dict[str, Json] | None:
    if ref.hosted is not None:
        return ref.native if out.native else None
    return {"type": ref.kind.value, ref.kind.value: {"name": ref.name}}
