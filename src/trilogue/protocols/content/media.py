"""Data in links: `data:` URLs ↔ `Source`."""

from __future__ import annotations

from trilogue.model import Source, SourceKind

PDF = "application/pdf"
_SIGNS = {
    "JVBERi": PDF,
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
"""how base64 data begins, by what it is"""
_SPELLINGS = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}


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
    return next((kind for sign, kind in _SIGNS.items() if data.startswith(sign)), None)


def image_type(source: Source) -> str | None:
    """What an image that is data really is: many clients name it loosely or wrongly, and some servers look."""
    named = (source.media_type or "").partition(";")[0].strip().lower()
    sniffed = sniffed_type(source.value)
    return sniffed if sniffed and sniffed != PDF else _SPELLINGS.get(named, named) or None
