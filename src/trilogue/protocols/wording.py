"""What a protocol has no form for, said in words."""

from __future__ import annotations

from trilogue.model import Document, SearchResult

TOOL_ERROR = "[tool error]"


def tool_error(text: str) -> str:
    """The result of a tool that failed."""
    return f"{TOOL_ERROR} {text}" if text else TOOL_ERROR


def document_head(block: Document) -> str:
    """What stands before the text of a document."""
    return "\n".join(line for line in (block.title, block.context) if line)


def search_result_text(block: SearchResult) -> str:
    """A search hit: title, source, text."""
    body = "\n".join(part.text for part in block.parts)
    return f"{block.title}\n{block.source}\n\n{body}"
