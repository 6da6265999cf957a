"""Items of hosted tools, in both directions.

The protocol has one item for a call and its result. Decoding returns a `HostedCall`, which keeps the item as `native`,
and after it a `HostedResult` if the item has a result. Encoding joins the two again. Unread fields of the item stay in
the extras of the call, so that they are declared if the item is not written back unchanged. `TOOL_SEARCH` is the
provider's search for tools as clients of this protocol know it, for upstreams without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from trilogue.base.json_text import dump_text, parse_object
from trilogue.model import Block, HostedCall, HostedKind, HostedResult, HostedTool, Json, Ledger, Native, SearchHit
from trilogue.protocols.fields import LooseFields
from trilogue.protocols.parts import derive_id
from trilogue.protocols.tool_search import (
    ABOUT,
    AnsweredSearch,
    FoundTool,
    SearchCall,
    SearchFunction,
    ToolKey,
    ToolSearchForm,
    ToolSearchResult,
    Wire,
)

_HARMLESS = frozenset(
    {
        "additional_tools",
        "apply_patch_call_output",
        "compaction",
        "computer_call_output",
        "item_reference",
        "local_shell_call_output",
        "mcp_approval_response",
        "program",
        "program_output",
        "shell_call_output",
        "tool_search_output",
    }
)
"""items of which the client only takes note"""
_AT_PROVIDER = frozenset({"shell_call", "tool_search_call"})
"""calls that the provider runs, unless they are for the client"""
_ALWAYS_FOR_CLIENT = frozenset({"computer_call", "local_shell_call", "apply_patch_call", "mcp_approval_request"})
_CALL, _OUTPUT = "tool_search_call", "tool_search_output"
_QUERY = "What the tools should do, in a few words, or the name of a namespace to get all of its tools."


def decode_hosted(item: dict[str, Json], kind: str, path: str) -> tuple[Block, ...]:
    """Return the blocks of a hosted item; `kind` is its type, one of `HOSTED_ITEMS`."""
    fields = LooseFields(item, path)
    fields.any("type")
    tool, name, read = HOSTED_ITEMS[kind]
    call_id = fields.text("id") or derive_id("hosted_", path)
    status = fields.text("status")
    tool, given, result = read(fields, tool)
    call = HostedCall(
        id=call_id,
        tool=tool,
        name=(fields.text("name") if kind == "mcp_call" else None) or name,
        input=given,
        server=fields.text("server_label"),
        status=status,
        native=item,
        path=path,
        # An item without a form in other protocols is declared as a whole.
        extras=fields.rest() if tool in ITEM_TYPES else None,
    )
    if result is None and status not in _FAILED_STATUSES:
        return (call,)
    hits, text, error = result or ((), None, None)
    # A failed search has no error text.
    if error is None and not hits and status in _FAILED_STATUSES:
        error = status
    return call, HostedResult(call_id=call_id, tool=tool, hits=hits, text=text, error=error, path=path)


_FAILED_STATUSES = ("failed", "incomplete")
"""the statuses of a call without a usable result"""


_Result = tuple[tuple[SearchHit, ...], str | None, str | None] | None
_Read = tuple[HostedKind, str, _Result]


def _web_search(fields: LooseFields, tool: HostedKind) -> _Read:
    """Read a search. Opening a page is a fetch. Without an action (xAI) the arguments have the query."""
    fields.any("call_id")
    # Some servers repeat the name of the tool.
    if fields.left.get("name") == tool.value:
        fields.any("name")
    action = LooseFields(fields.mapping("action"))
    action.any("type")
    found = [*_hits(action, "sources"), *_hits(fields, "results")]
    tool, given = _searched(fields, action, tool)
    fields.keep("action", action)
    return tool, given, (tuple(hit for hit in found if hit is not None), None, None) if found else None


def _searched(fields: LooseFields, action: LooseFields, tool: HostedKind) -> tuple[HostedKind, str]:
    url = action.text("url")
    if url is not None:
        pattern = action.text("pattern")
        return HostedKind.WEB_FETCH, dump_text({"url": url} | ({"pattern": pattern} if pattern else {}))
    queries = [query for query in action.items("queries") or () if isinstance(query, str)]
    # A search may have several queries.
    query = action.text("query") or (queries[0] if queries else None)
    if query is None:
        return tool, fields.text("arguments") or "{}"
    return tool, dump_text({"query": query} | ({} if queries in ([], [query]) else {"queries": queries}))


def _hits(fields: LooseFields, name: str) -> list[SearchHit | None]:
    """Return the pages in an array of sources, None for those without a URL; their unread fields stay in the rest."""
    sources = _entries(fields, name)
    hits = [_hit(source) for source in sources]
    fields.keep_each(name, sources)
    return hits


def _entries(fields: LooseFields, name: str) -> list[LooseFields]:
    """Return readers for the objects in an array, with their types already read."""
    entries = [LooseFields(entry) for entry in fields.items(name) or ()]
    for entry in entries:
        entry.any("type")
    return entries


def _hit(fields: LooseFields) -> SearchHit | None:
    url = fields.text("url")
    return SearchHit(url=url, title=fields.text("title") or "") if url else None


def _file_search(fields: LooseFields, tool: HostedKind) -> _Read:
    results = fields.items("results")
    texts = [text for entry in results or () if (text := LooseFields(entry).text("text"))]
    return (
        tool,
        dump_text({"queries": fields.items("queries") or []}),
        ((), "\n\n".join(texts), None) if results else None,
    )


def _code(fields: LooseFields, tool: HostedKind) -> _Read:
    """Read a code call. Images that the code produced stay in the item: no other protocol has a place for them."""
    outputs = _entries(fields, "outputs")
    logs = [text for entry in outputs if (text := entry.text("logs")) is not None]
    fields.keep_each("outputs", outputs)
    return tool, dump_text({"code": fields.text("code") or ""}), ((), "".join(logs), None) if outputs else None


def _mcp(fields: LooseFields, tool: HostedKind) -> _Read:
    output = fields.text("output")
    error = fields.any("error")
    given = fields.text("arguments") or "{}"
    if output is None and error is None:
        return tool, given, None
    return tool, given, ((), output, None if error is None else _error_text(error, fields))


def _error_text(error: Json, item: LooseFields) -> str:
    """Return the text of an MCP error: a message, the content of the tool's result, or the whole error as JSON."""
    fields = LooseFields(error)
    fields.any("type")
    text = fields.text("message") or fields.text("content")
    parts = _entries(fields, "content")
    text = text or "\n".join(piece for part in parts if (piece := part.text("text")))
    if not text:
        return dump_text(error)
    fields.keep_each("content", parts)
    item.keep("error", fields)
    return text


def _mcp_tools(fields: LooseFields, tool: HostedKind) -> _Read:
    error = fields.any("error")
    names = [name for entry in fields.items("tools") or () if (name := LooseFields(entry).text("name"))]
    return tool, "{}", ((), ", ".join(names), error if isinstance(error, str) else None)


def _image(fields: LooseFields, tool: HostedKind) -> _Read:
    prompt = fields.text("revised_prompt")
    return tool, dump_text({"prompt": prompt} if prompt else {}), None


HOSTED_ITEMS: dict[str, tuple[HostedKind, str, Callable[[LooseFields, HostedKind], _Read]]] = {
    "web_search_call": (HostedKind.WEB_SEARCH, "web_search", _web_search),
    "file_search_call": (HostedKind.FILE_SEARCH, "file_search", _file_search),
    "code_interpreter_call": (HostedKind.CODE, "code_interpreter", _code),
    "mcp_call": (HostedKind.MCP, "mcp", _mcp),
    "mcp_list_tools": (HostedKind.MCP_TOOLS, "mcp_list_tools", _mcp_tools),
    "image_generation_call": (HostedKind.IMAGE, "image_generation", _image),
}


def decode_native(item: dict[str, Json], kind: str, path: str) -> Native:
    """Return an item that only this protocol has."""
    awaits_client = _awaits_client(item, kind)
    harmless = not awaits_client and (kind in _HARMLESS or kind in _AT_PROVIDER)
    return Native(type=kind, data=item, awaits_client=awaits_client, harmless=harmless, path=path)


def _awaits_client(item: dict[str, Json], kind: str) -> bool:
    if kind == "shell_call":
        environment = LooseFields(item.get("environment")).text("type")
        return environment in (None, "local")
    if kind == "tool_search_call":
        return item.get("execution") == "client"
    return kind in _ALWAYS_FOR_CLIENT


def declare_unwritten(call: HostedCall, result: HostedResult | None, ledger: Ledger, code: str) -> None:
    """Declare what the item for a hosted call of another protocol lacks. `code`: for fields of its input."""
    for name in _unwritten_input(call):
        ledger.add(code, f"{call.path}.{name}")
    if result is None:
        return
    if call.tool is HostedKind.WEB_FETCH or (call.tool is HostedKind.WEB_SEARCH and result.error is not None):
        ledger.add("hosted.result_dropped", result.path)
    if any(hit.title not in ("", hit.url) or hit.page_age or hit.content for hit in result.hits):
        ledger.add("web_search.replay", result.path)


def _unwritten_input(call: HostedCall) -> list[str]:
    given = parse_object(call.input) if call.input else {}
    if call.tool is HostedKind.MCP or (call.tool is HostedKind.CODE and not isinstance((given or {}).get("code"), str)):
        return []  # written unchanged
    return ["input"] if given is None else [f"input.{name}" for name in given if name not in _INPUTS[call.tool]]


_INPUTS = {
    HostedKind.WEB_SEARCH: ("query", "queries"),
    HostedKind.WEB_FETCH: ("url", "pattern"),
    HostedKind.CODE: ("code",),
}
"""the fields of a call's input that its item has"""


def encode_hosted(call: HostedCall, item_id: str, result: HostedResult | None) -> dict[str, Json] | None:
    """Return the item for a hosted call of another protocol; None if there is none for its kind."""
    write = _WRITERS.get(call.tool)
    if write is None:
        return None
    return write(call, {"id": item_id}, result)


def _write_search(call: HostedCall, item: dict[str, Json], result: HostedResult | None) -> dict[str, Json]:
    given = parse_object(call.input) or {}
    query = given.get("query")
    query = query if isinstance(query, str) else ""
    queries = [one for one in LooseFields(given).items("queries") or () if isinstance(one, str)]
    action: dict[str, Json] = {"type": "search", "query": query, "queries": queries or [query]}
    if result is not None and result.hits:
        action["sources"] = [{"type": "url", "url": hit.url} for hit in result.hits]
    return {**item, "type": "web_search_call", "status": _status(result), "action": action}


def _write_fetch(call: HostedCall, item: dict[str, Json], result: HostedResult | None) -> dict[str, Json]:
    given = parse_object(call.input) or {}
    url, pattern = given.get("url"), given.get("pattern")
    action = {"type": "open_page", "url": url if isinstance(url, str) else ""}
    if isinstance(pattern, str):
        action |= {"type": "find_in_page", "pattern": pattern}
    return {**item, "type": "web_search_call", "status": _status(result), "action": action}


def _write_code(call: HostedCall, item: dict[str, Json], result: HostedResult | None) -> dict[str, Json]:
    given = parse_object(call.input) or {}
    code = given.get("code")
    logs = None if result is None else (result.text if result.text is not None else result.error)
    return {
        **item,
        "type": "code_interpreter_call",
        "status": _status(result),
        "code": code if isinstance(code, str) else call.input,
        "container_id": derive_id("cntr_", item["id"]),
        "outputs": None if logs is None else [{"type": "logs", "logs": logs}],
    }


def _write_mcp(call: HostedCall, item: dict[str, Json], result: HostedResult | None) -> dict[str, Json]:
    error = None if result is None else result.error
    return {
        **item,
        "type": "mcp_call",
        "status": _status(result),
        "server_label": call.server or "",
        "name": call.name,
        "arguments": call.input or "{}",
        "output": None if result is None else result.text,
        "error": None if error is None else {"type": "mcp_tool_execution_error", "content": error},
    }


def _status(result: HostedResult | None) -> str:
    return "failed" if result is not None and result.error is not None else "completed"


_WRITERS: dict[HostedKind, Callable[[HostedCall, dict[str, Json], HostedResult | None], dict[str, Json]]] = {
    HostedKind.WEB_SEARCH: _write_search,
    HostedKind.WEB_FETCH: _write_fetch,
    HostedKind.CODE: _write_code,
    HostedKind.MCP: _write_mcp,
}

ITEM_TYPES = {
    HostedKind.WEB_SEARCH: "web_search_call",
    HostedKind.WEB_FETCH: "web_search_call",
    HostedKind.CODE: "code_interpreter_call",
    HostedKind.MCP: "mcp_call",
}
"""The type of the item for a hosted call of another protocol."""


def results_by_call(blocks: Iterable[Block]) -> dict[str, HostedResult]:
    """Return the hosted results among some blocks, by the id of their call."""
    return {block.call_id: block for block in blocks if isinstance(block, HostedResult)}


def search_function(tool: HostedTool) -> SearchFunction:
    """Return the function that replaces the search."""
    return SearchFunction(
        name="tool_search",
        argument="query",
        description=LooseFields(tool.native).text("description") or ABOUT,
        parameters={
            "type": "object",
            "properties": {"query": {"type": "string", "description": _QUERY}},
            "required": ["query"],
        },
    )


def _is_server(block: Block, kind: str) -> bool:
    # An item without `execution` is one of the client.
    return type(block) is Native and block.type == kind and block.data.get("execution") == "server"


def search_call(block: Block) -> SearchCall | None:
    """Return a search of the history."""
    if type(block) is not Native or not _is_server(block, _CALL):
        return None
    fields = LooseFields(block.data)
    given = fields.mapping("arguments")
    return SearchCall(fields.text("call_id") or fields.text("id") or "", dump_text(given or {}))


def search_result(block: Block) -> ToolSearchResult | None:
    """Return the result of a search of the history."""
    if type(block) is not Native or not _is_server(block, _OUTPUT):
        return None
    tools = tuple(_keys(block.data.get("tools")))
    failed = not tools and block.data.get("status") == "incomplete"
    return ToolSearchResult(tools, "the search failed" if failed else "")


def _keys(tools: Json) -> Iterator[ToolKey]:
    for tool in tools if isinstance(tools, list) else []:
        fields = LooseFields(tool)
        name = fields.text("name") or ""
        if fields.text("type") == "namespace":
            inner = [LooseFields(one).text("name") for one in fields.items("tools") or ()]
            yield from [(name, one) for one in inner if one]
        elif name:
            yield None, name


def search_blocks(search: AnsweredSearch) -> tuple[Block, Block]:
    """Return a search with its result."""
    where: Wire = {"call_id": None, "execution": "server"}
    asked: Wire = {"type": _CALL, "id": f"tsc_{search.id}", "arguments": search.arguments, "status": "completed"}
    status = "incomplete" if search.error else "completed"
    output: Wire = {"type": _OUTPUT, "id": f"tso_{search.id}", "tools": _written(search.tools), "status": status}
    return (
        Native(type=_CALL, data={**asked, **where}, for_client=True, harmless=True),
        Native(type=_OUTPUT, data={**output, **where}, for_client=True, harmless=True),
    )


def _written(tools: Iterable[FoundTool]) -> list[Json]:
    """Return definitions as the client has sent them, with those of a namespace in one group."""
    written: list[Json] = []
    groups: dict[str, Wire] = {}
    for tool in tools:
        if tool.namespace is None:
            written.append(tool.wire)
            continue
        if tool.namespace not in groups:
            groups[tool.namespace] = {**tool.group, "tools": []}
            written.append(groups[tool.namespace])
        groups[tool.namespace]["tools"].append(tool.wire)
    return written


def continued_search(request: Wire, response: Wire) -> Wire:
    """Return a request with the items of the response so far at its end."""
    given = request.get("input")
    items = given if isinstance(given, list) else [{"role": "user", "content": given or ""}]
    return {**request, "input": [*items, *response["output"]]}


TOOL_SEARCH = ToolSearchForm(
    function=search_function, call=search_call, result=search_result, blocks=search_blocks, continued=continued_search
)
