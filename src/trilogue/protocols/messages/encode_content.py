"""Content blocks of requests, written from neutral blocks.

Blocks of this protocol are written back unchanged. Blocks of others are written as the API accepts them; those without
a form are declared or refused. This module does not know turns and roles.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import parse_object
from trilogue.errors import InternalError, Unsupported
from trilogue.model import (
    PART_BREAK,
    Audio,
    Block,
    CallKind,
    Document,
    HostedCall,
    HostedResult,
    Image,
    Json,
    Ledger,
    Native,
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
from trilogue.protocols.content.ids import safe_call_id
from trilogue.protocols.content.parts import PDF, image_type, native_part, sniffed_type
from trilogue.protocols.messages import hosted
from trilogue.protocols.messages.controls import Marks
from trilogue.protocols.messages.wire import IMAGE_TYPES, SOURCES, Wire

_SOURCE_TYPES = {kind: (name, field) for name, (kind, field) in SOURCES.items()}


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
