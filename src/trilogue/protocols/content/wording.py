"""What a protocol has no form for, said in words."""

from __future__ import annotations

from trilogue.model import Document, Native, SearchResult

TOOL_ERROR = "[tool error]"

TOOL_REFERENCE = "tool_reference"
"""a part of a Messages tool result: this tool has been found and can be called now"""
TOOL_NAME = "tool_name"

_NAMES = (TOOL_NAME, "name", "title", "filename", "url", "text")
"""fields that say what a part is about; the first one counts"""


def native_part(block: Native) -> str:
    """Describe a part of a tool result that the target has no form for: its type, and what it names."""
    said = next((text for name in _NAMES if isinstance(text := block.data.get(name), str) and text), None)
    return f"[{block.type}]" if said is None else f"[{block.type}: {said}]"


def tool_error(text: str) -> str:
    """The result of a tool that failed; one that says so already stays as it is."""
    if text.startswith(TOOL_ERROR):
        return text
    return f"{TOOL_ERROR} {text}" if text else TOOL_ERROR


def document_head(block: Document) -> str:
    """What stands before the text of a document."""
    return "\n".join(line for line in (block.title, block.context) if line)


def search_result_text(block: SearchResult) -> str:
    """A search hit: title, source, text."""
    body = "\n".join(part.text for part in block.parts)
    return f"{block.title}\n{block.source}\n\n{body}"
