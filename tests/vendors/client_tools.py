"""Make the tools of client requests: schemas of every form that clients send, and arguments that fit them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.vendors.client_draw import JSON, Draw, Protocol


@dataclass(frozen=True)
class Tool:
    """A tool that the client runs. `schema` is absent if the tool has no parameters."""

    name: str
    schema: JSON | None
    example: JSON
    strict: bool | None = None
    description: str | None = "Does a thing."


@dataclass(frozen=True)
class Freeform:
    """A tool that takes plain text, with the grammar of that text if there is one."""

    name: str
    grammar: tuple[str, str] | None = None
    example: str = "*** Begin\n+hello\n*** End\n"


def _object(properties: JSON, required: list[str] | None = None, closed: bool = True) -> JSON:
    schema: JSON = {"type": "object", "properties": properties}
    if required is not None:
        schema["required"] = required
    if closed:
        schema["additionalProperties"] = False
    return schema


_TEXT: JSON = {"type": "string", "description": "What to look for."}
_PLACE = _object({"city": _TEXT, "unit": {"type": "string", "enum": ["c", "f"]}}, ["city", "unit"])
_POINT = _object({"x": {"type": "number"}, "y": {"type": "number"}}, ["x", "y"])
_LIMITS = {
    "count": {"type": "integer", "minimum": 1, "maximum": 100},
    "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.25},
    "title": {"type": "string", "minLength": 1, "maxLength": 40, "pattern": "^[a-z ]+$"},
    "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 5},
    "when": {"type": "string", "format": "date-time"},
}
_TREE: JSON = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "required": ["root"],
    "additionalProperties": False,
    "$defs": {
        "node": _object(
            {"name": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            ["name", "parts"],
        )
    },
}
_EITHER = [
    _object({"path": {"type": "string"}}, ["path"]),
    _object({"url": {"type": "string", "format": "uri"}}, ["url"]),
]
_NESTED = {
    "rows": {
        "type": "array",
        "items": _object(
            {"cells": {"type": "array", "items": _POINT}, "note": {"type": ["string", "null"]}}, ["cells"]
        ),
    },
    "mode": {"anyOf": [{"type": "string", "enum": ["fast", "slow"]}, {"type": "string", "const": "off"}]},
    "any": {},
    "unique": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
    "extra": {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {}},
    "deep": {"allOf": [{"type": "object"}, {"properties": {"level": {"type": "integer", "default": 3}}}]},
}
_DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Edit"}

_MEASURED = {"count": 3, "share": 0.5, "title": "a", "tags": ["b"], "when": "2026-01-01T00:00:00Z"}
_MAP = {"labels": {"type": "object", "additionalProperties": {"type": "string"}}}
_ROWS = {"rows": [{"cells": [{"x": 1, "y": 2.5}], "note": None}], "mode": "off"}

TOOLS: dict[str, Tool] = {
    "plain": Tool("look_up", _object({"query": _TEXT, "limit": {"type": "integer"}}, ["query"]), {"query": "rain"}),
    "strict": Tool("weather", _PLACE, {"city": "Paris", "unit": "c"}, strict=True),
    "strict with references": Tool("walk", _TREE, {"root": {"name": "a", "parts": []}}, strict=True),
    "strict with limits": Tool("measure", _object(_LIMITS, list(_LIMITS)), _MEASURED, strict=True),
    "not strict": Tool("note", _object({"text": _TEXT}, ["text"]), {"text": "seven"}, strict=False),
    "limits": Tool("list_rows", _object(_LIMITS, ["count"]), {"count": 3}),
    "anyOf at the top": Tool("fetch", {"type": "object", "anyOf": _EITHER}, {"path": "/notes"}),
    "oneOf at the top": Tool("open_any", {"oneOf": _EITHER}, {"url": "https://example.com"}),
    "allOf at the top": Tool(
        "join", {"type": "object", "properties": {"a": _TEXT}, "allOf": [{"required": ["a"]}]}, {"a": "x"}
    ),
    "open": Tool(
        "store",
        _object({"key": {"type": "string"}}, ["key"], closed=False) | {"additionalProperties": True},
        {"key": "k", "more": 1},
    ),
    "open map": Tool("labels", _object(_MAP, closed=False), {"labels": {"a": "b"}}),
    "bare object": Tool("anything", {"type": "object"}, {"free": True}),
    "nested": Tool("table", _object(_NESTED, ["rows"]), _ROWS),
    "draft and title": Tool(
        "edit", _DRAFT | _object({"all": {"type": "boolean", "default": False}}, []), {"all": True}
    ),
    "no parameters": Tool("ping", None, {}),
    "empty parameters": Tool("status", _object({}), {}),
    "no description": Tool("bare", _object({"v": {"type": "string"}}, ["v"]), {"v": "1"}, description=None),
}

_LARK = 'start: "*** Begin" line+ "*** End"\nline: /[^\\n]*\\n/\n'
FREEFORM: dict[str, Freeform] = {
    "freeform": Freeform("run_code"),
    "freeform lark": Freeform("patch", ("lark", _LARK)),
    "freeform regex": Freeform("digits", ("regex", "[0-9]+"), "42"),
}
EVERY: tuple[Tool | Freeform, ...] = (*TOOLS.values(), *FREEFORM.values())
_LONGEST = {"chat": 64, "messages": 128, "responses": 64}


def named_for(tool: Tool, protocol: Protocol, naming: str, number: int) -> Tool:
    """Rename a tool: with a number, with dots if the protocol allows them, or with the longest possible name."""
    name = f"{tool.name}_{number}" if number else tool.name
    if naming == "dotted":
        # Messages documents its names. The other two protocols allow any string, and servers with dots exist.
        name = name.replace("_", "-") if protocol == "messages" else f"files.{name}"
    if naming == "long":
        name += "_" + "n" * (_LONGEST[protocol] - len(name) - 1)
    return replace(tool, name=name)


def draw_tools(draw: Draw, protocol: Protocol) -> list[Tool]:
    """Draw 1 to 25 tools with different names."""
    wanted = draw.count(1, 25) if draw.chance(0.2) else draw.count(1, 4)
    kinds = list(TOOLS.values())
    tools: list[Tool] = []
    for number in range(wanted):
        naming = draw.random.choices(("plain", "dotted", "long"), (12, 1, 1))[0]
        tools.append(named_for(draw.pick(kinds), protocol, naming, number))
    return tools
