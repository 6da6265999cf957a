"""Calls and results of tools that the provider runs, in both directions.

Decoding keeps the wire object as `native`, so that it can be written back exactly. Calls and results of other protocols
are written if this one has a form for them: web search, fetch, code and MCP. `TOOL_SEARCH` is the provider's search for
tools as clients of this protocol know it, for upstreams without one.
"""

from __future__ import annotations

from collections.abc import Callable

from trilogue.base.json_text import dump_text, parse_object
from trilogue.model import (
    Block,
    HostedCall,
    HostedKind,
    HostedResult,
    HostedTool,
    Json,
    Ledger,
    Opaque,
    OpaqueKind,
    SearchHit,
)
from trilogue.protocols.fields import Fields, LooseFields
from trilogue.protocols.messages.controls import take_cache
from trilogue.protocols.messages.wire import SERVER_RESULTS, SERVER_TOOLS, TOOL_VERSION, arguments_of
from trilogue.protocols.parts import TOOL_NAME, TOOL_REFERENCE, derive_id, digest, safe_call_id
from trilogue.protocols.tool_search import (
    ABOUT,
    AnsweredSearch,
    SearchCall,
    SearchFunction,
    ToolSearchForm,
    ToolSearchResult,
    Wire,
)

_CODE_INPUT = {"bash_code_execution": "command"}
"""the field with the code, for tools that have it in another field than `code`"""
_REGEX = "tool_search_tool_regex"
_WORDS = "tool_search_tool_bm25"


def decode_call(fields: Fields, value: Json) -> HostedCall:
    """Return the hosted call of a server_tool_use block."""
    name = fields.text("name") or ""
    given = fields.any("input")
    return HostedCall(
        id=fields.text("id") or derive_id("srvtoolu_", fields.path),
        tool=SERVER_TOOLS.get(name, HostedKind.OTHER),
        name=name,
        input=_neutral_input(name, given, fields),
        native=value,
        path=fields.path,
        cache=take_cache(fields),
        extras=fields.rest(),
    )


def decode_mcp_call(fields: Fields, value: Json) -> HostedCall:
    """Return the hosted call of an mcp_tool_use block."""
    return HostedCall(
        id=fields.text("id") or derive_id("mcptoolu_", fields.path),
        tool=HostedKind.MCP,
        name=fields.text("name") or "",
        server=fields.text("server_name"),
        input=arguments_of(fields.any("input"), fields),
        native=value,
        path=fields.path,
        cache=take_cache(fields),
        extras=fields.rest(),
    )


def _neutral_input(name: str, given: Json, fields: Fields) -> str:
    if SERVER_TOOLS.get(name) is not HostedKind.CODE or name == "code_execution" or not isinstance(given, dict):
        return arguments_of(given, fields)
    text = _CODE_INPUT.get(name, "")
    code = given.get(text)
    if not isinstance(code, str):
        return arguments_of({"code": arguments_of(given, fields)}, fields)
    for field, value in given.items():
        if field != text:
            fields.put_back(f"input.{field}", value)
    return arguments_of({"code": code}, fields)


def decode_result(fields: Fields, value: Json) -> HostedResult:
    """Return the hosted result of any of the …_tool_result blocks."""
    call_id = fields.text("tool_use_id") or ""
    content = fields.any("content")
    kind = SERVER_RESULTS[value["type"]]
    failed = fields.flag("is_error")
    text = _text_of(content)
    if kind in _READ:
        _keep_unread(fields, "content", content, _READ[kind])
    return HostedResult(
        call_id=call_id,
        tool=kind,
        hits=_hits(content) if kind is HostedKind.WEB_SEARCH else (),
        text=text,
        error=(text or "error") if failed else _error_code(content),
        native=value,
        path=fields.path,
        cache=take_cache(fields),
        extras=fields.rest(),
    )


def _hits(content: Json) -> tuple[SearchHit, ...]:
    found = [LooseFields(item) for item in content] if isinstance(content, list) else []
    return tuple(_hit(item) for item in found)


def _hit(item: Fields) -> SearchHit:
    token = item.text("encrypted_content")
    return SearchHit(
        url=item.text("url") or "",
        title=item.text("title") or "",
        page_age=item.text("page_age"),
        content=Opaque(kind=OpaqueKind.SEARCH, value=token) if token else None,
    )


def _error_code(content: Json) -> str | None:
    fields = LooseFields(content)
    code, message = fields.text("error_code"), fields.text("error_message")
    return f"{code}: {message}" if code and message else code


_READ = {
    HostedKind.WEB_SEARCH: {"type", "url", "title", "page_age", "encrypted_content", "error_code", "error_message"},
    HostedKind.CODE: {"type", "stdout", "stderr", "content", "lines", "error_code", "error_message"},
    HostedKind.MCP: {"type", "text"},
}
"""the fields of result objects that are read, by kind; other kinds have no form in other protocols"""


def _keep_unread(fields: Fields, place: str, content: Json, read: set[str], depth: int = 0) -> None:
    """Leave the unread fields of a result in the extras of its block."""
    if depth == _DEPTH and content:
        fields.put_back(place, content)
    elif isinstance(content, list):
        for index, entry in enumerate(content):
            _keep_unread(fields, f"{place}[{index}]", entry, read, depth + 1)
    elif isinstance(content, dict):
        for name, value in content.items():
            if name not in read:
                fields.put_back(f"{place}.{name}", value)
            elif name == "content":
                _keep_unread(fields, f"{place}.{name}", value, read, depth + 1)


_DEPTH = 4
"""how deep a result is searched; real ones are not half as deep"""


_TEXT_FIELDS = (
    "text",
    "stdout",
    "stderr",
    "content",
    "lines",
    "data",
    "title",
    "tool_name",
    "source",
    "tool_references",
)
"""the fields of result objects with text, in the order in which they are written"""


def _text_of(content: Json, depth: int = 0) -> str | None:
    """Return all text in a result, without opaque values and ids; None if there is none."""
    if isinstance(content, str):
        return content or None
    if isinstance(content, list):
        parts = [_text_of(item, depth + 1) for item in content] if depth < _DEPTH else []
    # Base64 data is not text for a model.
    elif isinstance(content, dict) and content.get("type") != "base64" and depth < _DEPTH:
        parts = [_text_of(content.get(name), depth + 1) for name in _TEXT_FIELDS if name in content]
    else:
        parts = []
    return "\n".join(part for part in parts if part) or None


OWN_CALL = "srvtoolu_trl"
"""the beginning of the id of a hosted call that an upstream of another protocol made; Anthropic does not know it"""


def call_id_for(kind: HostedKind, call_id: str) -> str:
    """Return the id of a hosted call in the form that this protocol requires; the same for a call and its result."""
    prefix = "mcptoolu_" if kind is HostedKind.MCP else "srvtoolu_"
    # Ids of Messages itself come back unchanged; others get a mark that `reasoning.py` recognises.
    return safe_call_id(call_id) if call_id.startswith(prefix) else f"{prefix}trl{digest(call_id)}"


_CALL_NAMES = {
    HostedKind.WEB_SEARCH: "web_search",
    HostedKind.WEB_FETCH: "web_fetch",
    HostedKind.CODE: "code_execution",
}


def encode_call(block: HostedCall) -> dict[str, Json] | None:
    """Return a hosted call of another protocol as a wire object; None if this one has no form for it."""
    given = parse_object(block.input) if block.input else {}
    # `input` must be an object, as for tool_use.
    common = {"id": call_id_for(block.tool, block.id), "input": {"_raw": block.input} if given is None else given}
    if block.tool is HostedKind.MCP:
        return {"type": "mcp_tool_use", "name": block.name, "server_name": block.server or "", **common}
    # There are two searches for tools.
    name = block.name if block.tool is HostedKind.TOOL_SEARCH else _CALL_NAMES.get(block.tool)
    return {"type": "server_tool_use", "name": name, **common} if name else None


def encode_result(block: HostedResult, ledger: Ledger) -> dict[str, Json] | None:
    """Return a hosted result of another protocol as a wire object; None if this one has no form for it."""
    writer = _RESULTS.get(block.tool)
    written = writer(block, ledger) if writer else None
    if written is None:
        return None
    kind, content = written
    wire: dict[str, Json] = {"type": kind, "tool_use_id": call_id_for(block.tool, block.call_id)}
    if block.tool is HostedKind.MCP:
        wire["is_error"] = block.error is not None
    return {**wire, "content": content}


_NO_PAGE_TEXT = "[the provider read this page and did not show its text]"


def unknown_result(call: HostedCall) -> HostedResult:
    """Return a result for a call whose provider does not show one."""
    if call.tool is not HostedKind.WEB_FETCH:
        return HostedResult(call_id=call.id, tool=call.tool, path=call.path)
    url = (parse_object(call.input) or {}).get("url")
    page = SearchHit(url=url if isinstance(url, str) else "")
    return HostedResult(call_id=call.id, tool=call.tool, hits=(page,), text=_NO_PAGE_TEXT, path=call.path)


def _web_search(block: HostedResult, ledger: Ledger) -> tuple[str, Json]:
    kind = "web_search_tool_result"
    if block.error is not None:
        # The API has a fixed list of error codes, and other protocols do not report one.
        return kind, {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    hits: list[Json] = []
    for hit in block.hits:
        # encrypted_content is a required field, and an invented one would be refused later.
        if hit.content is None:
            ledger.add("web_search.replay", block.path, "a result without the token that this protocol demands")
            continue
        wire = {"type": "web_search_result", "url": hit.url, "title": hit.title or hit.url, "page_age": hit.page_age}
        hits.append({**wire, "encrypted_content": hit.content.value})
    return kind, hits


def _web_fetch(block: HostedResult, _: Ledger) -> tuple[str, Json] | None:
    if block.error is not None:
        return "web_fetch_tool_result", {"type": "web_fetch_tool_result_error", "error_code": "unavailable"}
    if block.text is None or not block.hits:
        return None
    source = {"type": "text", "media_type": "text/plain", "data": block.text}
    document = {"type": "document", "source": source, "title": block.hits[0].title or None}
    return "web_fetch_tool_result", {"type": "web_fetch_result", "url": block.hits[0].url, "content": document}


def _code(block: HostedResult, _: Ledger) -> tuple[str, Json]:
    kind = "code_execution_tool_result"
    if block.error is not None and block.text is None:
        return kind, {"type": "code_execution_tool_result_error", "error_code": "unavailable"}
    outcome = {"stdout": block.text or "", "stderr": block.error or "", "return_code": 1 if block.error else 0}
    return kind, {"type": "code_execution_result", **outcome, "content": []}


def _tool_search(block: HostedResult, _: Ledger) -> tuple[str, Json]:
    kind = "tool_search_tool_result"
    if block.error is not None:
        code, _separator, message = block.error.partition(": ")
        return kind, {"type": f"{kind}_error", "error_code": code, "error_message": message or None}
    names = block.text.split("\n") if block.text else []
    found = [{"type": TOOL_REFERENCE, TOOL_NAME: name} for name in names]
    return kind, {"type": "tool_search_tool_search_result", "tool_references": found}


def _mcp(block: HostedResult, _: Ledger) -> tuple[str, Json]:
    text = dict.fromkeys(text for text in (block.text, block.error) if text)
    return "mcp_tool_result", [{"type": "text", "text": text} for text in text]


_RESULTS: dict[HostedKind, Callable[[HostedResult, Ledger], tuple[str, Json] | None]] = {
    HostedKind.WEB_SEARCH: _web_search,
    HostedKind.WEB_FETCH: _web_fetch,
    HostedKind.CODE: _code,
    HostedKind.MCP: _mcp,
    HostedKind.TOOL_SEARCH: _tool_search,
}


def as_note(call: HostedCall, result: HostedResult | None) -> str:
    """Return a hosted call of the history as text."""
    text = (result.text or result.error) if result else None
    label = f"{call.server}.{call.name}" if call.server else call.name or call.tool.value
    return f"[{label} {call.input or dump_text({})}]" + (f" {text}" if text else "")


def search_function(tool: HostedTool) -> SearchFunction:
    """Return the function that replaces a search."""
    kind = TOOL_VERSION.sub("", tool.type)
    if kind == _REGEX:
        argument, what = "pattern", "A Python regular expression, at most 200 characters, such as weather|forecast."
        what += " It distinguishes upper and lower case; begin with (?i) to ignore that."
    else:
        argument, what = "query", "What the tool should do, in a few words."
    fields: Wire = {argument: {"type": "string", "description": what}}
    return SearchFunction(
        name=tool.name or kind,
        argument=argument,
        description=ABOUT,
        parameters={"type": "object", "properties": fields, "required": [argument]},
        pattern=kind == _REGEX,
    )


def search_call(block: Block) -> SearchCall | None:
    """Return a search of the history."""
    if type(block) is not HostedCall or block.tool is not HostedKind.TOOL_SEARCH:
        return None
    return SearchCall(block.id, block.input or "{}")


def search_result(block: Block) -> ToolSearchResult | None:
    """Return the result of a search of the history."""
    if type(block) is not HostedResult or block.tool is not HostedKind.TOOL_SEARCH:
        return None
    if block.error is not None:
        return ToolSearchResult(error=block.error)
    content = LooseFields(LooseFields(block.native).mapping("content"))
    names = [LooseFields(one).text("tool_name") for one in content.items("tool_references") or ()]
    return ToolSearchResult(tuple([(None, name) for name in names if name]))


def search_blocks(search: AnsweredSearch) -> tuple[Block, Block]:
    """Return a search with its result."""
    call_id, kind = f"{OWN_CALL}{search.id}", HostedKind.TOOL_SEARCH
    names = "\n".join(tool.name for tool in search.tools)
    error = f"{search.error}: {search.message}" if search.message else search.error
    return (
        HostedCall(id=call_id, tool=kind, name=search.name, input=dump_text(search.arguments)),
        HostedResult(call_id=call_id, tool=kind, text=names or None, error=error or None),
    )


def continued_search(request: Wire, response: Wire) -> Wire:
    """Return a request with the turn so far at its end."""
    return {**request, "messages": [*request["messages"], {"role": "assistant", "content": response["content"]}]}


TOOL_SEARCH = ToolSearchForm(
    function=search_function, call=search_call, result=search_result, blocks=search_blocks, continued=continued_search
)
