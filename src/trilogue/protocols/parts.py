"""Small parts of content that all protocols share, each a pure function of its inputs.

Four groups: the location of the user for searches (the same four fields everywhere), `data:` URLs and media types,
texts that replace content which a protocol has no form for, and ids that the target needs and the source lacks.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from trilogue.model import (
    Document,
    HostedCall,
    HostedResult,
    Json,
    Ledger,
    Native,
    SearchResult,
    Source,
    SourceKind,
    UserLocation,
)
from trilogue.protocols.fields import Fields

_LOCATION_FIELDS = UserLocation.__struct_fields__
_DIGEST_SIZE = 12
_DERIVED_ID = re.compile(r"_[0-9a-f]{24}\Z")
_ILLEGAL_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")


def read_location(fields: Fields) -> UserLocation | None:
    """Return the location of the user, or None if nothing about it is known."""
    known = {name: fields.text(name) for name in _LOCATION_FIELDS}
    return UserLocation(**known) if any(known.values()) else None


def write_location(location: UserLocation) -> dict[str, Json]:
    """Return the known fields of a location as a wire object."""
    return {name: value for name in _LOCATION_FIELDS if (value := getattr(location, name)) is not None}


PDF = "application/pdf"
_MAGIC = {
    # The base64 of "%PDF-" and of the signatures of the four image formats.
    "JVBERi": PDF,
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
"""the first characters of base64 data of each media type"""
# Common wrong names; Anthropic accepts only the four official ones.
_TYPE_SPELLINGS = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}


def data_source(url: str) -> Source | None:
    """Return the content of a base64 data: URL; None for every other URL."""
    if not url.startswith("data:"):
        return None
    head, found, data = url.partition(";base64,")
    return Source(SourceKind.DATA, data, head[len("data:") :]) if found else None


def data_url(source: Source, default: str) -> str:
    """Return a data: URL for a source that is data."""
    return f"data:{source.media_type or default};base64,{source.value}"


def sniffed_type(data: str) -> str | None:
    """Return the media type of base64 data by its first characters; None if it is unknown."""
    return next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), None)


def image_type(source: Source) -> str | None:
    """Return the real media type of an image that is data.

    Many clients name it loosely or wrongly, and some servers compare it with the data.
    """
    # Ignore parameters, such as `;name=x.png`.
    named = (source.media_type or "").partition(";")[0].strip().lower()
    sniffed = sniffed_type(source.value)
    return sniffed if sniffed and sniffed != PDF else _TYPE_SPELLINGS.get(named, named) or None


# Only Messages has an error flag on results. The text is the same at every hop, so that it is added only once.
TOOL_ERROR = "[tool error]"

TOOL_REFERENCE = "tool_reference"
"""a part of a Messages tool result: a tool that was found and can be called now"""
TOOL_NAME = "tool_name"

_PART_NAMES = (TOOL_NAME, "name", "title", "filename", "url", "text")
"""fields that name a part; the first one that is present is used"""


def native_part(block: Native) -> str:
    """Return a text for a part of a tool result that the target has no form for: its type and its name."""
    name_of_part = next(
        (text for field in _PART_NAMES if isinstance(text := block.data.get(field), str) and text), None
    )
    return f"[{block.type}]" if name_of_part is None else f"[{block.type}: {name_of_part}]"


def tool_error(text: str) -> str:
    """Return the text of a failed tool's result with an error mark, unless it has one already."""
    if text.startswith(TOOL_ERROR):
        return text
    return f"{TOOL_ERROR} {text}" if text else TOOL_ERROR


def document_head(block: Document) -> str:
    """Return the title and context of a document, to be put before its text."""
    return "\n".join(line for line in (block.title, block.context) if line)


def search_result_text(block: SearchResult) -> str:
    """Return a search result as text: title, source and content."""
    body = "\n".join(part.text for part in block.parts)
    return f"{block.title}\n{block.source}\n\n{body}"


def hosted_note(block: HostedCall | HostedResult) -> str:
    """Return a text about a hosted call or its result, for a model that cannot see it."""
    if isinstance(block, HostedCall):
        return f"[{block.name or block.tool.value}: {block.input or '{}'}]"
    if block.hits:
        return "\n".join(f"[found: {hit.title} {hit.url}]" for hit in block.hits)
    return f"[{block.tool.value} result: {block.error or block.text or 'none'}]"


def derive_id(prefix: str, response_id: str, position: int | str = "") -> str:
    """Return a new id that is always the same for the same response and position."""
    # No randomness: the same upstream bytes must give the same output, and prompt caches depend on stable ids.
    return prefix + digest(f"{response_id}/{position}")


def is_derived_id(given: str) -> bool:
    """Return whether an id has the form of the ids made here; servers' own ids are longer or shorter."""
    return _DERIVED_ID.search(given) is not None


def digest(text: str, size: int = _DIGEST_SIZE) -> str:
    """Return a short hex digest of a text; not for secrets."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=size).hexdigest()


def safe_call_id(call_id: str, limit: int = 64) -> str:
    """Return a tool call id with characters and a length that every protocol accepts.

    Legal ids stay unchanged. Others keep their readable part and get a digest of the whole id, so that a call and its
    result are changed in the same way without any state.
    """
    # Kimi and Gemini send ids such as `functions.Bash:0`; Anthropic refuses all but letters, digits, _ and -.
    if call_id and len(call_id) <= limit and not _ILLEGAL_IN_ID.search(call_id):
        return call_id
    readable = _ILLEGAL_IN_ID.sub("_", call_id)[: limit - 17] or "call"
    return f"{readable}_{digest(call_id, 8)}"


def short_user(user: str, limit: int, path: str, ledger: Ledger) -> str:
    """Return the end user's id, hashed and declared if it is longer than the target allows."""
    if len(user) <= limit:
        return user
    ledger.add("user.hashed", path)
    # The user ids of Claude Code are longer than the 128 characters that OpenAI allows.
    return digest(user, 32)
