from typing import Any

import pytest

from trilogue.model import (
    Block,
    Citation,
    CitationKind,
    Document,
    Image,
    Native,
    Opaque,
    OpaqueKind,
    Reasoning,
    SearchResult,
    Source,
    SourceKind,
    Text,
    ToolCall,
    ToolResult,
)
from trilogue.protocols.fields import LooseFields
from trilogue.protocols.messages.content import decode_block


def block(**fields: Any) -> Block:
    return decode_block(fields, "content[0]")


def test_text_with_citations_of_every_kind() -> None:
    """A citation keeps its native form beside what others can use of it."""
    web = {
        "type": "web_search_result_location",
        "url": "https://a",
        "title": "A",
        "cited_text": "q",
        "encrypted_index": "E",
    }
    page = {"type": "page_location", "document_title": "D", "cited_text": "p", "document_index": 0}
    found = {"type": "search_result_location", "source": "https://s", "title": "S", "cited_text": "r"}
    text = block(type="text", text="x", citations=[web, page, found])
    assert isinstance(text, Text)
    assert text.citations == (
        Citation(
            kind=CitationKind.WEB,
            native=web,
            url="https://a",
            title="A",
            cited_text="q",
            token=Opaque(kind=OpaqueKind.CITATION, value="E"),
        ),
        Citation(kind=CitationKind.DOCUMENT, native=page, title="D", cited_text="p"),
        Citation(kind=CitationKind.SEARCH_RESULT, native=found, url="https://s", title="S", cited_text="r"),
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"type": "base64", "media_type": "image/png", "data": "AA=="}, Source(SourceKind.DATA, "AA==", "image/png")),
        ({"type": "url", "url": "https://a"}, Source(SourceKind.URL, "https://a")),
        ({"type": "file", "file_id": "file_1"}, Source(SourceKind.FILE_ID, "file_1")),
    ],
)
def test_image_sources(source: dict[str, str], expected: Source) -> None:
    """All three ways to give a picture."""
    image = block(type="image", source=source)
    assert isinstance(image, Image)
    assert image.source == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"type": "base64", "media_type": "application/pdf", "data": "AA"}, SourceKind.DATA),
        ({"type": "text", "media_type": "text/plain", "data": "words"}, SourceKind.TEXT),
        ({"type": "url", "url": "https://a"}, SourceKind.URL),
        ({"type": "file", "file_id": "file_1"}, SourceKind.FILE_ID),
    ],
)
def test_document_sources(source: dict[str, str], expected: SourceKind) -> None:
    """All ways to give a document as one value, with what is said about it."""
    document = block(type="document", source=source, title="t", context="c", citations={"enabled": True})
    assert isinstance(document, Document)
    assert document.source is not None
    assert document.source.kind is expected
    assert (document.title, document.context, document.citations) == ("t", "c", True)


@pytest.mark.parametrize("content", ["words", [{"type": "text", "text": "words"}]])
def test_a_document_made_of_blocks(content: Any) -> None:
    """A string is the short form of one text block."""
    document = block(type="document", source={"type": "content", "content": content})
    assert isinstance(document, Document)
    assert [part.text for part in document.parts if isinstance(part, Text)] == ["words"]


def test_search_result() -> None:
    """Evidence that the client supplies."""
    result = block(type="search_result", source="https://a", title="A", content=[{"type": "text", "text": "w"}])
    assert isinstance(result, SearchResult)
    assert (result.source, result.title, result.parts[0].text) == ("https://a", "A", "w")


def test_thinking_keeps_its_signature_even_without_text() -> None:
    """Newer models send empty thinking whose signature must come back."""
    empty = block(type="thinking", thinking="", signature="S")
    assert empty == Reasoning(opaque=Opaque(kind=OpaqueKind.SIGNATURE, value="S"), path="content[0]")
    full = block(type="thinking", thinking="hm", signature="S")
    assert isinstance(full, Reasoning)
    assert full.summary == ("hm",)
    redacted = block(type="redacted_thinking", data="R")
    assert isinstance(redacted, Reasoning)
    assert redacted.opaque == Opaque(kind=OpaqueKind.REDACTED, value="R")


def test_tool_use_keeps_key_order() -> None:
    """The arguments are the string that the model wrote, as far as it can be known."""
    call = block(type="tool_use", id="toolu_1", name="f", input={"b": 1, "a": [2.5, "é"]}, caller={"type": "direct"})
    assert isinstance(call, ToolCall)
    assert call.arguments == '{"b":1,"a":[2.5,"é"]}'
    assert call.extras == {"caller": {"type": "direct"}}


def test_a_call_without_id_gets_one() -> None:
    """Neutral ids are never empty, and the same call always gets the same one."""
    first, again = block(type="tool_use", name="f", input={}), block(type="tool_use", name="f", input={})
    assert isinstance(first, ToolCall)
    assert first.id
    assert first == again


def test_tool_result_forms() -> None:
    """A string, blocks of every kind, or nothing."""
    plain = block(type="tool_result", tool_use_id="t", content="ok", is_error=True)
    assert isinstance(plain, ToolResult)
    assert (plain.plain, plain.is_error) == (True, True)
    inner = [
        {"type": "text", "text": "x"},
        {"type": "image", "source": {"type": "url", "url": "u"}},
        {"type": "document", "source": {"type": "url", "url": "u"}},
        {"type": "search_result", "source": "s", "title": "t", "content": []},
        {"type": "tool_reference", "tool_name": "f"},
        {"type": "browser_state", "tabs": []},
    ]
    full = block(type="tool_result", tool_use_id="t", content=inner)
    assert isinstance(full, ToolResult)
    assert [type(part).__name__ for part in full.content] == [
        "Text",
        "Image",
        "Document",
        "SearchResult",
        "Native",
        "Native",
    ]
    assert full.content[1].path == "content[0].content[1]"
    assert block(type="tool_result", tool_use_id="t") == ToolResult(call_id="t", path="content[0]")


@pytest.mark.parametrize(
    ("kind", "harmless"),
    [
        ("container_upload", True),
        ("compaction", True),
        ("fallback", True),
        ("tool_addition", False),
        ("tool_removal", False),
        ("mcp_tool_listing", True),
        ("unheard_of", False),
    ],
)
def test_what_only_this_protocol_knows_is_native(kind: str, harmless: bool) -> None:
    """The whole object is kept, whatever it holds. Policies take what they do not know for a call."""
    data = {"type": kind, "x": {"y": 1}}
    assert decode_block(data, "p") == Native(type=kind, data=data, path="p", harmless=harmless)


@pytest.mark.parametrize("value", [None, 5, "text", [], {}, {"type": 5}, {"type": "image"}, {"type": "tool_result"}])
def test_nonsense_in_a_response_is_a_quirk(value: Any) -> None:
    """An answer is read as far as it goes."""
    assert isinstance(decode_block(value, "p", LooseFields), Native)
