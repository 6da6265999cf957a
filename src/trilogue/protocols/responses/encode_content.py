"""Content parts and annotations, written from blocks and citations.

In: the blocks of one message or tool result. Out: its parts; blocks without a form are declared or refused. `items.py`
and `conversation.py` know items, and where parts belong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from trilogue.errors import Unsupported
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
    ToolResult,
)
from trilogue.model.names import name_of
from trilogue.protocols.content.parts import data_url, document_head, native_part, search_result_text
from trilogue.protocols.openai.cache import NAME as BREAKPOINT
from trilogue.protocols.openai.cache import write_breakpoint


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
