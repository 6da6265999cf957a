"""What a protocol has no form for, said in words.

Where the user is, for searches: the same four fields in every protocol.

Data in links: `data:` URLs ↔ `Source`.
"""

from __future__ import annotations

from trilogue.model import Document, Json, Native, SearchResult, Source, SourceKind, UserLocation
from trilogue.protocols.fields.reader import Fields

_LOCATION_FIELDS = UserLocation.__struct_fields__


def read_location(fields: Fields) -> UserLocation | None:
    """The place, if any of it is known."""
    known = {name: fields.text(name) for name in _LOCATION_FIELDS}
    return UserLocation(**known) if any(known.values()) else None


def write_location(location: UserLocation) -> dict[str, Json]:
    """What is known of the place."""
    return {name: value for name in _LOCATION_FIELDS if (value := getattr(location, name)) is not None}


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
