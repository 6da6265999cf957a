"""Tool definitions ↔ `Tool`. Tool choice is `choice.py`.

Namespaces are flattened onto their tools when read and regrouped when written; tools that an `additional_tools` item
brings in mid-conversation carry the turn they came before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from trilogue.errors import InternalError
from trilogue.model import (
    CustomTool,
    FunctionTool,
    HostedKind,
    HostedTool,
    Json,
    Ledger,
    Protocol,
    Request,
    Tool,
)
from trilogue.protocols.fields import Fields, LooseFields
from trilogue.protocols.location import read_location, write_location
from trilogue.protocols.openai_schema import fits_strict, parameters_of
from trilogue.protocols.outgoing import Outgoing
from trilogue.protocols.responses.choice import encode_choice
from trilogue.protocols.responses.wire import HOSTED_TOOLS

_CLIENT_KINDS = frozenset({HostedKind.COMPUTER, HostedKind.PATCH})
_NO_PARAMETERS: dict[str, Json] = {"type": "object", "properties": {}}


class ToolReader(Struct):
    """Collects the tools of one request, from `tools` and from `additional_tools` items."""

    tools: list[Tool] = field(default_factory=list)
    namespaces: dict[str, str | None] = field(default_factory=dict)

    def read(self, values: Iterable[Json], path: str, added_at: int | None = None, item_id: str | None = None) -> None:
        """Take a list of tools. `item_id` marks the first of an item, so that writing it back restores the item."""
        start = len(self.tools)
        for n, value in enumerate(values):
            short = _short_function(value, f"{path}[{n}]", added_at)
            if short is not None:
                self.tools.append(short)
            else:
                self._tool(Fields(value, f"{path}[{n}]"), value, added_at)
        if item_id is not None and len(self.tools) > start:
            first = self.tools[start]
            self.tools[start] = _with_extras(first, {"item_id": item_id})

    def _tool(self, fields: Fields, value: dict[str, Json], added_at: int | None) -> None:
        kind = fields.text("type") or "function"
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


_PLAIN = {"type", "name", "description", "parameters", "strict"}


def _short_function(value: Json, path: str, added_at: int | None) -> Tool | None:
    """The short way for a function in its usual form; None if there is more to it."""
    if type(value) is not dict or value.keys() != _PLAIN or value["type"] != "function":
        return None
    name, description, schema, strict = value["name"], value["description"], value["parameters"], value["strict"]
    if not name or not (type(name) is type(description) is str) or type(schema) is not dict or type(strict) is not bool:
        return None
    return FunctionTool(
        name=name, description=description, parameters=schema, strict=strict, added_at=added_at, path=path
    )


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
    """Without `require_approval` every call needs one: that is the protocol's default."""
    approval = fields.any("require_approval")
    if isinstance(approval, dict):
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
    """The container stays an extra: it lives at the provider."""
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


class ToolWriter:
    """Writes the tools of one request. Natives and extras go back into their own protocol."""

    def __init__(self, out: Outgoing, namespaces: dict[str, str | None] | None) -> None:
        self._native = out.native
        self._source = out.source
        self._ledger = out.ledger
        self._namespaces = namespaces or {}
        self._searched = False
        """a tool search is among the tools: only then may others wait to be found"""

    def write(self, tools: Iterable[Tool]) -> list[dict[str, Json]]:
        """The tools of one list; those of a namespace stand together, where its first tool stood."""
        written: list[dict[str, Json]] = []
        groups: dict[str, dict[str, Json]] = {}
        tools = tuple(tools)
        self._searched = HostedKind.TOOL_SEARCH in {tool.kind for tool in tools if type(tool) is HostedTool}
        for tool in tools:
            entry = self._tool(tool)
            namespace = None if type(tool) is HostedTool else getattr(tool, "namespace", None)
            if entry is None:
                continue
            if namespace is None:
                written.append(entry)
                continue
            if namespace not in groups:
                groups[namespace] = self._namespace(namespace, tool)
                written.append(groups[namespace])
            groups[namespace]["tools"].append(entry)
        return written

    def _namespace(self, name: str, first: Tool) -> dict[str, Json]:
        entry: dict[str, Json] = {"type": "namespace", "name": name, "description": self._namespaces.get(name) or ""}
        if self._native and first.extras and isinstance(first.extras.get("namespace_fields"), dict):
            entry |= first.extras["namespace_fields"]
        return {**entry, "tools": []}

    def _tool(self, tool: Tool) -> dict[str, Json] | None:
        if tool.cache is not None:
            self._ledger.add("cache.tool_mark", tool.path)
        if isinstance(tool, HostedTool):
            return dict(tool.native) if self._native else self._hosted(tool)
        if not isinstance(tool, (FunctionTool, CustomTool)):
            raise InternalError(f"a tool of the kind {type(tool).__name__}")
        entry = self._function(tool) if isinstance(tool, FunctionTool) else _write_custom(tool)
        if tool.deferred and not self._searched and not self._native:
            self._ledger.add("tool.defer_loading", f"{tool.path}.defer_loading")
        elif tool.deferred is not None:
            entry["defer_loading"] = tool.deferred
        if self._native and tool.extras:
            entry |= {name: value for name, value in tool.extras.items() if name not in _OWN_MARKS}
        return entry

    def _function(self, tool: FunctionTool) -> dict[str, Json]:
        entry: dict[str, Json] = {"type": "function", "name": tool.name}
        if tool.description is not None:
            entry["description"] = tool.description
        if self._native:
            given = {"parameters": tool.parameters, "strict": tool.strict}
            return entry | {name: value for name, value in given.items() if value is not None}
        # The protocol's default is to try strict mode, which the other protocols do not.
        strict = tool.strict is True
        if strict and self._source is Protocol.MESSAGES and not fits_strict(tool.parameters):
            strict = False
            self._ledger.add("tool.strict_downgraded", tool.path, tool.name)
        return {**entry, "parameters": _parameters(tool.parameters), "strict": strict}

    def _hosted(self, tool: HostedTool) -> dict[str, Json] | None:
        write = _HOSTED_WRITERS.get(tool.kind)
        if write is None:
            self._ledger.add("tool.hosted_dropped", tool.path, tool.type)
            return None
        return write(tool, self._ledger)


_OWN_MARKS = frozenset({"item_id", "namespace_fields"})


def _parameters(schema: dict[str, Json] | None) -> dict[str, Json]:
    if schema is None:
        return _NO_PARAMETERS
    return parameters_of(schema)


def _write_custom(tool: CustomTool) -> dict[str, Json]:
    entry: dict[str, Json] = {"type": "custom", "name": tool.name}
    if tool.description is not None:
        entry["description"] = tool.description
    if tool.grammar is not None or tool.syntax is not None:
        form = {"type": "grammar", "syntax": tool.syntax, "definition": tool.grammar}
        entry["format"] = {name: value for name, value in form.items() if value is not None}
    return entry


def _write_web_search(tool: HostedTool, ledger: Ledger) -> dict[str, Json]:
    entry: dict[str, Json] = {"type": "web_search"}
    if tool.allowed_domains is not None:
        entry["filters"] = {"allowed_domains": list(tool.allowed_domains)}
    if tool.location is not None:
        entry["user_location"] = {"type": "approximate", **write_location(tool.location)}
    if tool.context_size is not None:
        entry["search_context_size"] = tool.context_size
    if tool.blocked_domains:
        ledger.add("web_search.params", f"{tool.path}.blocked_domains")
    return entry


def _write_mcp(tool: HostedTool, _: Ledger) -> dict[str, Json]:
    entry: dict[str, Json] = {
        "type": "mcp",
        "server_label": tool.server_label or tool.name or "mcp",
        "server_url": tool.server_url,
        "authorization": tool.authorization,
        "allowed_tools": None if tool.allowed_tools is None else list(tool.allowed_tools),
        "require_approval": tool.approval or "never",
    }
    return {name: value for name, value in entry.items() if value is not None}


def _write_code(tool: HostedTool, ledger: Ledger) -> dict[str, Json]:
    ledger.add("code_exec.container", tool.path)
    return {"type": "code_interpreter", "container": {"type": "auto"}}


def _write_tool_search(tool: HostedTool, ledger: Ledger) -> dict[str, Json]:
    ledger.add("tool_search.algorithm", tool.path)
    return {"type": "tool_search"}


_HOSTED_WRITERS: dict[HostedKind, Callable[[HostedTool, Ledger], dict[str, Json]]] = {
    HostedKind.WEB_SEARCH: _write_web_search,
    HostedKind.MCP: _write_mcp,
    HostedKind.CODE: _write_code,
    HostedKind.TOOL_SEARCH: _write_tool_search,
}

OFFERED = frozenset(_HOSTED_WRITERS)
"""hosted tools of other protocols that can be offered here"""


def encode_tools(request: Request, out: Outgoing) -> dict[str, Json]:
    """The fields that offer tools: `tools`, `tool_choice`, `parallel_tool_calls`, `max_tool_calls`."""
    body: dict[str, Json] = {}
    offered = [tool for tool in request.tools if tool.added_at is None or not out.native]
    if not out.native:
        for tool in offered:
            if tool.added_at is not None:
                out.ledger.add("tool.timing", tool.path)
    written = ToolWriter(out, request.namespaces).write(offered) if offered else []
    if written:
        body["tools"] = written
    if request.tool_choice is not None:
        choice = encode_choice(request.tool_choice, out)
        if choice is not None:
            body["tool_choice"] = choice
    if request.parallel_tools is not None:
        body["parallel_tool_calls"] = request.parallel_tools
    return body if out.native else body | _search_limit(request, out)


def _search_limit(request: Request, out: Outgoing) -> dict[str, Json]:
    """A limit on searches becomes the limit on all hosted calls, if search is the only hosted tool."""
    hosted = [tool for tool in request.tools if type(tool) is HostedTool and not tool.runs_on_client]
    if not hosted:
        return {}
    limited = [tool for tool in hosted if tool.max_uses is not None]
    if len(hosted) == 1 and limited and hosted[0].kind is HostedKind.WEB_SEARCH:
        out.ledger.add("web_search.params", f"{hosted[0].path}.max_uses", "limits all hosted calls")
        return {"max_tool_calls": hosted[0].max_uses}
    for tool in limited:
        out.ledger.add("web_search.params", f"{tool.path}.max_uses")
    return {}
