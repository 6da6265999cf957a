"""Tool definitions of a request, read from `tools` and from `additional_tools` items.

Namespaces are flattened onto their tools. A tool that an `additional_tools` item adds has the turn that it was added
before. `encode_tools.py` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.model import CustomTool, FunctionTool, HostedKind, HostedTool, Json, Tool
from trilogue.protocols.content.parts import read_location
from trilogue.protocols.fields.reader import Fields, LooseFields
from trilogue.protocols.responses.short_forms import short_function
from trilogue.protocols.responses.wire import HOSTED_TOOLS

_CLIENT_KINDS = frozenset({HostedKind.COMPUTER, HostedKind.PATCH})


class ToolReader(Struct):
    """A collector of the tools of one request, from `tools` and from `additional_tools` items."""

    tools: list[Tool] = field(default_factory=list)
    namespaces: dict[str, str | None] = field(default_factory=dict)

    def read(self, values: Iterable[Json], path: str, added_at: int | None = None, item_id: str | None = None) -> None:
        """Add a list of tools. `item_id` marks the first tool of an item, so that the item can be restored."""
        start = len(self.tools)
        for n, value in enumerate(values):
            short = short_function(value, f"{path}[{n}]", added_at) if FAST_PATHS.on else None
            if short is not None:
                self.tools.append(short)
            else:
                self._tool(Fields(value, f"{path}[{n}]"), value, added_at)
        if item_id is not None and len(self.tools) > start:
            first = self.tools[start]
            self.tools[start] = _with_extras(first, {"item_id": item_id})

    def _tool(self, fields: Fields, value: dict[str, Json], added_at: int | None) -> None:
        kind = fields.text("type") or "function"
        # A namespace with hosted tools has no form elsewhere and stays whole.
        if kind == "namespace" and _only_client_tools(value.get("tools")):
            self._namespace(fields, added_at)
        elif kind in _CLIENT_TOOLS:
            self.tools.append(_CLIENT_TOOLS[kind](fields, None, added_at))
        else:
            self.tools.append(_hosted(fields, kind, value, added_at))

    def _namespace(self, fields: Fields, added_at: int | None) -> None:
        name = fields.filled("name")
        self.namespaces.setdefault(name, fields.text("description"))
        start = len(self.tools)
        for n, value in enumerate(fields.items("tools") or ()):
            inner = Fields(value, f"{fields.at('tools')}[{n}]")
            self.tools.append(_CLIENT_TOOLS[inner.text("type") or "function"](inner, name, added_at))
        rest = fields.rest()
        if rest and len(self.tools) > start:
            self.tools[start] = _with_extras(self.tools[start], {"namespace_fields": rest})


def _with_extras(tool: Tool, extras: dict[str, Json]) -> Tool:
    return replace(tool, extras={**(tool.extras or {}), **extras})


def _only_client_tools(value: Json) -> bool:
    if not isinstance(value, list):
        return False
    return all((LooseFields(tool).text("type") or "function") in _CLIENT_TOOLS for tool in value)


def _function(fields: Fields, namespace: str | None, added_at: int | None) -> Tool:
    return FunctionTool(
        name=fields.filled("name"),
        description=fields.text("description"),
        parameters=fields.mapping("parameters"),
        strict=fields.flag("strict"),
        namespace=namespace,
        deferred=fields.flag("defer_loading"),
        added_at=added_at,
        path=fields.path,
        extras=fields.rest(),
    )


def _custom(fields: Fields, namespace: str | None, added_at: int | None) -> Tool:
    name = fields.filled("name")
    syntax = grammar = None
    form = fields.mapping("format")
    if form is not None:
        if form.get("type") == "grammar" and form.keys() <= {"type", "syntax", "definition"}:
            read = Fields(form, fields.at("format"))
            syntax, grammar = read.text("syntax"), read.text("definition")
        else:
            fields.put_back("format", form)
    return CustomTool(
        name=name,
        description=fields.text("description"),
        syntax=syntax,
        grammar=grammar,
        namespace=namespace,
        deferred=fields.flag("defer_loading"),
        added_at=added_at,
        path=fields.path,
        extras=fields.rest(),
    )


_CLIENT_TOOLS: dict[str, Callable[[Fields, str | None, int | None], Tool]] = {
    "function": _function,
    "custom": _custom,
}


def _hosted(fields: Fields, kind: str, native: dict[str, Json], added_at: int | None) -> Tool:
    tool = HOSTED_TOOLS.get(kind, HostedKind.OTHER)
    read = _NEUTRAL.get(tool)
    neutral: dict[str, Json] = {} if read is None else {**read(fields), "extras": fields.rest()}
    return HostedTool(
        kind=tool,
        type=kind,
        native=native,
        runs_on_client=_runs_on_client(tool, kind, native),
        added_at=added_at,
        path=fields.path,
        **neutral,
    )


def _runs_on_client(tool: HostedKind, kind: str, native: dict[str, Json]) -> bool:
    # The shell runs in a container of OpenAI unless the environment is local.
    if tool is HostedKind.SHELL:
        return kind == "local_shell" or LooseFields(native.get("environment")).text("type") in (None, "local")
    if tool is HostedKind.TOOL_SEARCH:
        return native.get("execution") == "client"
    return tool in _CLIENT_KINDS


def _web_search(fields: Fields) -> dict[str, Json]:
    neutral: dict[str, Json] = {"context_size": fields.text("search_context_size")}
    filters = fields.fields("filters")
    if filters is not None:
        neutral["allowed_domains"] = _names(filters, "allowed_domains")
        neutral["blocked_domains"] = _names(filters, "blocked_domains")
        fields.keep("filters", filters)
    location = fields.fields("user_location")
    if location is not None:
        location.any("type")
        neutral["location"] = read_location(location)
        fields.keep("user_location", location)
    return neutral


def _mcp(fields: Fields) -> dict[str, Json]:
    """Return the fields of an MCP tool. Without `require_approval`, every call needs approval in this protocol."""
    approval = fields.any("require_approval")
    if isinstance(approval, dict):
        # An object sets approvals per tool, which no other protocol has.
        fields.put_back("require_approval", approval)
    allowed = fields.any("allowed_tools")
    if isinstance(allowed, dict):
        inner = Fields(allowed, fields.at("allowed_tools"))
        allowed = inner.items("tool_names")
        fields.keep("allowed_tools", inner)
    names = allowed if isinstance(allowed, list) else None
    return {
        "server_label": fields.text("server_label"),
        "server_url": fields.text("server_url"),
        "authorization": fields.text("authorization"),
        "allowed_tools": None if names is None else tuple(name for name in names if isinstance(name, str)),
        "approval": approval if isinstance(approval, str) else "always",
    }


def _code(fields: Fields) -> dict[str, Json]:
    """Leave the container in the extras: it is stored at the provider."""
    container = fields.any("container")
    if container not in (None, {"type": "auto"}):
        fields.put_back("container", container)
    return {}


def _names(fields: Fields, name: str) -> tuple[str, ...] | None:
    values = fields.items(name)
    return None if values is None else tuple(value for value in values if isinstance(value, str))


_NEUTRAL: dict[HostedKind, Callable[[Fields], dict[str, Json]]] = {
    HostedKind.WEB_SEARCH: _web_search,
    HostedKind.MCP: _mcp,
    HostedKind.CODE: _code,
}
