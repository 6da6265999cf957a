"""Requests of Messages clients, written by hand, for features that the tests of the mapping do not have."""

from typing import Any

from tests.shapes.blocks import result

Body = dict[str, Any]
USER: Body = {"role": "user", "content": "Hello"}
MARK: Body = {"type": "ephemeral"}
SHORT: Body = {"type": "ephemeral", "ttl": "5m"}
LONG: Body = {"type": "ephemeral", "ttl": "1h"}
DIRECT: Body = {"caller": {"type": "direct"}}
EMPTY: Body = {"type": "object", "properties": {}}
SCHEMA: Body = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Ship",
    "description": "A ship",
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "default": "Anna", "strict": True},
        "page": {"type": "string", "format": "uri"},
        "kind": {"enum": ["sail", "steam"]},
        "masts": {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1},
        "afloat": {"type": "boolean"},
        "port": {"type": ["string", "null"]},
        "owner": {"$ref": "#/$defs/owner"},
    },
    "$defs": {"owner": {"type": "object", "properties": {}}},
    "required": ["name"],
}
OPTIONAL: Body = {"type": "object", "properties": {"name": {"type": "string"}}}
PIXEL: Body = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
PDF: Body = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}


def tool(name: str = "look", **fields: Any) -> Body:
    """Return a tool."""
    return {"name": name, "input_schema": EMPTY, **fields}


def offered(*tools: Body) -> Body:
    """Return a request with these tools and one of the client's own."""
    return {"tools": [*tools, tool()]}


def said(*blocks: Body, **fields: Any) -> Body:
    """Return a request with these blocks in the assistant's turn."""
    text = {"type": "text", "text": "Done."}
    return {"messages": [USER, {"role": "assistant", "content": [*blocks, text]}, USER], **fields}


def used(kind: str, name: str, given: Body, **fields: Any) -> Body:
    """Return the call of a hosted tool."""
    return {"type": kind, "id": "srvtoolu_1", "name": name, "input": given, **fields}


def came(kind: str, **fields: Any) -> Body:
    """Return what it gave."""
    return {"type": kind, "tool_use_id": "srvtoolu_1", **result(kind), **fields}


def results(*parts: Body, **call: Any) -> Body:
    """Return a request with a call and these parts in its result."""
    use = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}, **call}
    back = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "seen"}, *parts]}
    turns = [USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [back]}]
    return {"messages": turns, "tools": [tool()]}


NOTHING: Body = {"allowed_domains": None, "blocked_domains": None, "max_uses": None}
FETCH: Body = {**NOTHING, "name": "web_fetch", "citations": None, "max_content_tokens": None}
SEARCH: Body = {**NOTHING, "name": "web_search", "user_location": None}
HIT: Body = {"type": "web_search_result", "url": "https://example.com", "title": "A", "encrypted_content": "c2Vh"}
PAGE: Body = result("web_fetch_tool_result")["content"]
READ: Body = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "read", "server_name": "files", "input": {}}
FOUND: Body = {"type": "text", "text": "found it", "citations": None}
SERVER: Body = {"type": "url", "name": "files", "url": "https://example.com/mcp"}
TOKENS: Body = {"type": "input_tokens", "value": 50000}
CLEAR: Body = {"type": "clear_tool_uses_20250919", "trigger": TOKENS, "clear_at_least": TOKENS}
COMPACT: Body = {"type": "compact_20260112", "trigger": TOKENS, "pause_after_compaction": False}
PROGRAM: Body = {"caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}}
FINDING: Body = {
    "type": "search_result",
    "source": "https://example.com",
    "title": "A",
    "content": [{"type": "text", "text": "boats"}],
    "citations": {"enabled": True},
}
CASES: dict[str, Body] = {
    "version in the body": {"anthropic_version": "bedrock-2023-05-31"},
    "caching for an hour": {"cache_control": LONG},
    "caching for five minutes": {"cache_control": SHORT},
    "edits of the context": {"context_management": {"edits": [CLEAR, COMPACT]}},
    "schema": {"tools": [tool("build", input_schema=SCHEMA, description="Builds", cache_control=LONG)]},
    "tool without a description": {"tools": [tool(description="")]},
    "no tools and no prompt": {"tools": [], "system": []},
    "marked prompt": {"system": [{"type": "text", "text": "Be brief.", "cache_control": LONG}]},
    "prompt in the middle": {
        "messages": [USER, {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}]
    },
    "old name of the format": {
        "output_format": {"type": "json_schema", "schema": {**EMPTY, "additionalProperties": False}}
    },
    "advisor": offered({"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-5", "max_tokens": 500}),
    "old code execution": offered({"type": "code_execution_20250522", "name": "code_execution"}),
    "new code execution": offered({"type": "code_execution_20260120", "name": "code_execution"}),
    "computer": offered(
        {"type": "computer_20250124", "name": "computer", "display_height_px": 600, "display_width_px": 800}
    ),
    "search of tools": offered({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}),
    "fetch with nulls": offered({"type": "web_fetch_20250910", **FETCH}),
    "new fetch with nulls": offered({"type": "web_fetch_20260209", **FETCH}),
    "search with nulls": offered({"type": "web_search_20250305", **SEARCH}),
    "new search with nulls": offered({"type": "web_search_20260209", **SEARCH}),
    "search for programs": offered(
        {"type": "web_search_20260318", "name": "web_search", "allowed_callers": ["direct"]}
    ),
    "shell at the provider": said(
        used("server_tool_use", "bash_code_execution", {"command": "ls"}, **DIRECT),
        came("bash_code_execution_tool_result"),
    ),
    "remote tool": said(
        READ,
        {**result("mcp_tool_result"), "type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "content": [FOUND]},
        mcp_servers=[SERVER],
        tools=[{"type": "mcp_toolset", "mcp_server_name": "files"}],
    ),
    "search of tools in the history": said(
        used("server_tool_use", "tool_search_tool_bm25", {"query": "a"}),
        came("tool_search_tool_result"),
        tools=[
            {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
            tool("tool_1", defer_loading=True),
        ],
    ),
    "fetch in the history": said(
        used("server_tool_use", "web_fetch", {"url": "https://example.com/a"}),
        came("web_fetch_tool_result", content={**PAGE, "content": {**PAGE["content"], "citations": None}}),
    ),
    "search in the history": said(
        used("server_tool_use", "web_search", {"query": "a"}, **DIRECT),
        came("web_search_tool_result", content=[{**HIT, "page_age": None}, {**HIT, "page_age": "a day ago"}], **DIRECT),
    ),
    "hidden thinking": said({"type": "thinking", "thinking": "", "signature": "c2ln"}),
    "marked call": results(cache_control=MARK, **DIRECT),
    "call of a program": results(**PROGRAM),
    "picture by link in a result": results(
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    ),
    "file by id in a result": results({"type": "document", "source": {"type": "file", "file_id": "file_1"}}),
    "finding in a result": results(FINDING),
    "marked parts": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": PIXEL, "cache_control": MARK},
                    {"type": "document", "source": PDF, "cache_control": SHORT},
                ],
            }
        ]
    },
    "result without its call": said(came("web_search_tool_result")),
    "strict tool with an optional field": {
        "tools": [tool(input_schema={**OPTIONAL, "additionalProperties": False}, strict=True)]
    },
    "citations of a document": {
        "messages": [{"role": "user", "content": [{"type": "document", "source": PDF, "citations": {"enabled": True}}]}]
    },
}
