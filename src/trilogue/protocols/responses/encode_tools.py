"""Tool definitions of a request, with those of a namespace in one group. Tool choice is in `choice.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trilogue.errors import InternalError
from trilogue.model import CustomTool, FunctionTool, HostedKind, HostedTool, Json, Ledger, Protocol, Request, Tool
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.content.parts import write_location
from trilogue.protocols.openai.schema import fits_strict, parameters_of
from trilogue.protocols.responses.choice import encode_choice

_NO_PARAMETERS: dict[str, Json] = {"type": "object", "properties": {}}


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
