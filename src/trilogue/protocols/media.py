"""Data in links: `data:` URLs ↔ `Source`."""

from __future__ import annotations

from trilogue.model import Source, SourceKind

PDF = "application/pdf"
_PDF_BASE64 = "JVBERi"


def data_source(url: str) -> Source | None:
    """The content of a base64 data: URL; None for every other URL."""
    if not url.startswith("data:"):
        return None
    head, found, data = url.partition(";base64,")
    return Source(SourceKind.DATA, data, head[len("data:") :]) if found else None


def data_url(source: Source, default: str) -> str:
    """A data: URL of a source that is data."""
    return f"data:{source.media_type or default};base64,{source.value}"


def sniffed_type(data: str) -> str | None:
    """The media type of base64 data that came without one, as far as it shows."""
    return PDF if data.startswith(_PDF_BASE64) else None
