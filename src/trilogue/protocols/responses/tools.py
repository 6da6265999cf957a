"""Tools in both directions: definitions in `tools` and in `additional_tools` items, and the choice among them.

Namespaces are flattened onto their tools, and written as one group. A tool that an `additional_tools` item adds has the
turn that it was added before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.errors import BadRequest, InternalError
from trilogue.model import (
    CallKind,
    ChoiceMode,
    CustomTool,
    FunctionTool,
    HostedKind,
    HostedTool,
    Json,
    Ledger,
    Protocol,
    Request,
    Tool,
    ToolChoice,
    ToolRef,
)
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fields import Fields, LooseFields
from trilogue.protocols.openai.schema import fits_strict, parameters_of
from trilogue.protocols.parts import read_location, write_location
from trilogue.protocols.responses.fast_decode import short_function
from trilogue.protocols.responses.wire import HOSTED_TOOLS

_CLIENT_KINDS = frozenset({HostedKind.COMPUTER, HostedKind.PATCH})
_NO_PARAMETERS: dict[str, Json] = {"type": "object", "properties": {}}
_CHOICE_MODES = {"auto": ChoiceMode.AUTO, "none": ChoiceMode.NONE, "required": ChoiceMode.REQUIRED}
_CHOICE_KINDS = {"function": CallKind.FUNCTION, "custom": CallKind.CUSTOM}
_CHOICE_OF_KIND = {HostedKind.CODE: "code_interpreter"}


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
            self.tools.append(_decode_hosted(fields, kind, value, added_at))

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


def _decode_function(fields: Fields, namespace: str | None, added_at: int | None) -> Tool:
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


def _decode_custom(fields: Fields, namespace: str | None, added_at: int | None) -> Tool:
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
    "function": _decode_function,
    "custom": _decode_custom,
}


def _decode_hosted(fields: Fields, kind: str, native: dict[str, Json], added_at: int | None) -> Tool:
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


def _decode_web_search(fields: Fields) -> dict[str, Json]:
    neutral: dict[str, Json] = {"context_size": fields.text("search_context_size")}
    filters = fields.fields("filters")
    if filters is not None:
        neutral["allowed_domains"] = _decode_names(filters, "allowed_domains")
        neutral["blocked_domains"] = _decode_names(filters, "blocked_domains")
        fields.keep("filters", filters)
    location = fields.fields("user_location")
    if location is not None:
        location.any("type")
        neutral["location"] = read_location(location)
        fields.keep("user_location", location)
    return neutral


def _decode_mcp(fields: Fields) -> dict[str, Json]:
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


def _decode_code(fields: Fields) -> dict[str, Json]:
    """Leave the container in the extras: it is stored at the provider."""
    container = fields.any("container")
    if container not in (None, {"type": "auto"}):
        fields.put_back("container", container)
    return {}


def _decode_names(fields: Fields, name: str) -> tuple[str, ...] | None:
    values = fields.items(name)
    return None if values is None else tuple(value for value in values if isinstance(value, str))


_NEUTRAL: dict[HostedKind, Callable[[Fields], dict[str, Json]]] = {
    HostedKind.WEB_SEARCH: _decode_web_search,
    HostedKind.MCP: _decode_mcp,
    HostedKind.CODE: _decode_code,
}


class ToolWriter:
    """A writer for the tools of one request. Native tools and extras are restored in their own protocol."""

    def __init__(self, out: EncodingContext, namespaces: dict[str, str | None] | None) -> None:
        self._native = out.native
        self._source = out.source
        self._ledger = out.ledger
        self._namespaces = namespaces or {}
        self._has_tool_search = False
        """whether the tools include a tool search; only then can other tools be deferred"""
        self._has_web_search = False

    def write(self, tools: Iterable[Tool]) -> list[dict[str, Json]]:
        """Return the tools of one list; those of a namespace are together, in the place of its first tool."""
        written: list[dict[str, Json]] = []
        groups: dict[str, dict[str, Json]] = {}
        tools = tuple(tools)
        kinds = {tool.kind for tool in tools if type(tool) is HostedTool}
        self._has_tool_search = HostedKind.TOOL_SEARCH in kinds
        self._has_web_search = HostedKind.WEB_SEARCH in kinds
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
            # OpenAI has cache marks on content parts only.
            self._ledger.add("cache.tool_mark", tool.path)
        if isinstance(tool, HostedTool):
            return dict(tool.native) if self._native else self._hosted(tool)
        if not isinstance(tool, (FunctionTool, CustomTool)):
            raise InternalError(f"a tool of the kind {type(tool).__name__}")
        entry = self._function(tool) if isinstance(tool, FunctionTool) else _write_custom(tool)
        # A tool that was added in the middle of a conversation has been found already.
        found = tool.added_at is not None or not self._has_tool_search
        if tool.deferred and found and not self._native:
            self._ledger.add("tool.defer_loading", f"{tool.path}.defer_loading")
        elif tool.deferred is not None:
            # Deferred tools need a tool search that finds them.
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
        # Responses tries strict mode by default, the other protocols do not; so `strict` is always written.
        strict = tool.strict is True
        if strict and self._source is Protocol.MESSAGES and not fits_strict(tool.parameters):
            strict = False
            self._ledger.add("tool.strict_downgraded", tool.path, tool.name)
        return {**entry, "parameters": _parameters(tool.parameters), "strict": strict}

    def _hosted(self, tool: HostedTool) -> dict[str, Json] | None:
        # Responses has no separate fetch.
        if tool.kind is HostedKind.WEB_FETCH:
            # OpenAI's web search also opens pages by their URL.
            self._ledger.add("tool.hosted_replaced", tool.path, tool.type)
            if self._has_web_search:
                return None
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
        # OpenAI's default is to ask, and clients of other protocols cannot approve.
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
    HostedKind.WEB_FETCH: _write_web_search,
    HostedKind.MCP: _write_mcp,
    HostedKind.CODE: _write_code,
    HostedKind.TOOL_SEARCH: _write_tool_search,
}
OFFERED = frozenset(_HOSTED_WRITERS)
"""the hosted tools of other protocols that can be offered here"""


def encode_tools(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return the fields for tools: `tools`, `tool_choice`, `parallel_tool_calls`, `max_tool_calls`."""
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


def _search_limit(request: Request, out: EncodingContext) -> dict[str, Json]:
    """Return a limit on searches as the limit on all hosted calls, if search is the only hosted tool."""
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


def decode_choice(value: Json) -> ToolChoice | None:
    """Return the tool choice, in any of its forms; None if it is not set. Raises `BadRequest` for an unknown mode."""
    if value is None:
        return None
    if isinstance(value, str):
        if value not in _CHOICE_MODES:
            raise BadRequest(f"tool_choice cannot be {value!r}", path="tool_choice")
        return ToolChoice(mode=_CHOICE_MODES[value], path="tool_choice")
    fields = Fields(value, "tool_choice")
    kind = fields.text("type") or ""
    if kind in _CHOICE_KINDS:
        tool = ToolRef(
            name=fields.text("name") or "", kind=_CHOICE_KINDS[kind], namespace=fields.text("namespace"), native=value
        )
        return ToolChoice(mode=ChoiceMode.NAMED, tool=tool, path="tool_choice", extras=fields.rest())
    if kind == "allowed_tools":
        mode = _CHOICE_MODES.get(fields.text("mode") or "auto", ChoiceMode.AUTO)
        allowed = tuple(
            _decode_ref(entry, f"tool_choice.tools[{n}]") for n, entry in enumerate(fields.items("tools") or ())
        )
        return ToolChoice(
            mode=ChoiceMode.ALLOWED, allowed=allowed, allowed_mode=mode, path="tool_choice", extras=fields.rest()
        )
    return ToolChoice(mode=ChoiceMode.HOSTED, tool=_decode_ref(value, "tool_choice"), path="tool_choice")


def _decode_ref(value: Json, path: str) -> ToolRef:
    fields = Fields(value, path)
    kind = fields.text("type") or "function"
    name = fields.text("name") or ""
    namespace = fields.text("namespace")
    if kind in _CHOICE_KINDS:
        rest = fields.rest()
        return ToolRef(name=name, kind=_CHOICE_KINDS[kind], namespace=namespace, native=value, path=path, extras=rest)
    label = fields.text("server_label")
    return ToolRef(
        name=name or label or "",
        hosted=HOSTED_TOOLS.get(kind, HostedKind.OTHER),
        native=value,
        path=path,
        extras=fields.rest(),
    )


def encode_choice(choice: ToolChoice, out: EncodingContext) -> Json:
    """Return `tool_choice`; None, and a declared loss, if the choice has no form here."""
    if choice.mode in _CHOICE_MODES.values():
        return choice.mode.value
    extras = (choice.extras or {}) if out.native else {}
    if choice.mode is ChoiceMode.ALLOWED:
        tools = [entry for ref in choice.allowed if (entry := _write_ref(ref, out)) is not None]
        return {"type": "allowed_tools", "mode": choice.allowed_mode.value, "tools": tools, **extras}
    entry = None if choice.tool is None else _write_ref(choice.tool, out)
    if entry is None:
        out.ledger.add("tool_choice.dropped", choice.path)
        return None
    return {**entry, **extras}


def _write_ref(ref: ToolRef, out: EncodingContext) -> dict[str, Json] | None:
    # MCP and hosted choices have further fields.
    if out.native and ref.native is not None:
        return dict(ref.native)
    if ref.hosted is not None:
        kind = _CHOICE_OF_KIND.get(ref.hosted)
        return None if kind is None else {"type": kind}
    # Flat, unlike Chat, which nests the name.
    entry = {"type": ref.kind.value, "name": ref.name}
    return entry if ref.namespace is None else {**entry, "namespace": ref.namespace}
