"""Content parts of request messages, written from blocks.

Blocks of this protocol are written back unchanged. Blocks without a form are declared or refused. `conversation.py`
decides which message a part belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trilogue.errors import Unsupported
from trilogue.model import (
    Audio,
    Block,
    Document,
    Image,
    Json,
    Native,
    Protocol,
    Reasoning,
    Refusal,
    SearchResult,
    Source,
    SourceKind,
    Text,
)
from trilogue.model.names import name_of
from trilogue.protocols.chat.decode_content import PLAIN_TEXT
from trilogue.protocols.chat.wire import REASONING_PART
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.content.parts import PDF, data_url, document_head, native_part, search_result_text
from trilogue.protocols.fields.extras import restore_extras
from trilogue.protocols.openai.cache import NAME as BREAKPOINT
from trilogue.protocols.openai.cache import write_breakpoint


def encode_content(blocks: Sequence[Block], plain: bool, out: EncodingContext) -> str | list[Json]:
    """Return the `content` of a message: a string if that is equivalent, else an array of parts.

    Servers that accept cache marks always get an array: marks move, and an old message must keep its form.
    """
    marked = out.profile.cache_marks and not out.native
    if len(blocks) == 1 and (plain or not out.native):
        only = blocks[0]
        if type(only) is Text and only.text and not (only.cache or only.citations):
            return [{"type": "text", "text": only.text}] if marked else only.text
    parts = [part for block in blocks for part in encode_block(block, out)]
    if (out.native and not plain) or (marked and parts):
        return parts
    texts = [part["text"] for part in parts if part.keys() == PLAIN_TEXT]
    if len(texts) < len(parts) or (len(texts) > 1 and out.profile.openai_fields):
        return parts
    # Many compatible servers accept no arrays here. A blank line between texts is nearly equivalent.
    if len(texts) > 1 and not out.native:
        out.ledger.add("text.blocks_joined", blocks[0].path)
    return "\n\n".join(texts)


def encode_block(block: Block, out: EncodingContext) -> list[dict[str, Json]]:
    """Return the content parts of one block; none, and a declared loss, if it has no form here."""
    writer = _WRITERS.get(type(block))
    if writer is None:
        out.ledger.add("native.dropped", block.path, name_of(block))
        return []
    return writer(block, out)


def _write_text(block: Text, out: EncodingContext) -> list[dict[str, Json]]:
    if block.citations:
        out.ledger.add("citation.dropped", block.path)
    if not block.text and not out.native:
        declare_mark(block, out)
        return []
    return [mark_part({"type": "text", "text": block.text}, block, out)]


def _write_refusal(block: Refusal, out: EncodingContext) -> list[dict[str, Json]]:
    return [mark_part({"type": "refusal", "refusal": block.text}, block, out)]


def _write_image(block: Image, out: EncodingContext) -> list[dict[str, Json]]:
    image: dict[str, Json] = {"url": _image_url(block.source, block.path)}
    if block.detail is not None:
        image["detail"] = block.detail
    return [mark_part({"type": "image_url", "image_url": image}, block, out)]


def _write_audio(block: Audio, out: EncodingContext) -> list[dict[str, Json]]:
    if block.source is None or block.source.kind is not SourceKind.DATA:
        raise Unsupported(block.path, "sound must be given as data")
    audio = {"data": block.source.value}
    if block.format is not None:
        audio["format"] = block.format
    return [mark_part({"type": "input_audio", "input_audio": audio}, block, out)]


def _write_document(block: Document, out: EncodingContext) -> list[dict[str, Json]]:
    if block.citations:
        out.ledger.add("param.dropped", f"{block.path}.citations")
    if block.source is None or block.source.kind is SourceKind.TEXT:
        return _document_text(block, out)
    file: dict[str, Json] = _file(block.source, block.path, out)
    name = block.title or (None if out.native or "file_id" in file else "document.pdf")
    if name is not None:
        file["filename"] = name
    parts = [mark_part({"type": "file", "file": file}, block, out)]
    if block.context:
        parts.insert(0, {"type": "text", "text": block.context})
        out.ledger.add("document.as_text", f"{block.path}.context")
    return parts


def _document_text(block: Document, out: EncodingContext) -> list[dict[str, Json]]:
    """Return the parts of a document that is text or blocks: text as text, images as images."""
    out.ledger.add("document.as_text", block.path)
    head = document_head(block)
    parts: list[dict[str, Json]] = [{"type": "text", "text": head}] if head else []
    if block.source is not None:
        parts.append({"type": "text", "text": block.source.value})
    parts += [part for inner in block.parts for part in encode_block(inner, out)]
    if parts:
        parts[-1] = mark_part(parts[-1], block, out)
    return parts


def _write_search_result(block: SearchResult, out: EncodingContext) -> list[dict[str, Json]]:
    out.ledger.add("search_result.as_text", block.path)
    return [mark_part({"type": "text", "text": search_result_text(block)}, block, out)]


def _write_reasoning(block: Reasoning, out: EncodingContext) -> list[dict[str, Json]]:
    """Return the part of reasoning that was a content part of this protocol.

    All other reasoning has its own field next to the content.
    """
    part = (block.extras or {}).get(REASONING_PART)
    if out.native and part is not None:
        return [part]
    out.ledger.add("reasoning.foreign_dropped", block.path)
    return []


def _write_native(block: Native, out: EncodingContext) -> list[dict[str, Json]]:
    if out.native:
        return [block.data]
    # At this point only tool results can still contain blocks of other protocols.
    out.ledger.add("tool_result.part", block.path, block.type)
    return [{"type": "text", "text": native_part(block)}]


_WRITERS: dict[type[Block], Callable[..., list[dict[str, Json]]]] = {
    Text: _write_text,
    Refusal: _write_refusal,
    Image: _write_image,
    Audio: _write_audio,
    Document: _write_document,
    SearchResult: _write_search_result,
    Reasoning: _write_reasoning,
    Native: _write_native,
}


def _image_url(source: Source, path: str) -> str:
    if source.kind is SourceKind.DATA:
        return data_url(source, "application/octet-stream")
    if source.kind is SourceKind.URL:
        return source.value
    raise Unsupported(path, "an image must be a link or data")


def _file(source: Source, path: str, out: EncodingContext) -> dict[str, Json]:
    if source.kind is SourceKind.FILE_ID:
        # Responses shares OpenAI's file store; Anthropic's ids mean nothing there.
        if out.source is Protocol.MESSAGES:
            raise Unsupported(path, "a file id belongs to the provider that gave it")
        return {"file_id": source.value}
    # Chat has no document URLs. Fetching the URL here would need a guard against requests to internal hosts.
    if source.kind is SourceKind.URL and not out.native:
        raise Unsupported(path, "Chat Completions takes documents as data, not as a link")
    if source.kind is SourceKind.DATA and (source.media_type or not out.native):
        return {"file_data": data_url(source, PDF)}
    return {"file_data": source.value}


def mark_part(part: dict[str, Json], block: Block, out: EncodingContext) -> dict[str, Json]:
    """Add what all parts share: the cache mark and, in its own protocol, the extras."""
    extras = (block.extras if out.native else None) or {}
    if block.cache is not None:
        if out.native and "cache_control" in extras:
            # The mark was read from this field, which compatible servers adopted from Messages.
            pass
        elif out.native or out.profile.cache_marks:
            part[BREAKPOINT] = mark = write_breakpoint(block.cache, block.path, out.ledger)
            out.breakpoints.append((mark, block.path))
        else:
            declare_mark(block, out)
    if extras:
        restore_extras(part, extras)
    return part


def declare_mark(block: Block, out: EncodingContext) -> None:
    """Declare the cache mark of a block that is not written, or that goes to a server without marks."""
    if block.cache is not None:
        out.ledger.add("cache.mark", block.path)
