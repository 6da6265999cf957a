"""Content blocks in both directions: those of requests and responses, read, and those of requests, written.

Blocks of this protocol are written back unchanged. Blocks of others are written as the API accepts them; those without
a form are declared or refused. `response.py` writes the blocks of responses; hosted tools are in `hosted.py`. This
module does not know turns, roles or which blocks a role may have.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.fast_paths import FAST_PATHS
from trilogue.base.json_text import parse_object
from trilogue.errors import BadRequest, InternalError, Unsupported, UpstreamProtocolError
from trilogue.model import (
    PART_BREAK,
    Audio,
    Block,
    CallKind,
    Citation,
    CitationKind,
    Document,
    HostedCall,
    HostedResult,
    Image,
    Json,
    Ledger,
    Native,
    Opaque,
    OpaqueKind,
    Reasoning,
    Refusal,
    SearchResult,
    Source,
    SourceKind,
    Text,
    ToolCall,
    ToolResult,
)
from trilogue.protocols.fields import Fields, Kinds, LooseFields, sort_fields
from trilogue.protocols.messages import hosted
from trilogue.protocols.messages.controls import Marks, take_cache
from trilogue.protocols.messages.fast_decode import SHORT_BLOCKS
from trilogue.protocols.messages.wire import IMAGE_TYPES, SERVER_RESULTS, SOURCES, Wire, arguments_of
from trilogue.protocols.parts import PDF, derive_id, image_type, native_part, safe_call_id, sniffed_type

Read = type[Fields]
"""the reader class: `Fields` for requests, `LooseFields` for responses"""
_SOURCE_TYPES = {kind: (name, field) for name, (kind, field) in SOURCES.items()}


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
    return _DECODERS[read].get(kind or "", _read_native)(fields, value)


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


def _read_native(fields: Fields, value: Json) -> Block:
    data = value if isinstance(value, dict) else {}
    kind = data.get("type")
    kind = kind if isinstance(kind, str) else ""
    return Native(type=kind, data=data, harmless=kind in _HARMLESS, path=fields.path)


_HARMLESS = frozenset({"compaction", "container_upload", "fallback", "image", "document", "mcp_tool_listing"})
"""blocks without a neutral counterpart of which the client only takes note"""


def _read_text(fields: Fields, _: Json) -> Block:
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


def _read_source(fields: Fields) -> Source | None:
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


def _read_image(fields: Fields, value: Json) -> Block:
    source = _read_source(fields)
    return _read_native(fields, value) if source is None else Image(source=source, **_common(fields))


def _citations_flag(fields: Fields) -> bool | None:
    citations = fields.fields("citations")
    if citations is None:
        return None
    enabled = citations.flag("enabled")
    fields.keep("citations", citations)
    return enabled


def _read_document(fields: Fields, value: Json) -> Block:
    parts: tuple[Block, ...] = ()
    source = None
    given = value.get("source")
    if isinstance(given, dict) and given.get("type") == "content":
        fields.any("source")
        parts, _ = decode_content(Fields(given, fields.at("source")), "content")
    else:
        source = _read_source(fields)
        if source is None:
            return _read_native(fields, value)
    return Document(
        source=source,
        parts=parts,
        title=fields.text("title"),
        context=fields.text("context"),
        citations=_citations_flag(fields),
        **_common(fields),
    )


def _read_search_result(fields: Fields, value: Json) -> Block:
    source, title = fields.required("source"), fields.required("title")
    parts, _ = decode_content(fields, "content")
    texts = tuple(part for part in parts if isinstance(part, Text))
    if len(texts) != len(parts):
        return _read_native(fields, value)
    citations = _citations_flag(fields)
    return SearchResult(source=source, title=title, parts=texts, citations=citations, **_common(fields))


def _read_thinking(fields: Fields, _: Json) -> Block:
    text = fields.required("thinking")
    signature = fields.text("signature")
    # vLLM and LiteLLM send thinking without a real signature; it must never reach Anthropic.
    if signature == "":
        fields.put_back("signature", "")
    opaque = Opaque(kind=OpaqueKind.SIGNATURE, value=signature) if signature else None
    return Reasoning(summary=(text,) if text else (), opaque=opaque, **_common(fields))


def _read_redacted(fields: Fields, _: Json) -> Block:
    opaque = Opaque(kind=OpaqueKind.REDACTED, value=fields.required("data"))
    return Reasoning(opaque=opaque, **_common(fields))


def _read_tool_use(fields: Fields, _: Json) -> Block:
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


def _read_tool_result(fields: Fields, _: Json) -> Block:
    call_id = fields.required("tool_use_id")
    content, plain = decode_content(fields, "content")
    return ToolResult(
        call_id=call_id, content=content, plain=plain, is_error=fields.flag("is_error"), **_common(fields)
    )


_IN_RESPONSES: dict[str, Callable[[Fields, Json], Block]] = {
    "text": _read_text,
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted,
    "tool_use": _read_tool_use,
    "server_tool_use": hosted.decode_call,
    "mcp_tool_use": hosted.decode_mcp_call,
    **dict.fromkeys(SERVER_RESULTS, hosted.decode_result),
}

_IN_REQUESTS: dict[str, Callable[[Fields, Json], Block]] = {
    **_IN_RESPONSES,
    "image": _read_image,
    "document": _read_document,
    "search_result": _read_search_result,
    "tool_result": _read_tool_result,
}

_DECODERS: dict[Read, dict[str, Callable[[Fields, Json], Block]]] = {Fields: _IN_REQUESTS, LooseFields: _IN_RESPONSES}


def _write_source(source: Source) -> Wire:
    name, field = _SOURCE_TYPES[source.kind]
    wire: Wire = {"type": name}
    if source.media_type is not None:
        wire["media_type"] = source.media_type
    return {**wire, field: source.value}


class BlockWriter(Struct):
    """A writer for the blocks of one request. Those of this protocol are written back unchanged."""

    native: bool
    ledger: Ledger
    marks: Marks

    def write_all(self, blocks: Iterable[Block]) -> list[Json]:
        """Return the wire objects of all blocks that have one."""
        return [wire for block in blocks if (wire := self.write(block)) is not None]

    def write(self, block: Block) -> Wire | None:
        """Return one block as a wire object; None, and a declared loss, if it is left out."""
        if self.native:
            return self._write_back(block)
        if type(block) not in _WRITERS:
            raise InternalError(f"{type(block).__name__} cannot be part of a request")
        wire = _WRITERS[type(block)](self, block)
        if block.cache is not None:
            if wire is None:
                self.marks.declare(block.cache, block.path)
            else:
                self.marks.put(wire, block.cache, block.path)
        return wire

    def _write_back(self, block: Block) -> Wire | None:
        if isinstance(block, Native):
            return block.data
        if isinstance(block, HostedCall | HostedResult) and block.native is not None:
            return block.native
        wire = _WRITERS[type(block)](self, block)
        if wire is not None:
            self.marks.put(wire, block.cache, block.path, block.extras)
        return wire

    def text(self, block: Text) -> Wire | None:
        """Write text. The API refuses blocks of only whitespace, so those of other protocols are skipped."""
        if not self.native and not block.text.strip():
            return None
        wire: Wire = {"type": "text", "text": block.text}
        if block.citations and self.native:
            wire["citations"] = [citation.native for citation in block.citations]
        elif block.citations:
            self.ledger.add("citation.dropped", block.path)
        return wire

    def refusal(self, block: Refusal) -> Wire | None:
        """Write a refusal as text: requests have no form for it."""
        return {"type": "text", "text": block.text} if block.text else None

    def image(self, block: Image) -> Wire:
        """Write an image. Raises `Unsupported` unless it has one of the four formats that the API accepts."""
        source = block.source
        if not self.native:
            # File ids belong to the provider that issued them.
            self._portable(source, block.path)
            if source.kind is SourceKind.DATA:
                # Anthropic compares the type with the data; clients often write image/jpg.
                source = replace(source, media_type=image_type(source))
                if source.media_type not in IMAGE_TYPES:
                    raise Unsupported(block.path, "only JPEG, PNG, GIF and WebP images are taken")
            if block.detail not in (None, "auto"):
                self.ledger.add("image.detail", block.path)
        return {"type": "image", "source": _write_source(source)}

    def document(self, block: Document) -> Wire:
        """Write a PDF, a text, a link or a list of blocks."""
        if block.source is None:
            source: Wire = {"type": "content", "content": self.write_all(block.parts)}
        else:
            source = _write_source(block.source if self.native else self._readable(block.source, block.path))
        wire: Wire = {"type": "document", "source": source}
        return self._describe(wire, title=block.title, context=block.context, citations=block.citations)

    def search_result(self, block: SearchResult) -> Wire:
        """Write a search result that the client supplies."""
        wire: Wire = {"type": "search_result", "source": block.source, "title": block.title}
        return self._describe({**wire, "content": self.write_all(block.parts)}, citations=block.citations)

    def audio(self, block: Audio) -> Wire:
        """Raise `Unsupported`: this protocol has no audio."""
        raise Unsupported(block.path, "the target takes no sound")

    def reasoning(self, block: Reasoning) -> Wire | None:
        """Write reasoning. It is only sent back with the value that its provider gave it."""
        opaque = block.opaque
        if opaque is not None and opaque.kind is OpaqueKind.REDACTED:
            return {"type": "redacted_thinking", "data": opaque.value}
        if self.native or (opaque is not None and opaque.kind is OpaqueKind.SIGNATURE):
            wire: Wire = {"type": "thinking", "thinking": PART_BREAK.join(block.summary + block.raw)}
            return {**wire, "signature": opaque.value} if opaque is not None else wire
        self.ledger.add("reasoning.foreign_dropped", block.path)
        return None

    def tool_call(self, block: ToolCall) -> Wire:
        """Write a tool call, with its arguments as an object."""
        call_id = block.id if self.native else safe_call_id(block.id)
        return {"type": "tool_use", "id": call_id, "name": block.name, "input": self._input(block)}

    def tool_result(self, block: ToolResult) -> Wire:
        """Write a tool result; a bare string stays one, and a single text of another protocol becomes one."""
        call_id = block.call_id if self.native else safe_call_id(block.call_id)
        wire: Wire = {"type": "tool_result", "tool_use_id": call_id}
        if not self.native and (marked := [part for part in block.content if part.cache is not None]):
            # Marks belong on the result, whose content keeps its form when they move.
            if block.cache is None:
                last = marked.pop()
                self.marks.put(wire, last.cache, last.path)
            for part in marked:
                self.marks.declare(part.cache, part.path)
            block = replace(block, content=tuple(replace(part, cache=None) for part in block.content))
        if block.plain or (not self.native and len(block.content) == 1 and type(block.content[0]) is Text):
            wire["content"] = "".join(part.text for part in block.content if isinstance(part, Text))
        # Content is optional on results.
        elif content := self.write_all(block.content):
            wire["content"] = content
        if block.is_error is not None:
            wire["is_error"] = block.is_error
        # Responses has no error flag; a failed tool has this status.
        elif block.status == "incomplete":
            wire["is_error"] = True
        return wire

    def hosted_call(self, block: HostedCall) -> Wire | None:
        """Write a call that the provider ran."""
        return self._or_declare(hosted.encode_call(block), block)

    def hosted_result(self, block: HostedResult) -> Wire | None:
        """Write the result of a tool that the provider ran."""
        return self._or_declare(hosted.encode_result(block, self.ledger), block)

    def foreign(self, block: Native) -> Wire:
        """Write a part of a tool result that only another protocol has; other native blocks never get here."""
        self.ledger.add("tool_result.part", block.path, block.type)
        return {"type": "text", "text": native_part(block)}

    def _or_declare(self, wire: Wire | None, block: Block) -> Wire | None:
        if wire is None:
            self.ledger.add("native.dropped", block.path)
        return wire

    def _input(self, block: ToolCall) -> Wire:
        if block.kind is CallKind.CUSTOM:
            # Messages has no free-text tools.
            self.ledger.add("tool.custom_emulated", block.path)
            return {"input": block.arguments}
        if not block.arguments.strip():
            return {}
        parsed = parse_object(block.arguments)
        if parsed is None:
            self.ledger.add("arguments.invalid_json", block.path)
            # `input` must be an object, so any other text goes inside one.
            return {"_raw": block.arguments}
        return parsed

    def _describe(
        self, wire: Wire, *, title: str | None = None, context: str | None = None, citations: bool | None = None
    ) -> Wire:
        if title is not None:
            wire["title"] = title
        if context is not None:
            wire["context"] = context
        if citations is not None:
            wire["citations"] = {"enabled": citations}
        return wire

    def _portable(self, source: Source, path: str) -> None:
        if source.kind is SourceKind.FILE_ID:
            raise Unsupported(path, "the file is kept at another provider")

    def _readable(self, source: Source, path: str) -> Source:
        """Return the source of a document of another protocol in a form that the API accepts."""
        self._portable(source, path)
        if source.kind is not SourceKind.DATA:
            is_text = source.kind is SourceKind.TEXT
            return Source(source.kind, source.value, "text/plain") if is_text else Source(source.kind, source.value)
        kind = source.media_type or sniffed_type(source.value) or ""
        if kind == PDF:
            return Source(SourceKind.DATA, source.value, PDF)
        if kind.startswith("text/"):
            try:
                return Source(SourceKind.TEXT, b64decode(source.value, validate=True).decode(), "text/plain")
            except (binascii.Error, ValueError):
                raise Unsupported(path, "the file is not valid base64 of UTF-8 text") from None
        raise Unsupported(path, "only PDF and plain text files are taken")


_WRITERS: dict[type[Block], Callable[[BlockWriter, Any], Wire | None]] = {
    Text: BlockWriter.text,
    Refusal: BlockWriter.refusal,
    Image: BlockWriter.image,
    Document: BlockWriter.document,
    SearchResult: BlockWriter.search_result,
    Audio: BlockWriter.audio,
    Reasoning: BlockWriter.reasoning,
    ToolCall: BlockWriter.tool_call,
    ToolResult: BlockWriter.tool_result,
    HostedCall: BlockWriter.hosted_call,
    HostedResult: BlockWriter.hosted_result,
    Native: BlockWriter.foreign,
}
