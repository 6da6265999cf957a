"""data: URLs."""

import pytest

from trilogue.model import Source, SourceKind
from trilogue.protocols.parts import PDF, data_source, data_url, image_type, sniffed_type


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


@pytest.mark.parametrize(
    ("named", "data", "kind"),
    [
        ("image/png", "iVBORw0KGgoAAA", "image/png"),
        ("image/jpeg", "iVBORw0KGgoAAA", "image/png"),
        ("application/octet-stream", "/9j/4AAQ", "image/jpeg"),
        ("", "UklGRiQA", "image/webp"),
        (None, "R0lGODlh", "image/gif"),
        ("image/jpg", "AAAA", "image/jpeg"),
        ("IMAGE/PNG; charset=utf-8", "AAAA", "image/png"),
        ("image/svg+xml", "PHN2Zz4", "image/svg+xml"),
        ("image/png", "JVBERi0xLjQ=", "image/png"),
        (None, "AAAA", None),
    ],
)
def test_image_type(named: str | None, data: str, kind: str | None) -> None:
    """What it is counts, then what it is called."""
    assert image_type(Source(SourceKind.DATA, data, named)) == kind
