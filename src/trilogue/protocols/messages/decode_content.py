"""Content blocks of requests and responses, read into neutral blocks.

`encode_content.py` writes those of requests, `encode_response.py` those of responses; hosted tools are in `hosted.py`.
This module does not know turns, roles or which blocks a role may have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.errors import BadRequest, UpstreamProtocolError
from trilogue.model import (
    Block,
    Citation,
    CitationKind,
    Document,
    Image,
    Json,
    Native,
    Opaque,
    OpaqueKind,
    Reasoning,
    SearchResult,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from trilogue.protocols.content.ids import derive_id
from trilogue.protocols.fields.reader import Fields, Kinds, LooseFields, sort_fields
from trilogue.protocols.messages import hosted
from trilogue.protocols.messages.calls import arguments_of
from trilogue.protocols.messages.controls import take_cache
from trilogue.protocols.messages.short_forms import SHORT_BLOCKS
from trilogue.protocols.messages.wire import SERVER_RESULTS, SOURCES

Read = type[Fields]
"""the reader class: `Fields` for requests, `LooseFields` for responses"""


def decode_blocks(values: list[Json], path: str, read: Read = Fields) -> tuple[Block, ...]:
    """Return the blocks of a content array."""
    return tuple([decode_block(value, f"{path}[{index}]", read) for index, value in enumerate(values)])


def decode_block(value: Json, path: str, read: Read = Fields) -> Block:
    """Return one content block. A type without a neutral counterpart becomes a `Native`."""
    if FAST_PATHS.on and type(value) is dict:
        short = SHORT_BLOCKS.get(len(value))
        block = short(value, path) if short is not None else None
        if block is not None:
            return block
    fields = read(value, path)
    kind = fields.text("type")
    if kind is None and read is Fields:
        raise fields.missing("type")
    return _DECODERS[read].get(kind or "", _native)(fields, value)


def begin_block(kind: str, value: dict[str, Json], path: str) -> tuple[Block, dict[str, Json]]:
    """Return a block of one of the kinds in `FLOWING` at its start in a stream.

    Also returns the fields of the block that deltas will extend.
    """
    known, rest = sort_fields(value, FLOWING[kind])
    shared = {"path": path, "extras": rest or None} if "cache_control" not in rest else _common(LooseFields(rest, path))
    if kind == "text":
        return Text(text="", **shared), known
    if kind == "thinking":
        return Reasoning(**shared), known
    if not known["name"]:
        raise UpstreamProtocolError("a tool call has no name")
    return ToolCall(id=known["id"] or derive_id("toolu_", path), name=known["name"], arguments="", **shared), known


FLOWING: dict[str, Kinds] = {
    "text": {"type": object, "text": object, "citations": object},
    "thinking": {"type": object, "thinking": object, "signature": object},
    "tool_use": {"type": object, "name": str, "input": object, "id": str},
}
"""the blocks whose content comes in deltas, and their fields"""


def decode_content(fields: Fields, name: str) -> tuple[tuple[Block, ...], bool]:
    """Return the blocks of a field that is a string or an array of blocks, and whether it was a string."""
    value = fields.any(name)
    if type(value) is str:
        return (Text(text=value, path=fields.at(name)),), True
    if value is None:
        return (), False
    if type(value) is not list:
        raise BadRequest(f"{fields.at(name)} must be a string or an array", path=fields.at(name))
    return decode_blocks(value, fields.at(name), type(fields)), False


def _common(fields: Fields) -> dict[str, Any]:
    """Return what every block has. Call it last: it takes all unread fields."""
    cache = take_cache(fields) if "cache_control" in fields.left else None
    return {"path": fields.path, "cache": cache, "extras": fields.rest()}


def _native(fields: Fields, value: Json) -> Block:
    data = value if isinstance(value, dict) else {}
    kind = data.get("type")
    kind = kind if isinstance(kind, str) else ""
    return Native(type=kind, data=data, harmless=kind in _HARMLESS, path=fields.path)


_HARMLESS = frozenset({"compaction", "container_upload", "fallback", "image", "document", "mcp_tool_listing"})
"""blocks without a neutral counterpart of which the client only takes note"""


def _text(fields: Fields, _: Json) -> Block:
    text = fields.required("text")
    found = fields.items("citations")
    # Null and an empty list differ in the client's own request, which must go out unchanged.
    if found == []:
        fields.put_back("citations", found)
    citations = [decode_citation(item, fields.at("citations"), type(fields)) for item in found or ()]
    return Text(text=text, citations=tuple(citations), **_common(fields))


_CITATIONS = {
    "char_location": CitationKind.DOCUMENT,
    "page_location": CitationKind.DOCUMENT,
    "content_block_location": CitationKind.DOCUMENT,
    "web_search_result_location": CitationKind.WEB,
    "search_result_location": CitationKind.SEARCH_RESULT,
}


def decode_citation(value: Json, path: str, read: Read) -> Citation:
    """Return a citation. It points into its source, and the whole text block is the cited span."""
    fields = read(value, path)
    kind = _CITATIONS.get(fields.text("type") or "", CitationKind.DOCUMENT)
    token = fields.text("encrypted_index")
    return Citation(
        kind=kind,
        native=value if isinstance(value, dict) else {},
        # Web citations have url, search results source.
        url=fields.text("url") or fields.text("source"),
        title=fields.text("title") or fields.text("document_title"),
        cited_text=fields.text("cited_text"),
        token=Opaque(kind=OpaqueKind.CITATION, value=token) if token else None,
    )


def _source(fields: Fields) -> Source | None:
    """Return the source of media; None if its kind has no neutral form."""
    source = fields.fields("source")
    if source is None:
        raise fields.missing("source")
    kind, name = SOURCES.get(source.text("type") or "", (None, ""))
    value = source.text(name) if kind else None
    if kind is None or value is None:
        return None
    result = Source(kind, value, source.text("media_type"))
    fields.keep("source", source)
    return result


def _image(fields: Fields, value: Json) -> Block:
    source = _source(fields)
    return _native(fields, value) if source is None else Image(source=source, **_common(fields))


def _citations_flag(fields: Fields) -> bool | None:
    citations = fields.fields("citations")
    if citations is None:
        return None
    enabled = citations.flag("enabled")
    fields.keep("citations", citations)
    return enabled


def _document(fields: Fields, value: Json) -> Block:
    parts: tuple[Block, ...] = ()
    source = None
    given = value.get("source")
    if isinstance(given, dict) and given.get("type") == "content":
        fields.any("source")
        parts, _ = decode_content(Fields(given, fields.at("source")), "content")
    else:
        source = _source(fields)
        if source is None:
            return _native(fields, value)
    return Document(
        source=source,
        parts=parts,
        title=fields.text("title"),
        context=fields.text("context"),
        citations=_citations_flag(fields),
        **_common(fields),
    )


def _search_result(fields: Fields, value: Json) -> Block:
    source, title = fields.required("source"), fields.required("title")
    parts, _ = decode_content(fields, "content")
    texts = tuple(part for part in parts if isinstance(part, Text))
    if len(texts) != len(parts):
        return _native(fields, value)
    citations = _citations_flag(fields)
    return SearchResult(source=source, title=title, parts=texts, citations=citations, **_common(fields))


def _thinking(fields: Fields, _: Json) -> Block:
    text = fields.required("thinking")
    signature = fields.text("signature")
    # vLLM and LiteLLM send thinking without a real signature; it must never reach Anthropic.
    if signature == "":
        fields.put_back("signature", "")
    opaque = Opaque(kind=OpaqueKind.SIGNATURE, value=signature) if signature else None
    return Reasoning(summary=(text,) if text else (), opaque=opaque, **_common(fields))


def _redacted(fields: Fields, _: Json) -> Block:
    opaque = Opaque(kind=OpaqueKind.REDACTED, value=fields.required("data"))
    return Reasoning(opaque=opaque, **_common(fields))


def _tool_use(fields: Fields, _: Json) -> Block:
    name = fields.required("name")
    # A call without a name cannot be run by any client.
    if not name and isinstance(fields, LooseFields):
        raise UpstreamProtocolError("a tool call has no name")
    # Upstreams send strings and lists, too; a request must follow the protocol.
    given = fields.any("input") if isinstance(fields, LooseFields) else fields.mapping("input")
    return ToolCall(
        id=fields.text("id") or derive_id("toolu_", fields.path),
        name=name,
        arguments=arguments_of(given, fields),
        **_common(fields),
    )


def _tool_result(fields: Fields, _: Json) -> Block:
    call_id = fields.required("tool_use_id")
    content, plain = decode_content(fields, "content")
    return ToolResult(
        call_id=call_id, content=content, plain=plain, is_error=fields.flag("is_error"), **_common(fields)
    )


_IN_RESPONSES: dict[str, Callable[[Fields, Json], Block]] = {
    "text": _text,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _tool_use,
    "server_tool_use": hosted.decode_call,
    "mcp_tool_use": hosted.decode_mcp_call,
    **dict.fromkeys(SERVER_RESULTS, hosted.decode_result),
}

_IN_REQUESTS: dict[str, Callable[[Fields, Json], Block]] = {
    **_IN_RESPONSES,
    "image": _image,
    "document": _document,
    "search_result": _search_result,
    "tool_result": _tool_result,
}

_DECODERS: dict[Read, dict[str, Callable[[Fields, Json], Block]]] = {Fields: _IN_REQUESTS, LooseFields: _IN_RESPONSES}
