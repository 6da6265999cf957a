"""Tool definitions of a request, read into `Tool` structs.

The deprecated `functions` are read as tools; `web_search_options` is the only hosted tool of this protocol.
`encode_tools.py` writes them.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.errors import BadRequest
from trilogue.model import CustomTool, Extras, FunctionTool, HostedKind, HostedTool, Json, Tool
from trilogue.protocols.chat.decode_content import read_cache
from trilogue.protocols.chat.short_forms import short_function
from trilogue.protocols.chat.wire import CALL_KINDS, WEB_SEARCH
from trilogue.protocols.content.parts import read_location
from trilogue.protocols.fields.reader import Fields, LooseFields

TOOL_FIELDS = ("tools", "functions", WEB_SEARCH)


def decode_tools(fields: Fields, _: object) -> tuple[Tool, ...]:
    """Return all tools of a request, from the three fields that can have them."""
    tools = [_decode_tool(tool, f"tools[{index}]") for index, tool in enumerate(fields.items("tools") or ())]
    if "functions" in fields.left:
        for index, function in enumerate(fields.items("functions") or ()):
            tools.append(_function(Fields(function, f"functions[{index}]"), Fields({}, f"functions[{index}]")))
    if WEB_SEARCH in fields.left and (search := fields.mapping(WEB_SEARCH)) is not None:
        tools.append(_web_search(search))
    return tuple(tools)


def _decode_tool(tool: Json, path: str) -> Tool:
    short = short_function(tool, path) if FAST_PATHS.on else None
    if short is not None:
        return short
    fields = Fields(tool, path)
    kind = fields.any("type")
    if kind == "custom" and isinstance(tool.get("custom"), dict):
        return _custom(Fields(fields.any("custom"), fields.at("custom")), fields)
    # Some clients leave out the type.
    if kind in (None, "function") and isinstance(tool.get("function"), dict):
        return _function(Fields(fields.any("function"), fields.at("function")), fields)
    if isinstance(kind, str) and kind not in CALL_KINDS:
        return _hosted(fields, kind, tool)
    raise BadRequest(f"{path} is not a tool: it needs `type` and the object of that name", path=path)


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


def _hosted(fields: Fields, kind: str, native: dict[str, Json]) -> HostedTool:
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
