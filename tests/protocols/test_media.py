"""data: URLs."""

from trilogue.model import Source, SourceKind
from trilogue.protocols.media import PDF, data_source, data_url, sniffed_type


def test_data_source() -> None:
    """Only base64 is data; anything else stays a link."""
    assert data_source("data:image/png;base64,QQ==") == Source(SourceKind.DATA, "QQ==", "image/png")
    assert data_source("data:text/plain,hello") is None
    assert data_source("https://example.org") is None


def test_data_url() -> None:
    """There and back; a type that is not known is the caller's default."""
    assert data_url(Source(SourceKind.DATA, "QQ==", "image/png"), PDF) == "data:image/png;base64,QQ=="
    assert data_url(Source(SourceKind.DATA, "QQ=="), PDF) == "data:application/pdf;base64,QQ=="


def test_sniffed_type() -> None:
    """Files without a type are told apart by their first bytes, as far as targets care."""
    assert sniffed_type("JVBERi0xLjQ=") == PDF
    assert sniffed_type("QQ==") is None
