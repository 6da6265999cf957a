"""Fit tools to the model: their schemas, the number of strict ones, and parallel calls.

The schemas of tools and outputs are changed as little as the subset of a provider demands. The functions are recursive:
a body that is nested too deeply is refused when it is parsed.
"""

from __future__ import annotations

from msgspec.structs import replace

from trilogue.base.json_schema import is_object, nodes, with_each
from trilogue.errors import Unsupported
from trilogue.model import CustomTool, FunctionTool, HostedTool, Json, Request, Tool
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.openai.schema import fits_strict
from trilogue.vendors.profile import Profile

__all__ = ["close_objects", "fits_closed", "fits_strict", "is_plain_object", "plain_object", "strict_form"]

_LIMITS = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
    }
)
"""keywords that Anthropic's subset of JSON Schema does not have"""
_MAX_STEPS = 8
"""how many references or nested alternatives are followed; a chain may be a circle"""
_SEARCH_FIELD = "web_search_options"
"""the field of Chat for web search; the other protocols have a tool for it"""
_COMBINED = ("anyOf", "oneOf", "allOf")
_NOT_AT_THE_TOP = frozenset({*_COMBINED, "enum", "not", "$ref", "const", "if", "then", "else"})


def fit_tools(request: Request, out: EncodingContext) -> Request:
    """Return the request with tools and tool settings that the model accepts."""
    # The o-series of OpenAI refuses parallel_tool_calls in Chat, whatever its value.
    if request.parallel_tools is not None and not out.profile.parallel_tools:
        if not request.parallel_tools:
            out.ledger.add("param.dropped", request.where("parallel_tools"))
        request = replace(request, parallel_tools=None)
    if out.native:
        request = _without_refused_tools(request, out)
    tools = tuple([_with_plain_schema(tool, out) for tool in request.tools])
    tools = _with_few_strict(tools, out)
    return request if all(map(_same, tools, request.tools)) else replace(request, tools=tools)


def _without_refused_tools(request: Request, out: EncodingContext) -> Request:
    """Return a request of the same protocol with the kinds of tools that the model has.

    Raises `Unsupported` for free-text tools: their calls could not be translated back. Web search is left out if there
    are other tools.
    """
    profile, tools = out.profile, request.tools
    for tool in tools:
        if type(tool) is CustomTool and not profile.custom_tools:
            raise Unsupported(tool.path, "the model has no free-text tools")
        if type(tool) is HostedTool and tool.type == _SEARCH_FIELD and not profile.web_search:
            if len(tools) == 1:
                raise Unsupported(tool.path, "the model has no web search")
            out.ledger.add("tool.hosted_dropped", tool.path, tool.type)
            request = replace(request, tools=tuple([other for other in tools if other is not tool]))
    return request


def _same(one: Tool, other: Tool) -> bool:
    return one is other


def _with_plain_schema(tool: Tool, out: EncodingContext) -> Tool:
    """Return a tool whose schema is a plain object, if the model demands that."""
    if type(tool) is not FunctionTool or tool.parameters is None or not out.profile.plain_tool_schemas:
        return tool
    if is_plain_object(tool.parameters):
        return tool
    out.ledger.add("schema.transformed", tool.path, tool.name)
    return replace(tool, parameters=plain_object(tool.parameters))


def _with_few_strict(tools: tuple[Tool, ...], out: EncodingContext) -> tuple[Tool, ...]:
    """Return the tools with at most as many strict ones as the model accepts, and none that cannot be strict."""
    profile, fitted, count = out.profile, list(tools), 0
    for place, tool in enumerate(tools):
        if type(tool) is not FunctionTool or not tool.strict:
            continue
        # Anthropic refuses more than 20 strict tools.
        full = profile.max_strict_tools is not None and count >= profile.max_strict_tools
        if full or not _can_be_strict(tool, profile):
            out.ledger.add("tool.strict_downgraded", tool.path, tool.name)
            # A server that does not accept the field does not accept it with the value false either.
            absent = out.native and not profile.strict_tools
            fitted[place] = replace(tool, strict=None if absent else False)
        else:
            count += 1
    return tuple(fitted)


def _can_be_strict(tool: FunctionTool, profile: Profile) -> bool:
    """Return whether strict mode accepts the unchanged schema of a tool.

    The schema is never changed for it: only its author may change which arguments it allows.
    """
    if not profile.strict_tools:
        return False
    if profile.strict_schemas and not fits_strict(tool.parameters):
        return False
    return not profile.closed_schemas or fits_closed(tool.parameters)


def fits_closed(schema: Json) -> bool:
    """Return whether a schema has no limits, and every object in it allows only its named properties."""
    return all(
        _LIMITS.isdisjoint(node) and (node.get("additionalProperties") is False or not is_object(node))
        for node in nodes(schema)
    )


def strict_form(schema: Json) -> Json | None:
    """Return a schema as OpenAI's strict mode accepts it; None if that would change which values it allows.

    An object that requires all its properties may be closed: strict mode would close it anyway.
    """
    if fits_strict(schema):
        return schema
    closed = with_each(schema, _closed_if_complete)
    return closed if fits_strict(closed) else None


def _closed_if_complete(node: dict[str, Json]) -> dict[str, Json]:
    if not is_object(node) or "additionalProperties" in node or not node.get("properties"):
        return dict(node)
    return {**node, "additionalProperties": False}


def close_objects(schema: dict[str, Json]) -> dict[str, Json]:
    """Return a schema whose objects allow no other properties, with limits moved to descriptions."""
    return schema if fits_closed(schema) else with_each(schema, _closed)


def _closed(node: dict[str, Json]) -> dict[str, Json]:
    limits = {name: node[name] for name in node if name in _LIMITS}
    rest = {name: value for name, value in node.items() if name not in _LIMITS}
    if limits:
        text = ", ".join(f"{name}: {value}" for name, value in limits.items())
        rest["description"] = f"{rest['description']} ({text})" if rest.get("description") else f"({text})"
    if is_object(rest):
        rest["additionalProperties"] = False
    return rest


def is_plain_object(schema: dict[str, Json]) -> bool:
    """Return whether a tool's schema is an object without alternatives at its top level."""
    return _NOT_AT_THE_TOP.isdisjoint(schema) and schema.get("type", "object") == "object"


def plain_object(schema: dict[str, Json]) -> dict[str, Json]:
    """Return a tool's schema as one object: alternatives at the top level become optional properties."""
    merged = _merged(schema, schema, _MAX_STEPS)
    rest = {name: value for name, value in merged.items() if name not in _NOT_AT_THE_TOP}
    result: dict[str, Json] = {**rest, "type": "object", "properties": _dict(merged.get("properties"))}
    required = [name for name in _names(merged.get("required")) if name in result["properties"]]
    # OpenAI and Anthropic refuse anyOf, oneOf and allOf at the top level, so only what all alternatives require is
    # left.
    result.pop("required", None)
    return {**result, **({"required": required} if required else {}), **_defs(schema)}


def _merged(node: dict[str, Json], whole: dict[str, Json], steps: int) -> dict[str, Json]:
    """Return an object with the properties of all its alternatives. `steps`: how many levels to descend."""
    top = _resolved(node, whole)
    properties, required = _dict(top.get("properties")), _names(top.get("required"))
    for name in _COMBINED:
        branches = [_merged(_dict(branch), whole, steps - 1) for branch in _list(top.get(name)) if steps]
        for branch in branches:
            for key, value in _dict(branch.get("properties")).items():
                properties[key] = _joined(properties[key], value) if key in properties else value
        required_by_branch = [set(_names(branch.get("required"))) for branch in branches]
        if required_by_branch:
            # A value fits all branches of allOf, but only one of anyOf and oneOf.
            common = set.union(*required_by_branch) if name == "allOf" else set.intersection(*required_by_branch)
            required += [key for key in properties if key in common and key not in required]
    return {**top, "properties": properties, "required": required}


def _joined(one: Json, other: Json) -> Json:
    """Return a schema that allows what either of two allows. Two constants become an enum, so that neither is lost."""
    if one == other:
        return one
    values = [value for schema in (one, other) for value in _values(schema)]
    if len(values) > 1 and all(_values(schema) for schema in (one, other)):
        kinds = {_dict(schema).get("type") for schema in (one, other)}
        kind = kinds.pop() if len(kinds) == 1 else None
        unique = [value for place, value in enumerate(values) if value not in values[:place]]
        return {**({"type": kind} if kind else {}), "enum": unique}
    known = _list(_dict(one).get("anyOf")) if set(_dict(one)) == {"anyOf"} else [one]
    return {"anyOf": known if other in known else [*known, other]}


def _values(schema: Json) -> list[Json]:
    """Return the values that a schema of constants allows."""
    node = _dict(schema)
    return [node["const"]] if "const" in node else _list(node.get("enum"))


def _defs(schema: dict[str, Json]) -> dict[str, Json]:
    return {name: schema[name] for name in ("$defs", "definitions") if name in schema}


def _resolved(node: dict[str, Json], whole: dict[str, Json]) -> dict[str, Json]:
    """Return the subschema that a reference points to. A circular reference ends after `_MAX_STEPS`."""
    top = node
    for _ in range(_MAX_STEPS):
        reference = top.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        found: Json = whole
        for step in reference[2:].split("/"):
            found = _dict(found).get(step.replace("~1", "/").replace("~0", "~"))
        top = {**{name: value for name, value in top.items() if name != "$ref"}, **_dict(found)}
    return top


def _dict(value: Json) -> dict[str, Json]:
    return dict(value) if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _names(value: Json) -> list[str]:
    return [name for name in _list(value) if isinstance(name, str)]
