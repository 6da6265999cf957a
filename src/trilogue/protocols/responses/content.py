"""Content parts and annotations of the Responses protocol ↔ blocks and citations.

In: the `content` of messages and the `output` of tools. Out: text, refusals, images and documents, and back.
What an item is, and where parts belong, is `items.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from trilogue.errors import BadRequest, Unsupported
from trilogue.model import (
    Audio,
    Block,
    CacheMark,
    Citation,
    CitationKind,
    Document,
    Image,
    Json,
    Ledger,
    Native,
    Refusal,
    SearchResult,
    Source,
    SourceKind,
    Text,
)
from trilogue.protocols.fields import Fields, LooseFields
from trilogue.protocols.responses.wire import TTL_SECONDS

_TTL_NAMES = {seconds: name for name, seconds in TTL_SECONDS.items()}
_LONGEST_OF_30M = 3_600
_CITATIONS = {
    "url_citation": CitationKind.WEB,
    "file_citation": CitationKind.FILE,
    "container_file_citation": CitationKind.FILE,
    "file_path": CitationKind.FILE,
}
_PLAIN_TEXT = ({"type", "text"}, {"type", "text", "annotations", "logprobs"}, {"type", "text", "annotations"})


def decode_parts(value: Json, path: str, reader: type[Fields], text_type: str) -> tuple[Block, ...]:
    """The parts of a list. `text_type` is what text parts are called here: input_text or output_text."""
    if type(value) is not list:
        if reader is LooseFields:
            return ()
        raise BadRequest(f"{path} must be a string or an array", path=path)
    return tuple(decode_part(part, f"{path}[{n}]", reader, text_type) for n, part in enumerate(value))


def decode_part(part: Json, path: str, reader: type[Fields], text_type: str) -> Block:
    """One part. The plain text part, by far the most common, skips the field reader."""
    if type(part) is dict:
        text = part.get("text")
        if part.get("type") == text_type and type(text) is str and part.keys() in _PLAIN_TEXT:
            citations = part.get("annotations")
            logprobs = part.get("logprobs")
            if not citations and not logprobs:
                return Text(text=text, path=path)
    fields = reader(part, path)
    kind = fields.any("type")
    decode = _PARTS.get(kind) if type(kind) is str else None
    if decode is None:
        return Native(type=kind if type(kind) is str else "", data=part if isinstance(part, dict) else {}, path=path)
    if decode is _text and kind != text_type:
        fields.put_back("type", kind)
    return decode(fields, part)


def _text(fields: Fields, part: dict[str, Json]) -> Block:
    citations = decode_annotations(fields.items("annotations"))
    return Text(
        text=fields.text("text") or "",
        citations=citations,
        logprobs=fields.items("logprobs") or None,
        cache=decode_breakpoint(fields),
        path=fields.path,
        extras=fields.rest(),
    )


def _refusal(fields: Fields, part: dict[str, Json]) -> Block:
    return Refusal(text=fields.text("refusal") or "", path=fields.path, extras=fields.rest())


def _image(fields: Fields, part: dict[str, Json]) -> Block:
    source = _source(fields, "image_url", "image_url")
    if source is None:
        return Native(type="input_image", data=part, path=fields.path)
    return Image(
        source=source,
        detail=fields.text("detail"),
        cache=decode_breakpoint(fields),
        path=fields.path,
        extras=fields.rest(),
    )


def _file(fields: Fields, part: dict[str, Json]) -> Block:
    source = _source(fields, "file_data", "file_url")
    if source is None:
        return Native(type="input_file", data=part, path=fields.path)
    return Document(
        source=source,
        title=fields.text("filename"),
        cache=decode_breakpoint(fields),
        path=fields.path,
        extras=fields.rest(),
    )


_PARTS: dict[str, Callable[[Fields, dict[str, Json]], Block]] = {
    "input_text": _text,
    "output_text": _text,
    "text": _text,
    "refusal": _refusal,
    "input_image": _image,
    "input_file": _file,
}


def _source(fields: Fields, data_name: str, url_name: str) -> Source | None:
    """The first of data, URL and file id that is there; the others stay extras."""
    data = fields.text(data_name)
    if data and (data.startswith("data:") or data_name != url_name):
        return data_source(data)
    url = data if data_name == url_name else fields.text(url_name)
    if url:
        return Source(SourceKind.URL, url)
    file_id = fields.text("file_id")
    return Source(SourceKind.FILE_ID, file_id) if file_id else None


def data_source(data: str) -> Source:
    """A data URL, or bare base64 as some clients send it. A data URL that is not base64 stays a URL."""
    if not data.startswith("data:"):
        return Source(SourceKind.DATA, data)
    header, comma, payload = data.partition(",")
    if comma and header.endswith(";base64"):
        return Source(SourceKind.DATA, payload, header[len("data:") : -len(";base64")])
    return Source(SourceKind.URL, data)


def decode_breakpoint(fields: Fields) -> CacheMark | None:
    """The cache mark of a part. A form that we do not know stays an extra as well, so that it goes back unchanged."""
    value = fields.any("prompt_cache_breakpoint")
    if value is None:
        return None
    ttl = value.get("ttl") if isinstance(value, dict) else None
    known = TTL_SECONDS.get(ttl) if isinstance(ttl, str) else None
    if value != encode_breakpoint(known):
        fields.put_back("prompt_cache_breakpoint", value)
    return CacheMark(known)


def encode_breakpoint(ttl: int | None) -> dict[str, Json]:
    """The wire form of a cache mark; `ttl` is one of the lifetimes that the protocol has, or None."""
    mark = {"mode": "explicit"}
    return mark if ttl is None else {**mark, "ttl": _TTL_NAMES[ttl]}


def decode_annotations(value: list[Json] | None) -> tuple[Citation, ...]:
    """The annotations of a text; entries that are not objects say nothing."""
    return tuple(decode_annotation(entry) for entry in value or () if isinstance(entry, dict))


def decode_annotation(native: dict[str, Json]) -> Citation:
    """One annotation. Some servers nest it under its type, as Chat does."""
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


def encode_annotation(citation: Citation, text: str, own: bool) -> dict[str, Json] | None:
    """The annotation for a text, its span inside the text; None if this protocol has no form for it."""
    native = citation.native if own else None
    if citation.kind is CitationKind.FILE:
        return native or (citation.native if "file_id" in citation.native else None)
    if citation.kind is not CitationKind.WEB:
        return native
    size = len(text)
    start = min(max(citation.start or 0, 0), size)
    end = size if citation.end is None else min(max(citation.end, start), size)
    base = native if native is not None and "url_citation" not in native else {"type": "url_citation"}
    return {**base, "start_index": start, "end_index": end, "url": citation.url or "", "title": citation.title or ""}


class PartWriter(Struct, frozen=True):
    """Writes blocks as input parts. `own`: they come from this protocol. `own_files`: file ids may be ours."""

    ledger: Ledger
    own: bool
    own_files: bool
    cache_marks: bool = True

    def write(self, blocks: Iterable[Block]) -> list[Json]:
        """The parts of all blocks, in order."""
        parts: list[Json] = []
        for block in blocks:
            if type(block) is Text and block.cache is None and block.extras is None:
                parts.append({"type": "input_text", "text": block.text})
            else:
                parts.extend(self._part(block))
        return parts

    def write_output(self, blocks: Iterable[Block]) -> list[Json]:
        """The parts of an assistant's message."""
        return [part for block in blocks for part in self._output_part(block)]

    def _output_part(self, block: Block) -> list[Json]:
        part: dict[str, Json]
        if isinstance(block, Text):
            annotations = [citation.native for citation in block.citations] if self.own else []
            if block.citations and not self.own:
                self.ledger.add("citation.dropped", f"{block.path}.citations")
            part = {"type": "output_text", "text": block.text, "annotations": annotations}
            if block.logprobs and self.own:
                part["logprobs"] = block.logprobs
        elif isinstance(block, Refusal):
            part = {"type": "refusal", "refusal": block.text}
        else:
            return self._part(block)
        if block.cache is not None and not self.own:
            self.ledger.add("cache.mark", block.path)
        return [self._finish(part, block, mark=self.own)]

    def _part(self, block: Block) -> list[Json]:
        write = _WRITERS.get(type(block))
        if write is None:
            raise Unsupported(block.path, f"the Responses protocol has no input of the kind {type(block).__name__}")
        *before, last = write(self, block)
        return [*before, self._finish(last, block)]

    def _finish(self, part: dict[str, Json], block: Block, mark: bool = True) -> dict[str, Json]:
        if block.cache is not None and mark:
            self._mark(part, block.cache, block.path)
        if self.own and block.extras:
            part.update(block.extras)
        return part

    def _mark(self, part: dict[str, Json], mark: CacheMark, path: str) -> None:
        if not self.cache_marks:
            self.ledger.add("cache.mark", path)
            return
        ttl = mark.ttl
        if ttl is not None and ttl not in _TTL_NAMES:
            ttl = TTL_SECONDS["30m"] if ttl <= _LONGEST_OF_30M else TTL_SECONDS["12h"]
            self.ledger.add("cache.ttl", path, f"{mark.ttl} s as {_TTL_NAMES[ttl]}")
        part["prompt_cache_breakpoint"] = encode_breakpoint(ttl)


def _write_text(writer: PartWriter, block: Text) -> list[dict[str, Json]]:
    return [{"type": "input_text", "text": block.text}]


def _write_refusal(writer: PartWriter, block: Refusal) -> list[dict[str, Json]]:
    return [{"type": "input_text", "text": block.text}]


def _write_image(writer: PartWriter, block: Image) -> list[dict[str, Json]]:
    part: dict[str, Json] = {"type": "input_image"}
    part |= _write_source(writer, block.source, block.path, "image_url", "image_url")
    if block.detail is not None or not writer.own:
        part["detail"] = block.detail or "auto"
    return [part]


def _write_document(writer: PartWriter, block: Document) -> list[dict[str, Json]]:
    source = block.source
    if source is None or source.kind is SourceKind.TEXT:
        writer.ledger.add("document.as_text", block.path)
        text = source.value if source else ""
        intro = "\n".join(line for line in (block.title, block.context) if line)
        said = "\n\n".join(piece for piece in (intro, text) if piece)
        parts = writer.write(block.parts)
        return [{"type": "input_text", "text": said}, *parts] if said or not parts else parts
    for name in ("context", "citations"):
        if getattr(block, name):
            writer.ledger.add("param.dropped", f"{block.path}.{name}")
    part: dict[str, Json] = {"type": "input_file"}
    part |= _write_source(writer, source, block.path, "file_data", "file_url")
    title = block.title
    if title is None and source.kind is SourceKind.DATA and not writer.own:
        title = "document" + ("." + source.media_type.rpartition("/")[2] if source.media_type else "")
    if title is not None:
        part["filename"] = title
    return [part]


def _write_source(writer: PartWriter, source: Source, path: str, data_name: str, url_name: str) -> dict[str, Json]:
    if source.kind is SourceKind.URL:
        return {data_name if source.value.startswith("data:") else url_name: source.value}
    if source.kind is SourceKind.FILE_ID:
        if not writer.own_files:
            raise Unsupported(path, "a file that another provider keeps")
        return {"file_id": source.value}
    prefix = f"data:{source.media_type};base64," if source.media_type is not None else ""
    return {data_name: prefix + source.value}


def _write_search_result(writer: PartWriter, block: SearchResult) -> list[dict[str, Json]]:
    writer.ledger.add("search_result.as_text", block.path)
    body = "\n".join(part.text for part in block.parts)
    return [{"type": "input_text", "text": f"{block.title}\n{block.source}\n\n{body}"}]


def _write_audio(writer: PartWriter, block: Audio) -> list[dict[str, Json]]:
    if block.transcript is None:
        raise Unsupported(block.path, "the Responses protocol takes no sound")
    writer.ledger.add("audio.dropped", block.path)
    return [{"type": "input_text", "text": block.transcript}]


def _write_native(writer: PartWriter, block: Native) -> list[dict[str, Json]]:
    if not writer.own:
        writer.ledger.add("native.dropped", block.path, block.type)
        return [{"type": "input_text", "text": f"[{block.type}]"}]
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
