"""Content of messages in both directions: the parts of a request's messages, and audio that a model produced.

Reading: the `content` of a message (text, an array of parts, or null) becomes blocks with their paths. Writing: blocks
of this protocol are written back unchanged; blocks without a form are declared or refused. Nothing here knows which
message a part belongs to: `request.py` and `history.py` do.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence

from trilogue.errors import BadRequest, Unsupported
from trilogue.model import (
    Audio,
    Block,
    CacheMark,
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
from trilogue.protocols.chat.wire import CACHE_CONTROL_TTLS, REASONING_PART
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fields import Fields, LooseFields, restore_extras
from trilogue.protocols.openai.cache import NAME as BREAKPOINT
from trilogue.protocols.openai.cache import read_breakpoint, write_breakpoint
from trilogue.protocols.parts import (
    PDF,
    data_source,
    data_url,
    document_head,
    native_part,
    search_result_text,
    sniffed_type,
)

PLAIN_TEXT = {"type", "text"}
MOST_COMPARED = 4096
"""the number of characters of a text that are kept to be compared with a transcript"""
_WORD = re.compile(r"\w+")


def decode_content(value: Json, path: str) -> tuple[Block, ...]:
    """Return the blocks of a `content`. An empty string gives no block: `Turn.plain` records it."""
    if isinstance(value, str):
        return (Text(text=value, path=path),) if value else ()
    if isinstance(value, list):
        return tuple(decode_part(part, f"{path}[{index}]") for index, part in enumerate(value))
    if value is None:
        return ()
    raise BadRequest(f"{path} must be a string or an array", path=path)


def decode_part(part: Json, path: str) -> Block:
    """Return the block for one content part. A part without a neutral counterpart becomes a `Native`."""
    if not isinstance(part, dict):
        # Some clients send an array of strings.
        if isinstance(part, str):
            return Text(text=part, path=path)
        raise BadRequest(f"{path} must be an object", path=path)
    if part.keys() == PLAIN_TEXT and part["type"] == "text" and type(part["text"]) is str:
        return Text(text=part["text"], path=path)
    kind = part.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    block = reader(Fields(part, path)) if reader is not None else None
    return block if block is not None else Native(type=kind if isinstance(kind, str) else "", data=part, path=path)


def read_cache(fields: Fields) -> CacheMark | None:
    """Return the cache mark of a part or tool: OpenAI's, or the one that compatible servers adopted from Messages."""
    mark = read_breakpoint(fields)
    if mark is not None:
        return mark
    control = fields.any("cache_control")
    if control is None:
        return None
    # It stays an extra as well, because same-protocol requests must go out unchanged.
    fields.put_back("cache_control", control)
    ttl = control.get("ttl") if isinstance(control, dict) else None
    return CacheMark(CACHE_CONTROL_TTLS.get(ttl) if isinstance(ttl, str) else None)


def _read_text(fields: Fields) -> Block:
    fields.any("type")
    text = fields.required("text")
    return Text(text=text, cache=read_cache(fields), path=fields.path, extras=fields.rest())


def _read_refusal(fields: Fields) -> Block:
    fields.any("type")
    text = fields.required("refusal")
    return Refusal(text=text, path=fields.path, extras=fields.rest())


def _read_thinking(fields: Fields) -> Block:
    """Return the reasoning of Mistral's thinking part, whose text is a string or a list of parts."""
    part = {"type": fields.any("type"), "thinking": fields.any("thinking"), **(fields.rest() or {})}
    text = thinking_text(part["thinking"])
    return Reasoning(raw=(text,) if text else (), path=fields.path, extras={REASONING_PART: part})


def thinking_text(value: Json) -> str:
    """Return the text of a thinking part."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else ()
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _read_image(fields: Fields) -> Block:
    fields.any("type")
    value = fields.any("image_url")
    # Some clients write the URL directly.
    inner = Fields({"url": value} if isinstance(value, str) else value, fields.at("image_url"))
    url = inner.required("url")
    detail = inner.text("detail")
    fields.keep("image_url", inner)
    source = data_source(url) or Source(SourceKind.URL, url)
    return Image(source=source, detail=detail, cache=read_cache(fields), path=fields.path, extras=fields.rest())


def _read_audio(fields: Fields) -> Block | None:
    fields.any("type")
    value = fields.any("input_audio")
    if not isinstance(value, dict):
        return None
    inner = Fields(value, fields.at("input_audio"))
    data, form = inner.required("data"), inner.text("format")
    fields.keep("input_audio", inner)
    source = Source(SourceKind.DATA, data, f"audio/{form}" if form else None)
    return Audio(source=source, format=form, cache=read_cache(fields), path=fields.path, extras=fields.rest())


def _read_file(fields: Fields) -> Block:
    fields.any("type")
    inner = Fields(fields.any("file"), fields.at("file"))
    name = inner.text("filename")
    file_id = inner.text("file_id")
    source = _file_source(inner.required("file_data")) if file_id is None else Source(SourceKind.FILE_ID, file_id)
    fields.keep("file", inner)
    return Document(source=source, title=name, cache=read_cache(fields), path=fields.path, extras=fields.rest())


def _file_source(data: str) -> Source:
    """Return the source of a file. Official clients send a data: URL; some servers accept bare base64 or a link."""
    if data.startswith(("http://", "https://")):
        return Source(SourceKind.URL, data)
    return data_source(data) or Source(SourceKind.DATA, data, sniffed_type(data))


_READERS: dict[str, Callable[[Fields], Block | None]] = {
    "text": _read_text,
    "image_url": _read_image,
    "input_audio": _read_audio,
    "file": _read_file,
    "refusal": _read_refusal,
    "thinking": _read_thinking,
}


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


def read_audio(value: Json, path: str, said: str) -> Audio | None:
    """Return the audio of a complete response; None if it is empty, as some servers always send it.

    `said`: the text of the response, which the transcript may repeat.
    """
    fields = LooseFields(value)
    audio_id, data, transcript = fields.text("id"), fields.text("data"), fields.text("transcript")
    # An empty object says nothing; some servers send it with every message.
    if not audio_id and not data and not transcript:
        return None
    source = Source(SourceKind.DATA, data) if data else None
    repeats = repeats_text(transcript or "", said)
    return Audio(
        id=audio_id, source=source, transcript=transcript, repeats_text=repeats, path=path, extras=fields.rest()
    )


def repeats_text(transcript: str, text: str) -> bool:
    """Return whether a transcript has only words of a text. Of a long text, only the beginning is compared."""
    # OpenAI leaves the content null next to audio. Omni models of other servers send the same words in both, which may
    # differ in case, spaces and punctuation.
    spoken, written = _words(transcript), _words(text)
    if f" {' '.join(spoken)} " in f" {' '.join(written)} ":
        return True
    squeezed, opening = "".join(spoken), "".join(written)
    return squeezed == opening or (len(text) >= MOST_COMPARED and squeezed.startswith(opening))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold()) or [text.strip()]


def audio_of(block: Audio) -> dict[str, Json]:
    """Return audio as the official API writes it."""
    data = block.source.value if block.source is not None else ""
    return {"id": block.id or "", "data": data, "transcript": block.transcript or "", **(block.extras or {})}


class AudioAssembler:
    """An accumulator for the fragments of streamed audio.

    Audio is emitted in one piece: no other protocol has it, and a fragment alone is useless.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._pieces: dict[str, list[str]] = {}
        self._extras: dict[str, Json] = {}

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def is_another(self, value: Json) -> bool:
        """Return whether a fragment is of another clip than the ones before it."""
        ids, new = self._pieces.get("id"), LooseFields(value).text("id")
        return bool(ids and new) and new not in (ids or ())

    def take(self, value: Json) -> None:
        """Add one fragment of audio."""
        fields = LooseFields(value)
        for name in ("id", "data", "transcript"):
            piece = fields.text(name)
            if piece:
                self._pieces.setdefault(name, []).append(piece)
        self._extras.update(fields.rest() or {})

    def finish(self, said: str) -> Audio | None:
        """Return the audio since the last call, or None if there was none. `said`: the text of the response so far."""
        if not self._pieces:
            return None
        pieces, self._pieces = self._pieces, {}
        extras, self._extras = self._extras, {}
        data = _join_base64(pieces.get("data", []))
        transcript = "".join(pieces.get("transcript", []))
        return Audio(
            id=pieces.get("id", [None])[0],
            source=Source(SourceKind.DATA, data) if data else None,
            transcript=transcript or None,
            repeats_text=repeats_text(transcript, said),
            path=self._path,
            extras=extras or None,
        )


def _join_base64(pieces: list[str]) -> str:
    """Return one base64 text for several. Pieces that end in padding must be decoded first."""
    # Servers that encode every fragment by itself pad each of them.
    if not any("=" in piece for piece in pieces[:-1]):
        return "".join(pieces)
    try:
        return b64encode(b"".join(b64decode(piece) for piece in pieces)).decode()
    except (Base64Error, ValueError):
        return "".join(pieces)
