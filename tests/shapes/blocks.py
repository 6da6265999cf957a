"""Blocks of Messages for tools that the provider runs, and citations, with invented content."""

from typing import Any

Body = dict[str, Any]
HOSTED_INPUT: dict[str, Body] = {
    "web_search": {"query": "boats"},
    "web_fetch": {"url": "https://example.com/a"},
    "code_execution": {"code": "print(1)"},
    "bash_code_execution": {"command": "ls"},
    "text_editor_code_execution": {"command": "view", "path": "a.txt"},
    "tool_search_tool_bm25": {"query": "weather"},
    "tool_search_tool_regex": {"pattern": "weather"},
    "advisor": {},
}
"""what a hosted tool is called with"""
_RAN = {"stdout": "1", "stderr": "", "return_code": 0, "content": []}
_PAGE = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "About boats."},
    "title": "Boats",
}
_RESULTS: dict[str, Body] = {
    "web_search_tool_result": {
        "content": [
            {
                "type": "web_search_result",
                "url": "https://example.com/a",
                "title": "A",
                "encrypted_content": "c2VhbGVk",
                "page_age": None,
            }
        ]
    },
    "web_fetch_tool_result": {
        "content": {
            "type": "web_fetch_result",
            "url": "https://example.com/a",
            "retrieved_at": "2026-01-01T00:00:00Z",
            "content": _PAGE,
        }
    },
    "code_execution_tool_result": {"content": {"type": "code_execution_result", **_RAN}},
    "bash_code_execution_tool_result": {"content": {"type": "bash_code_execution_result", **_RAN}},
    "text_editor_code_execution_tool_result": {
        "content": {"type": "text_editor_code_execution_create_result", "is_file_update": False}
    },
    "tool_search_tool_result": {
        "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "tool_1"}],
        }
    },
    "advisor_tool_result": {"content": {"type": "advisor_result", "text": "Be brief."}},
    "mcp_tool_result": {"is_error": False, "content": [{"type": "text", "text": "found it"}]},
}
_DOCUMENT = {"cited_text": "boats", "document_index": 0, "document_title": None}
_FOUND = {"cited_text": "boats", "source": "https://example.com/a", "title": "A", "search_result_index": 0}
_BLOCKS = {"start_block_index": 0, "end_block_index": 1}
CITATIONS: dict[str, Body] = {
    "web_search_result_location": {
        "type": "web_search_result_location",
        "cited_text": "boats",
        "url": "https://example.com/a",
        "title": "A",
        "encrypted_index": "c2VhbGVk",
    },
    "char_location": {"type": "char_location", **_DOCUMENT, "start_char_index": 0, "end_char_index": 5},
    "page_location": {"type": "page_location", **_DOCUMENT, "start_page_number": 1, "end_page_number": 2},
    "content_block_location": {"type": "content_block_location", **_DOCUMENT, **_BLOCKS},
    "search_result_location": {"type": "search_result_location", **_FOUND, **_BLOCKS},
}


def result(kind: str, *, failed: bool = False) -> Body:
    """Return what a hosted tool gave, or that it failed."""
    error = {"content": {"type": f"{kind}_error", "error_code": "unavailable"}}
    return error if failed else _RESULTS[kind]
