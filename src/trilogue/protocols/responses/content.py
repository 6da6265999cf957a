"""Content in both directions: the parts of messages and tool results, and the items that are content of their own.

The `content` of messages and the `output` of tools have parts: text, refusals, images and documents. Tool calls, tool
results, reasoning, hosted and native items each become a block. Blocks without a form are declared or refused. Messages
are turns in a request and runs of blocks in a response, so they are read where those are built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from trilogue.base.json_text import dump_text
from trilogue.errors import BadRequest, InternalError, Unsupported
from trilogue.model import (
    Audio,
    Block,
    CacheMark,
    CallKind,
    Citation,
    CitationKind,
    Document,
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
from trilogue.model.names import name_of
from trilogue.protocols.fields import Fields, Kept, Kinds, LooseFields, sort_fields
from trilogue.protocols.openai.cache import NAME as BREAKPOINT
from trilogue.protocols.openai.cache import read_breakpoint, write_breakpoint
from trilogue.protocols.parts import data_source, data_url, derive_id, document_head, native_part, search_result_text
from trilogue.protocols.responses.hosted import HOSTED_ITEMS, decode_hosted, decode_native

_CITATIONS = {
    "url_citation": CitationKind.WEB,
    "file_citation": CitationKind.FILE,
    "container_file_citation": CitationKind.FILE,
    "file_path": CitationKind.FILE,
}
_PLAIN_TEXT = {"type", "text", "annotations", "logprobs"}


def decode_parts(value: Json, path: str, reader: type[Fields], text_type: str) -> tuple[Block, ...]:
    """Return the blocks of a list of parts. `text_type`: the type of text parts here, input_text or output_text."""
    # Upstreams may send null; a request must have an array.
    if type(value) is not list:
        if reader is LooseFields:
            return ()
        raise BadRequest(f"{path} must be a string or an array", path=path)
    return tuple([decode_part(part, f"{path}[{n}]", reader, text_type) for n, part in enumerate(value)])


def decode_part(part: Json, path: str, reader: type[Fields], text_type: str) -> Block:
    """Return one part. Plain text, by far the most common kind, skips the field reader."""
    if type(part) is dict:
        text = part.get("text")
        # Most servers send empty lists next to the text.
        has_more = not part.keys() <= _PLAIN_TEXT or part.get("annotations") or part.get("logprobs")
        if type(text) is str and part.get("type") == text_type and not has_more:
            return Text(text=text, path=path)
    fields = reader(part, path)
    kind = fields.any("type")
    decode = _PARTS.get(kind) if type(kind) is str else None
    if decode is None:
        return Native(type=kind if type(kind) is str else "", data=part if isinstance(part, dict) else {}, path=path)
    # Some clients use the part name of the other direction; remember it for the way back.
    if decode is _read_text and kind != text_type:
        fields.put_back("type", kind)
    return decode(fields, part)


def _read_text(fields: Fields, _: dict[str, Json]) -> Block:
    citations = decode_annotations(fields.items("annotations"))
    return Text(
        text=fields.text("text") or "",
        citations=citations,
        logprobs=fields.items("logprobs") or None,
        cache=read_breakpoint(fields),
        path=fields.path,
        extras=fields.rest(),
    )


def _read_refusal(fields: Fields, _: dict[str, Json]) -> Block:
    return Refusal(text=fields.text("refusal") or "", path=fields.path, extras=fields.rest())


def _read_image(fields: Fields, part: dict[str, Json]) -> Block:
    source = _read_source(fields, "image_url", "image_url")
    if source is None:
        return Native(type="input_image", data=part, harmless=True, path=fields.path)
    return Image(
        source=source,
        detail=fields.text("detail"),
        cache=read_breakpoint(fields),
        path=fields.path,
        extras=fields.rest(),
    )


def _read_file(fields: Fields, part: dict[str, Json]) -> Block:
    source = _read_source(fields, "file_data", "file_url")
    if source is None:
        return Native(type="input_file", data=part, harmless=True, path=fields.path)
    return Document(
        source=source,
        title=fields.text("filename"),
        cache=read_breakpoint(fields),
        path=fields.path,
        extras=fields.rest(),
    )


_PARTS: dict[str, Callable[[Fields, dict[str, Json]], Block]] = {
    "input_text": _read_text,
    "output_text": _read_text,
    "text": _read_text,
    "refusal": _read_refusal,
    "input_image": _read_image,
    "input_file": _read_file,
}


def _read_source(fields: Fields, data_name: str, url_name: str) -> Source | None:
    """Return the first of data, URL and file id that is present; the others stay extras."""
    # Images have one field for data and links, files have two.
    data = fields.text(data_name)
    if data and (data.startswith("data:") or data_name != url_name):
        return _file_source(data)
    url = data if data_name == url_name else fields.text(url_name)
    if url:
        return Source(SourceKind.URL, url)
    file_id = fields.text("file_id")
    return Source(SourceKind.FILE_ID, file_id) if file_id else None


def _file_source(data: str) -> Source:
    """Return the source for a data URL, or for bare base64, as some clients send it.

    A data URL that is not base64 stays a URL.
    """
    if not data.startswith("data:"):
        return Source(SourceKind.DATA, data)
    return data_source(data) or Source(SourceKind.URL, data)


def decode_annotations(value: list[Json] | None) -> tuple[Citation, ...]:
    """Return the annotations of a text as citations; entries that are not objects are ignored."""
    return tuple(decode_annotation(entry) for entry in value or () if isinstance(entry, dict))


def decode_annotation(native: dict[str, Json]) -> Citation:
    """Return one annotation as a citation. Some servers nest it under its type, as Chat does."""
    nested = native.get("url_citation")
    fields = LooseFields(nested if isinstance(nested, dict) else native)
    kind = native.get("type")
    return Citation(
        kind=_CITATIONS.get(kind, CitationKind.FILE) if isinstance(kind, str) else CitationKind.FILE,
        native=native,
        url=fields.text("url"),
        title=fields.text("title") or fields.text("filename"),
        start=fields.integer("start_index"),
        end=fields.integer("end_index"),
    )


def encode_annotation(citation: Citation, text: str, native: bool) -> dict[str, Json] | None:
    """Return the annotation of a text, with its span inside the text; None if this protocol has no form for it."""
    given = citation.native
    if citation.kind is CitationKind.FILE:
        return given if native or "file_id" in given else None
    if citation.kind is not CitationKind.WEB:
        return given if native else None
    size = len(text)
    # Positions must lie inside the text.
    start = min(max(citation.start or 0, 0), size)
    end = size if citation.end is None else min(max(citation.end, start), size)
    base = given if native and "url_citation" not in given else {"type": "url_citation"}
    return {**base, "start_index": start, "end_index": end, "url": citation.url or "", "title": citation.title or ""}


class PartWriter(Struct):
    """A writer for the blocks of one request as parts."""

    native: bool
    ledger: Ledger
    cache_marks: bool
    """whether the server accepts cache marks"""
    knows_files: bool
    """whether file ids may be OpenAI's"""
    breakpoints: list[tuple[Json, str]]
    """the cache marks that were written, with their paths; see `EncodingContext`"""

    def write(self, blocks: Iterable[Block]) -> list[Json]:
        """Return the parts of all blocks, in order."""
        parts: list[Json] = []
        for block in blocks:
            if type(block) is Text and block.cache is None and block.extras is None and not block.citations:
                parts.append({"type": "input_text", "text": block.text})
            else:
                parts.extend(self._part(block))
        return parts

    def write_result(self, result: ToolResult) -> list[Json]:
        """Return the parts of a tool result. A cache mark on the whole result goes to its last part."""
        parts = self.write(result.content)
        if result.cache is not None:
            self._mark(parts[-1], result.cache, result.path)
        return parts

    def write_output(self, blocks: Iterable[Block]) -> list[Json]:
        """Return the parts of an assistant message."""
        return [part for block in blocks for part in self._output_part(block)]

    def declare_citations(self, block: Text) -> None:
        """Declare the citations of a text from another protocol: only responses have a place for them."""
        if block.citations and not self.native:
            self.ledger.add("citation.dropped", f"{block.path}.citations")

    def _output_part(self, block: Block) -> list[Json]:
        part: dict[str, Json]
        if isinstance(block, Text):
            annotations = [citation.native for citation in block.citations] if self.native else []
            self.declare_citations(block)
            # `annotations` is a required field.
            part = {"type": "output_text", "text": block.text, "annotations": annotations}
            if block.logprobs and self.native:
                part["logprobs"] = block.logprobs
        elif isinstance(block, Refusal):
            part = {"type": "refusal", "refusal": block.text}
        elif self.native:
            return self._part(block)
        else:
            # An assistant message accepts only text and refusals.
            self.ledger.add("native.dropped", block.path, name_of(block))
            return []
        if block.cache is not None and not self.native:
            self.ledger.add("cache.mark", block.path)
        return [self._finish(part, block, mark=self.native)]

    def _part(self, block: Block) -> list[Json]:
        write = _WRITERS.get(type(block))
        if write is None:
            raise Unsupported(block.path, f"the Responses protocol has no input of the kind {name_of(block)}")
        *before, last = write(self, block)
        return [*before, self._finish(last, block)]

    def _finish(self, part: dict[str, Json], block: Block, mark: bool = True) -> dict[str, Json]:
        if block.cache is not None and mark:
            self._mark(part, block.cache, block.path)
        if self.native and block.extras:
            part.update(block.extras)
        return part

    def _mark(self, part: dict[str, Json], mark: CacheMark, path: str) -> None:
        if not self.cache_marks:
            self.ledger.add("cache.mark", path)
            return
        part[BREAKPOINT] = written = write_breakpoint(mark, path, self.ledger)
        self.breakpoints.append((written, path))


def _write_text(writer: PartWriter, block: Text) -> list[dict[str, Json]]:
    writer.declare_citations(block)
    return [{"type": "input_text", "text": block.text}]


def _write_refusal(_: PartWriter, block: Refusal) -> list[dict[str, Json]]:
    return [{"type": "input_text", "text": block.text}]


def _write_image(writer: PartWriter, block: Image) -> list[dict[str, Json]]:
    part: dict[str, Json] = {"type": "input_image"}
    part |= _write_source(writer, block.source, block.path, "image_url", "image_url")
    if block.detail is not None or not writer.native:
        # The official types require the field.
        part["detail"] = block.detail or "auto"
    return [part]


def _write_document(writer: PartWriter, block: Document) -> list[dict[str, Json]]:
    source = block.source
    if source is None or source.kind is SourceKind.TEXT:
        writer.ledger.add("document.as_text", block.path)
        text = source.value if source else ""
        combined = "\n\n".join(piece for piece in (document_head(block), text) if piece)
        parts = writer.write(block.parts)
        return [{"type": "input_text", "text": combined}, *parts] if combined or not parts else parts
    if block.citations:
        writer.ledger.add("param.dropped", f"{block.path}.citations")
    before: list[dict[str, Json]] = []
    if block.context:
        writer.ledger.add("document.as_text", f"{block.path}.context")
        before.append({"type": "input_text", "text": block.context})
    part: dict[str, Json] = {"type": "input_file"}
    part |= _write_source(writer, source, block.path, "file_data", "file_url")
    title = block.title
    if title is None and source.kind is SourceKind.DATA and not writer.native:
        title = "document" + ("." + source.media_type.rpartition("/")[2] if source.media_type else "")
    if title is not None:
        part["filename"] = title
    return [*before, part]


def _write_source(writer: PartWriter, source: Source, path: str, data_name: str, url_name: str) -> dict[str, Json]:
    if source.kind is SourceKind.URL:
        return {data_name if source.value.startswith("data:") else url_name: source.value}
    if source.kind is SourceKind.FILE_ID:
        # Anthropic's file ids mean nothing to OpenAI.
        if not writer.knows_files:
            raise Unsupported(path, "a file that another provider keeps")
        return {"file_id": source.value}
    return {data_name: source.value if source.media_type is None else data_url(source, source.media_type)}


def _write_search_result(writer: PartWriter, block: SearchResult) -> list[dict[str, Json]]:
    writer.ledger.add("search_result.as_text", block.path)
    return [{"type": "input_text", "text": search_result_text(block)}]


def _write_audio(writer: PartWriter, block: Audio) -> list[dict[str, Json]]:
    if block.transcript is None:
        raise Unsupported(block.path, "the Responses protocol takes no sound")
    writer.ledger.add("audio.dropped", block.path)
    return [{"type": "input_text", "text": block.transcript}]


def _write_native(writer: PartWriter, block: Native) -> list[dict[str, Json]]:
    if not writer.native:
        # At this point only tool results can still contain blocks of other protocols.
        writer.ledger.add("tool_result.part", block.path, block.type)
        return [{"type": "input_text", "text": native_part(block)}]
    return [dict(block.data)]


_WRITERS: dict[type[Block], Callable[[PartWriter, Any], list[dict[str, Json]]]] = {
    Text: _write_text,
    Refusal: _write_refusal,
    Image: _write_image,
    Document: _write_document,
    SearchResult: _write_search_result,
    Audio: _write_audio,
    Native: _write_native,
}


def decode_item(item: dict[str, Json], kind: str, path: str, reader: type[Fields]) -> tuple[Block, ...]:
    """Return the blocks of an item that is not a message."""
    if kind in HOSTED_ITEMS:
        return decode_hosted(item, kind, path)
    decode = _DECODERS.get(kind)
    if decode is None:
        return (decode_native(item, kind, path),)
    fields = reader(item, path)
    fields.any("type")
    return (decode(fields),)


def _read_call(fields: Fields, kind: CallKind, input_name: str) -> Block:
    """Return a tool call. Arguments are a string; if a server sends an object, its JSON is used."""
    names = _CALLS[type(fields), input_name]
    known, rest = sort_fields(fields.left, names)
    if rest and type(fields) is Fields:
        for name in names:
            if name in rest:
                fields.text(name)  # raises BadRequest: in a request a wrong type is the client's mistake
    given, namespace = known[input_name], known["namespace"]
    return ToolCall(
        # Some servers send only the item id.
        id=known["call_id"] or known["id"] or derive_id("call_", fields.path),
        name=known["name"] or "",
        arguments=given if type(given) is str else "" if given is None else dump_text(given),
        kind=kind,
        namespace=namespace if type(namespace) is str else None,
        item_id=known["id"],
        status=known["status"],
        path=fields.path,
        extras=rest or None,
    )


_CALLS: dict[tuple[type[Fields], str], Kinds] = {
    (reader, name): {"id": str, "call_id": str, "name": str, name: given, "namespace": Kept, "status": str}
    for reader, given in ((Fields, str), (LooseFields, object))
    for name in ("arguments", "input")
}
"""The fields of a call by reader and the name of its input, which must be text in requests."""


def _read_function_output(fields: Fields) -> Block:
    return _read_output(fields, CallKind.FUNCTION)


def _read_custom_output(fields: Fields) -> Block:
    return _read_output(fields, CallKind.CUSTOM)


def _read_output(fields: Fields, kind: CallKind) -> Block:
    item_id = fields.text("id")
    status = fields.text("status")
    value = fields.any("output")
    plain = value is None or type(value) is str
    path = fields.at("output")
    return ToolResult(
        call_id=fields.text("call_id") or item_id or "",
        content=(Text(text=value or "", path=path),)
        if plain
        else decode_parts(value, path, type(fields), "input_text"),
        # The nearest that Responses has to an error flag.
        is_error=True if status == "incomplete" else None,
        plain=plain,
        kind=kind,
        name=fields.text("name"),
        item_id=item_id,
        status=status,
        path=fields.path,
        extras=fields.rest(),
    )


def _read_reasoning(fields: Fields) -> Block:
    item_id = fields.text("id")
    encrypted = fields.text("encrypted_content")
    return Reasoning(
        summary=_texts(fields, "summary", "summary_text"),
        raw=_texts(fields, "content", "reasoning_text"),
        # The id must go back with the encrypted content, which OpenAI checks against it.
        opaque=Opaque(kind=OpaqueKind.ENCRYPTED, value=encrypted, item_id=item_id) if encrypted else None,
        id=item_id,
        status=fields.text("status"),
        path=fields.path,
        extras=fields.rest(),
    )


def _texts(fields: Fields, name: str, part_type: str) -> tuple[str, ...]:
    """Return the texts of a list of parts. A list with other fields stays an extra as well."""
    parts = fields.items(name)
    if not parts:
        return ()
    given = [part.get("text") for part in parts if isinstance(part, dict)]
    texts = tuple([text for text in given if type(text) is str])
    if parts != [{"type": part_type, "text": text} for text in texts]:
        fields.put_back(name, parts)
    return texts


_DECODERS: dict[str, Callable[[Fields], Block]] = {
    "function_call": partial(_read_call, kind=CallKind.FUNCTION, input_name="arguments"),
    "custom_tool_call": partial(_read_call, kind=CallKind.CUSTOM, input_name="input"),
    "function_call_output": _read_function_output,
    "custom_tool_call_output": _read_custom_output,
    "reasoning": _read_reasoning,
}
_Kind = TypeVar("_Kind", bound=Block)


def of_kind(block: Block, kind: type[_Kind]) -> _Kind:
    """Return the block as one of a kind. Raises `InternalError` if it is of another kind."""
    if not isinstance(block, kind):
        raise InternalError(f"a {type(block).__name__} where a {kind.__name__} belongs")
    return block


def call_type(kind: CallKind) -> str:
    """Return the item type of a tool call."""
    return "custom_tool_call" if kind is CallKind.CUSTOM else "function_call"


def encode_call(call: ToolCall, call_id: str, arguments: str) -> dict[str, Json]:
    """Return a tool call as an item, without id and status."""
    custom = call.kind is CallKind.CUSTOM
    item: dict[str, Json] = {
        "type": call_type(call.kind),
        "call_id": call_id,
        "name": call.name,
        "input" if custom else "arguments": arguments,
    }
    if call.namespace is not None:
        item["namespace"] = call.namespace
    return item


def encode_reasoning(summary: tuple[str, ...], raw: tuple[str, ...], encrypted: str | None) -> dict[str, Json]:
    """Return reasoning as an item, without id and status."""
    item: dict[str, Json] = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in summary],
    }
    if raw:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in raw]
    if encrypted is not None:
        item["encrypted_content"] = encrypted
    return item
