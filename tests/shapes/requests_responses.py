"""Requests of Responses clients, written by hand, for features that the tests of the mapping do not have."""

from typing import Any

Body = dict[str, Any]
USER: Body = {"role": "user", "content": "Hello"}
EMPTY: Body = {"type": "object", "properties": {}}
SCHEMA: Body = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Ship",
    "description": "A ship",
    "type": "object",
    "properties": {
        "masts": {"type": "array", "items": {"type": "number", "strict": True}},
        "owner": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["masts"],
}


def function(name: str = "look", **fields: Any) -> Body:
    """Return a tool."""
    return {"type": "function", "name": name, "parameters": EMPTY, "strict": False, **fields}


def offered(*tools: Body) -> Body:
    """Return a request with these tools and one of the client's own."""
    return {"tools": [*tools, function()]}


def history(*items: Body, **fields: Any) -> Body:
    """Return a request with these items between two turns of the user."""
    return {"input": [USER, *items, USER], "tools": [function()], **fields}


def call(**fields: Any) -> Body:
    """Return a call."""
    return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}", **fields}


def output(*parts: Body, **fields: Any) -> Body:
    """Return its result."""
    given = list(parts) or "seen"
    return {"type": "function_call_output", "call_id": "call_1", "output": given, "status": "completed", **fields}


def picture(detail: str) -> Body:
    """Return a picture in a result."""
    return {"type": "input_image", "image_url": "https://example.com/a.png", "detail": detail}


def searched(execution: str, call_id: str | None) -> tuple[Body, Body]:
    """Return a search of tools and what it found."""
    base = {"call_id": call_id, "execution": execution, "status": "completed"}
    found = function("find", description="Finds", defer_loading=True)
    asked = {"type": "tool_search_call", "id": "tsc_1", "arguments": {"paths": ["find"]}, **base}
    return asked, {"type": "tool_search_output", "id": "tso_1", "tools": [found], **base}


PATCH: Body = {"type": "create_file", "path": "a.txt", "diff": "+a"}
SHOT: Body = {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0KGgo="}
SEARCHED: Body = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
PAINT: Body = {
    "type": "image_generation",
    "background": "auto",
    "input_fidelity": None,
    "input_image_mask": {"image_url": "data:image/png;base64,iVBORw0KGgo="},
    "model": "gpt-image-1",
    "moderation": "auto",
    "output_compression": 50,
    "output_format": "png",
    "partial_images": 1,
    "quality": "low",
    "size": "1024x1024",
}
MCP: Body = {
    "type": "mcp",
    "server_label": "files",
    "server_url": "https://example.com/mcp",
    "require_approval": "never",
}
SCREEN: Body = {"type": "computer_use_preview", "display_height": 600, "display_width": 800, "environment": "windows"}
INCLUDED = ["code_interpreter_call.outputs", "message.input_image.image_url", "web_search_call.action.sources"]
CASES: dict[str, Body] = {
    "conversation": {"conversation": {"id": "conv_1"}},
    "what to include": {"include": INCLUDED},
    "no earlier response": {"previous_response_id": None, "instructions": ""},
    "template": {"prompt": {"id": "pmpt_1", "version": "2", "variables": {"name": "Anna"}}},
    "moderation": {
        "moderation": {"model": "omni", "policy": {"input": {"mode": "block"}, "output": {"mode": "block"}}}
    },
    "no effort": {"reasoning": {"effort": None, "generate_summary": "auto"}},
    "schema": {"tools": [function("build", parameters=SCHEMA, description="Builds")]},
    "tools without a description": {"tools": [function(description=""), function("find", description=None)]},
    "tool in the form of Chat": {
        "tools": [{"type": "function", "function": {"name": "look", "description": "Looks", "parameters": EMPTY}}]
    },
    "deferred tool of a namespace": {
        "tools": [
            {"type": "namespace", "name": "ships", "description": "Ships", "tools": [function(defer_loading=True)]},
            {"type": "tool_search"},
        ]
    },
    "search with little context": offered({"type": "web_search", "search_context_size": "low"}),
    "search near by": offered(
        {
            "type": "web_search",
            "search_context_size": "medium",
            "user_location": {"type": "approximate", "region": "Lazio"},
        }
    ),
    "search that must be used": {
        "tools": [{"type": "web_search_preview"}],
        "tool_choice": {"type": "web_search_preview"},
    },
    "computer": offered(SCREEN),
    "pictures": offered(PAINT),
    "remote tools": offered({**MCP, "allowed_tools": ["read"], "server_description": "Files"}),
    "connector": offered(
        {"type": "mcp", "server_label": "mail", "connector_id": "connector_gmail", "require_approval": "never"}
    ),
    "prompts in parts": {
        "input": [
            {"type": "message", "role": role, "content": [{"type": "input_text", "text": "Be brief."}]}
            for role in ("developer", "system")
        ]
        + [USER]
    },
    "empty words": {"input": [USER, {"role": "assistant", "content": ""}, USER]},
    "call with its status": history(call(status="completed"), output()),
    "call of a namespace": history(
        call(namespace="ships"),
        output(),
        tools=[{"type": "namespace", "name": "ships", "description": "Ships", "tools": [function()]}],
    ),
    "pictures in a result": history(call(), output(*(picture(detail) for detail in ("auto", "low", "high")))),
    "picture by file id in a result": history(call(), output({"type": "input_image", "file_id": "file_1"})),
    "file in a result": history(
        call(),
        output({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQK"}),
    ),
    "patch": history(
        {"type": "apply_patch_call", "id": "apc_1", "call_id": "call_1", "status": "completed", "operation": PATCH},
        {"type": "apply_patch_call_output", "call_id": "call_1", "status": "completed", "output": "done"},
    ),
    "free text": history(
        {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "call_id": "call_1",
            "name": "say",
            "input": "hi",
            "status": "completed",
        },
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "said"},
        tools=[{"type": "custom", "name": "say"}],
    ),
    "compacted": history({"type": "compaction", "id": "cmp_1", "encrypted_content": "c2Vh"}),
    "screenshot": history({"type": "computer_call_output", "call_id": "call_1", "output": SHOT}),
    "reasoning without its content": history(
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}, call(), output()
    ),
    "tools that the provider found": history(*searched("server", None)),
    "tools that the client found": history(*searched("client", "call_1")),
    "search without sources": history({**SEARCHED, "action": {"type": "search", "query": "a", "sources": None}}),
}
