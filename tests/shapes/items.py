"""Items of Responses with invented content, as they are when they are done."""

from typing import Any

Body = dict[str, Any]
_SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}
_TOOL = {"type": "function", "name": "tool_1", "parameters": _SCHEMA, "strict": False, "defer_loading": True}
_FAILED = {"type": "http_error", "code": 502, "message": "invented failure"}
_ACTIONS: dict[str, Body] = {
    "search": {"type": "search", "query": "boats", "queries": ["boats"]},
    "open_page": {"type": "open_page", "url": "https://example.com/a"},
    "find_in_page": {"type": "find_in_page", "url": "https://example.com/a", "pattern": "boats"},
}
ANNOTATIONS: dict[str, Body] = {
    "url_citation": {
        "type": "url_citation",
        "url": "https://example.com/a",
        "title": "A",
        "start_index": 0,
        "end_index": 4,
    },
    "file_citation": {"type": "file_citation", "file_id": "file_1", "filename": "a.pdf", "index": 4},
    "container_file_citation": {
        "type": "container_file_citation",
        "container_id": "cntr_1",
        "file_id": "cfile_1",
        "filename": "a.png",
        "start_index": 0,
        "end_index": 0,
    },
}
_FIELDS: dict[str, Body] = {
    "message": {"role": "assistant", "content": [], "status": "completed"},
    "reasoning": {"summary": []},
    "function_call": {"call_id": "call_{n}", "name": "tool_{n}", "arguments": "", "status": "completed"},
    "custom_tool_call": {"call_id": "call_{n}", "name": "tool_{n}", "input": "", "status": "completed"},
    "web_search_call": {"status": "completed"},
    "file_search_call": {"status": "completed", "queries": ["boats"], "results": None},
    "code_interpreter_call": {
        "status": "completed",
        "code": "",
        "container_id": "cntr_1",
        "outputs": [{"type": "logs", "logs": "1"}],
    },
    "image_generation_call": {"status": "completed", "result": "AAAA"},
    "mcp_list_tools": {"server_label": "files", "tools": [{"name": "read", "input_schema": _SCHEMA}]},
    "mcp_call": {"server_label": "files", "name": "read", "arguments": "", "output": "found it", "error": None},
    "mcp_approval_request": {"server_label": "files", "name": "read", "arguments": "{}"},
    "apply_patch_call": {
        "status": "completed",
        "call_id": "call_{n}",
        "operation": {"type": "create_file", "path": "a.txt", "diff": ""},
    },
    "shell_call": {
        "status": "completed",
        "call_id": "call_{n}",
        "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": None},
    },
    "shell_call_output": {
        "status": "completed",
        "call_id": "call_{n}",
        "max_output_length": None,
        "output": [{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    "local_shell_call": {
        "status": "completed",
        "call_id": "call_{n}",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    "tool_search_call": {
        "status": "completed",
        "call_id": None,
        "execution": "server",
        "arguments": {"paths": ["tool_1"]},
    },
    "tool_search_output": {"status": "completed", "call_id": None, "execution": "server", "tools": [_TOOL]},
    "program": {"call_id": "call_{n}", "code": "run()", "fingerprint": "c2VhbGVk"},
    "program_output": {"status": "completed", "call_id": "call_{n}", "result": "done"},
    "compaction": {"encrypted_content": "c2VhbGVk"},
    "some_future_type": {"status": "completed", "content": [{"type": "output_text", "text": "new", "annotations": []}]},
    "computer_call": {
        "status": "completed",
        "call_id": "call_{n}",
        "action": {"type": "screenshot"},
        "pending_safety_checks": [],
    },
}


def done_item(shape: str, number: int) -> Body:
    """Return an item of a shape such as `reasoning(summary)` or `web_search_call(search)`, without its words."""
    kind, _, marks = shape.rstrip(")").partition("(")
    fields = {name: _numbered(value, number) for name, value in _FIELDS.get(kind, {}).items()}
    item: Body = {"id": f"{kind}_{number}", "type": kind, **fields}
    if kind == "web_search_call" and marks:
        item["action"] = _ACTIONS[marks]
    elif marks == "failed":
        item |= {"output": None, "error": _FAILED}
    elif kind == "reasoning":
        item |= {name: _REASONING[name] for name in marks.split(",") if name}
    return item


_REASONING: Body = {
    "summary": [{"type": "summary_text", "text": "thought "}],
    "content": [{"type": "reasoning_text", "text": "thought "}],
    "encrypted_content": "c2VhbGVk",
}


def _numbered(value: Any, number: int) -> Any:
    return value.replace("{n}", str(number)) if isinstance(value, str) else value
