"""Parts and annotations in detail."""

from typing import Any

import pytest

from trilogue.model import CitationKind, Document, Source, SourceKind, Text
from trilogue.protocols.fields import Fields
from trilogue.protocols.responses.content import decode_annotation, decode_part, encode_annotation


@pytest.mark.parametrize(
    ("data", "source"),
    [
        ("data:image/png;base64,AAAA", Source(SourceKind.DATA, "AAAA", "image/png")),
        ("data:text/plain;charset=utf-8;base64,AAAA", Source(SourceKind.DATA, "AAAA", "text/plain;charset=utf-8")),
        ("data:image/svg+xml,<svg/>", Source(SourceKind.URL, "data:image/svg+xml,<svg/>")),
        ("AAAA", Source(SourceKind.DATA, "AAAA")),
    ],
)
def test_data_urls(data: str, source: Source) -> None:
    """Bytes must come out as they went in, whatever the header."""
    block = decode_part({"type": "input_file", "file_data": data}, "p", Fields, "input_text")
    assert isinstance(block, Document)
    assert block.source == source


def test_text_part_with_an_unusual_type_remembers_it() -> None:
    """Some clients send input_text in assistant messages; it goes back as it came."""
    block = decode_part({"type": "input_text", "text": "x"}, "p", Fields, "output_text")
    assert block == Text(text="x", path="p", extras={"type": "input_text"})


def test_unknown_breakpoint_is_kept_as_it_is() -> None:
    """A lifetime that we do not know must not become another one."""
    mark = {"mode": "explicit", "ttl": "7d"}
    block = decode_part({"type": "input_text", "text": "x", "prompt_cache_breakpoint": mark}, "p", Fields, "input_text")
    assert block.cache is not None
    assert block.extras == {"prompt_cache_breakpoint": mark}


@pytest.mark.parametrize(
    ("native", "kind"),
    [
        ({"type": "url_citation", "url": "u", "title": "t", "start_index": 1, "end_index": 2}, CitationKind.WEB),
        ({"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 1, "end_index": 2}}, "web"),
    ],
)
def test_url_citations(native: dict[str, Any], kind: str) -> None:
    """Flat as the protocol has it, or nested as Chat does."""
    citation = decode_annotation(native)
    assert citation.kind == kind
    assert (citation.url, citation.title, citation.start, citation.end) == ("u", "t", 1, 2)
    expected = {"type": "url_citation", "url": "u", "title": "t", "start_index": 1, "end_index": 2}
    assert encode_annotation(citation, "text", True) == expected


def test_file_citations_only_with_a_file() -> None:
    """Other protocols cite documents that this one cannot name."""
    native = {"type": "file_citation", "file_id": "f", "filename": "n", "index": 3}
    citation = decode_annotation(native)
    assert citation.kind is CitationKind.FILE
    assert encode_annotation(citation, "x", True) == native
    assert encode_annotation(decode_annotation({"type": "odd"}), "x", False) is None
