"""Tools that the provider runs, as clients offer them, and their calls and results."""

from typing import Any

from tests.mapping.cases import Body

PLACE = {"type": "approximate", "city": "Rome", "country": "IT"}
SEARCH: dict[str, Body] = {
    "M": {"type": "web_search_20250305", "name": "web_search"},
    "R": {"type": "web_search"},
}


def hosted(kind: str) -> Any:
    """One of the tools has a type that starts so."""
    return lambda tools: any(str(tool.get("type", "")).startswith(kind) for tool in tools)


MCP_SERVER = {
    "type": "url",
    "name": "files",
    "url": "https://mcp.example.com",
    "authorization_token": "tok",
}
MCP_TOOLSET = {"type": "mcp_toolset", "mcp_server_name": "files"}
MCP = {
    "type": "mcp",
    "server_label": "files",
    "server_url": "https://mcp.example.com",
    "authorization": "tok",
    "require_approval": "never",
}

USED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "cats"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {"type": "web_search_result", "url": "https://cats.com", "title": "Cats", "encrypted_content": "SECRET=="}
    ],
}
TEXT = {"type": "text", "text": "Cats."}
LOOKED = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {
        "type": "search",
        "query": "cats",
        "queries": ["cats"],
        "sources": [{"type": "url", "url": "https://cats.com"}],
    },
}

REMOTE_USE = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "read", "server_name": "files", "input": {"p": 1}}
REMOTE_RESULT = {
    "type": "mcp_tool_result",
    "tool_use_id": "mcptoolu_1",
    "is_error": False,
    "content": [{"type": "text", "text": "done"}],
}
REMOTE_CALL = {
    "id": "mcp_1",
    "type": "mcp_call",
    "name": "read",
    "server_label": "files",
    "arguments": '{"p":1}',
    "output": "done",
    "error": None,
    "status": "completed",
}
OTHER = {"query": "a", "queries": ["b"]}
BOTH = {"query": "a", "queries": ["a", "b"]}
SOUGHT = {"url": "https://cats.com", "pattern": "fur"}
DREW = {
    "id": "ci_1",
    "type": "code_interpreter_call",
    "status": "completed",
    "code": "draw()",
    "container_id": "cntr_1",
    "outputs": [{"type": "logs", "logs": "drawn"}, {"type": "image", "url": "https://files.example/1.png"}],
}

SOURCES = {"type": "search", "query": "a", "sources": [{"type": "url", "url": "https://cats.com"}]}
