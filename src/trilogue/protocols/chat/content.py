"""Content parts of messages ↔ blocks, in requests.

In: the `content` of a message (text, an array of parts, null). Out: blocks that know their path, and back. It does not
know which message a part belongs to; reasoning, calls and results are in the files that read whole messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from trilogue.errors import BadRequest, Unsupported
from trilogue.model import (
    Audio,
    Block,
    CacheMark,
    Document,
    Image,
    Json,
    Ledger,
    Native,
    Protocol,
    Reasoning,
    Refusal,
    SearchResult,
    Source,
    SourceKind,
    Text,
)
from trilogue.protocols.chat.wire import CACHE_CONTROL_TTLS, CACHE_TTLS, PROTOCOL, REASONING_PART
from trilogue.protocols.fields import Fields
from trilogue.protocols.profile import Profile

_PLAIN_TEXT = {"type", "text"}
_PDF_BASE64 = "JVBERi"
_PDF = "application/pdf"


class Writer(Struct, frozen=True):
    """What the encoding of one request has to know everywhere: whose request it is, for whom, and where losses go."""

    source: Protocol
    profile: Profile
    ledger: Ledger

    @property
    def native(self) -> bool:
        """The request is a Chat request: written back as it came, whatever the profile says."""
        return self.source is PROTOCOL


def decode_content(value: Json, path: str) -> tuple[Block, ...]:
    """The blocks of a `content`. An empty string is no block: `Turn.plain` remembers it."""
    if isinstance(value, str):
        return (Text(text=value, path=path),) if value else ()
    if isinstance(value, list):
        return tuple(decode_part(part, f"{path}[{index}]") for index, part in enumerate(value))
    if value is None:
        return ()
    raise BadRequest(f"{path} must be a string or an array", path=path)


def decode_part(part: Json, path: str) -> Block:
    """One content part. What the model has no class for stays whole."""
    if not isinstance(part, dict):
        if isinstance(part, str):
            return Text(text=part, path=path)
        raise BadRequest(f"{path} must be an object", path=path)
    if part.keys() == _PLAIN_TEXT and part["type"] == "text" and type(part["text"]) is str:
        return Text(text=part["text"], path=path)
    kind = part.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    block = reader(Fields(part, path)) if reader is not None else None
    return block if block is not None else Native(type=kind if isinstance(kind, str) else "", data=part, path=path)


def read_cache(fields: Fields) -> CacheMark | None:
    """The cache mark of a part or tool: OpenAI's own, or the one that compatible servers took from Messages."""
    mark = fields.any("prompt_cache_breakpoint")
    if isinstance(mark, dict) and mark.get("mode") == "explicit" and mark.get("ttl") in {None, *CACHE_TTLS}:
        return CacheMark(CACHE_TTLS.get(mark.get("ttl", "")))
    if mark is not None:
        fields.put_back("prompt_cache_breakpoint", mark)
    control = fields.any("cache_control")
    if control is None:
        return None
    fields.put_back("cache_control", control)
    ttl = control.get("ttl") if isinstance(control, dict) else None
    return CacheMark(CACHE_CONTROL_TTLS.get(ttl) if isinstance(ttl, str) else None)


def _read_text(fields: Fields) -> Block:
    fields.any("type")
    text = fields.text("text")
    if text is None:
        raise fields.require("text")
    return Text(text=text, cache=read_cache(fields), path=fields.path, extras=fields.rest())


def _read_refusal(fields: Fields) -> Block:
    fields.any("type")
    text = fields.text("refusal")
    if text is None:
        raise fields.require("refusal")
    return Refusal(text=text, path=fields.path, extras=fields.rest())


def _read_thinking(fields: Fields) -> Block:
    """Mistral keeps reasoning as a part: its text is a string or parts of its own."""
    part = {"type": fields.any("type"), "thinking": fields.any("thinking"), **(fields.rest() or {})}
    text = thinking_text(part["thinking"])
    return Reasoning(raw=(text,) if text else (), path=fields.path, extras={REASONING_PART: part})


def thinking_text(value: Json) -> str:
    """The words of a thinking part."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else ()
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _read_image(fields: Fields) -> Block:
    fields.any("type")
    value = fields.any("image_url")
    inner = Fields({"url": value} if isinstance(value, str) else value, fields.at("image_url"))
    url = inner.text("url")
    if url is None:
        raise inner.require("url")
    detail = inner.text("detail")
    _keep_inner(fields, "image_url", inner)
    source = data_source(url) or Source(SourceKind.URL, url)
    return Image(source=source, detail=detail, cache=read_cache(fields), path=fields.path, extras=fields.rest())


def _read_audio(fields: Fields) -> Block | None:
    fields.any("type")
    value = fields.any("input_audio")
    if not isinstance(value, dict):
        return None
    inner = Fields(value, fields.at("input_audio"))
    data, form = inner.text("data"), inner.text("format")
    if data is None:
        raise inner.require("data")
    _keep_inner(fields, "input_audio", inner)
    source = Source(SourceKind.DATA, data, f"audio/{form}" if form else None)
    return Audio(source=source, format=form, cache=read_cache(fields), path=fields.path, extras=fields.rest())


def _read_file(fields: Fields) -> Block:
    fields.any("type")
    inner = Fields(fields.any("file"), fields.at("file"))
    name = inner.text("filename")
    file_id = inner.text("file_id")
    if file_id is not None:
        source = Source(SourceKind.FILE_ID, file_id)
    else:
        data = inner.text("file_data")
        if data is None:
            raise inner.require("file_data")
        source = _file_source(data)
    _keep_inner(fields, "file", inner)
    return Document(source=source, title=name, cache=read_cache(fields), path=fields.path, extras=fields.rest())


def _file_source(data: str) -> Source:
    """Official clients send a data: URL; some servers also take bare base64 or a link."""
    if data.startswith(("http://", "https://")):
        return Source(SourceKind.URL, data)
    return data_source(data) or Source(SourceKind.DATA, data, _PDF if data.startswith(_PDF_BASE64) else None)


def data_source(url: str) -> Source | None:
    """The content of a base64 data: URL; None for every other URL."""
    if not url.startswith("data:"):
        return None
    head, found, data = url.partition(";base64,")
    return Source(SourceKind.DATA, data, head[5:]) if found else None


def _keep_inner(fields: Fields, name: str, inner: Fields) -> None:
    """What the inner object has beyond the known stays an extra under the inner object's name."""
    rest = inner.rest()
    if rest is not None:
        fields.put_back(name, rest)


_READERS: dict[str, Callable[[Fields], Block | None]] = {
    "text": _read_text,
    "image_url": _read_image,
    "input_audio": _read_audio,
    "file": _read_file,
    "refusal": _read_refusal,
    "thinking": _read_thinking,
}


def encode_content(blocks: Sequence[Block], plain: bool, out: Writer) -> str | list[Json]:
    """The `content` of a message: a string where that says the same, else an array of parts."""
    if len(blocks) == 1 and (plain or not out.native):
        only = blocks[0]
        if type(only) is Text and only.text and not (only.cache or only.citations):
            return only.text
    parts = [part for block in blocks for part in encode_block(block, out)]
    if out.native and not plain:
        return parts
    texts = [part["text"] for part in parts if part.keys() == _PLAIN_TEXT]
    if len(texts) < len(parts) or (len(texts) > 1 and out.profile.openai_fields):
        return parts
    # Many compatible servers take no arrays here. A blank line between prompts says the same.
    return "\n\n".join(texts)


def encode_block(block: Block, out: Writer) -> list[dict[str, Json]]:
    """The content parts for one block; none if it has no form here, which is then declared."""
    writer = _WRITERS.get(type(block))
    if writer is None:
        out.ledger.add("native.dropped", block.path, type(block).__name__)
        return []
    return writer(block, out)


def _write_text(block: Text, out: Writer) -> list[dict[str, Json]]:
    if block.citations:
        out.ledger.add("citation.dropped", block.path)
    if not block.text and not out.native:
        _lose_mark(block, out)
        return []
    return [mark_part({"type": "text", "text": block.text}, block, out)]


def _write_refusal(block: Refusal, out: Writer) -> list[dict[str, Json]]:
    return [mark_part({"type": "refusal", "refusal": block.text}, block, out)]


def _write_image(block: Image, out: Writer) -> list[dict[str, Json]]:
    image: dict[str, Json] = {"url": _url(block.source, block.path)}
    if block.detail is not None:
        image["detail"] = block.detail
    return [mark_part({"type": "image_url", "image_url": image}, block, out)]


def _write_audio(block: Audio, out: Writer) -> list[dict[str, Json]]:
    if block.source is None or block.source.kind is not SourceKind.DATA:
        raise Unsupported(block.path, "sound must be given as data")
    audio = {"data": block.source.value}
    if block.format is not None:
        audio["format"] = block.format
    return [mark_part({"type": "input_audio", "input_audio": audio}, block, out)]


def _write_document(block: Document, out: Writer) -> list[dict[str, Json]]:
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


def _document_text(block: Document, out: Writer) -> list[dict[str, Json]]:
    """A document of text, or of parts: said in words, its pictures kept as pictures."""
    out.ledger.add("document.as_text", block.path)
    head = "\n".join(line for line in (block.title, block.context) if line)
    parts: list[dict[str, Json]] = [{"type": "text", "text": head}] if head else []
    if block.source is not None:
        parts.append({"type": "text", "text": block.source.value})
    parts += [part for inner in block.parts for part in encode_block(inner, out)]
    if parts:
        parts[-1] = mark_part(parts[-1], block, out)
    return parts


def _write_search_result(block: SearchResult, out: Writer) -> list[dict[str, Json]]:
    out.ledger.add("search_result.as_text", block.path)
    return [mark_part({"type": "text", "text": search_result_text(block)}, block, out)]


def search_result_text(block: SearchResult) -> str:
    """A search hit in words: title, source, text."""
    return "\n".join([block.title, block.source, *(part.text for part in block.parts)])


def _write_reasoning(block: Reasoning, out: Writer) -> list[dict[str, Json]]:
    """Only a part of its own protocol is a part here; everything else goes beside the content."""
    part = (block.extras or {}).get(REASONING_PART)
    if out.native and part is not None:
        return [part]
    out.ledger.add("reasoning.foreign_dropped", block.path)
    return []


def _write_native(block: Native, out: Writer) -> list[dict[str, Json]]:
    if out.native:
        return [block.data]
    out.ledger.add("native.dropped", block.path, block.type)
    return []


_WRITERS: dict[type[Block], Callable[[Block, Writer], list[dict[str, Json]]]] = {
    Text: _write_text,  # type: ignore[dict-item]  # each writer takes its own key's type
    Refusal: _write_refusal,  # type: ignore[dict-item]
    Image: _write_image,  # type: ignore[dict-item]
    Audio: _write_audio,  # type: ignore[dict-item]
    Document: _write_document,  # type: ignore[dict-item]
    SearchResult: _write_search_result,  # type: ignore[dict-item]
    Reasoning: _write_reasoning,  # type: ignore[dict-item]
    Native: _write_native,  # type: ignore[dict-item]
}


def _url(source: Source, path: str) -> str:
    if source.kind is SourceKind.DATA:
        return f"data:{source.media_type or 'application/octet-stream'};base64,{source.value}"
    if source.kind is SourceKind.URL:
        return source.value
    raise Unsupported(path, "an image must be a link or data")


def _file(source: Source, path: str, out: Writer) -> dict[str, Json]:
    if source.kind is SourceKind.FILE_ID:
        if out.source is Protocol.MESSAGES:
            raise Unsupported(path, "a file id belongs to the provider that gave it")
        return {"file_id": source.value}
    if source.kind is SourceKind.URL and not out.native:
        raise Unsupported(path, "Chat Completions takes documents as data, not as a link")
    if source.kind is SourceKind.DATA and (source.media_type or not out.native):
        return {"file_data": f"data:{source.media_type or _PDF};base64,{source.value}"}
    return {"file_data": source.value}


def mark_part(part: dict[str, Json], block: Block, out: Writer) -> dict[str, Json]:
    """Add what all parts share: the cache mark and, in its own protocol, the extras."""
    if out.native:
        return _with_extras(part, block)
    if block.cache is not None:
        if out.profile.cache_marks:
            part["prompt_cache_breakpoint"] = _breakpoint(block.cache, block.path, out.ledger)
        else:
            _lose_mark(block, out)
    return part


def _lose_mark(block: Block, out: Writer) -> None:
    if block.cache is not None:
        out.ledger.add("cache.mark", block.path)


def _with_extras(part: dict[str, Json], block: Block) -> dict[str, Json]:
    extras = block.extras or {}
    if block.cache is not None and "cache_control" not in extras:
        part["prompt_cache_breakpoint"] = _breakpoint(block.cache, block.path, Ledger())
    for name, value in extras.items():
        part[name] = {**part[name], **value} if isinstance(part.get(name), dict) else value
    return part


def _breakpoint(mark: CacheMark, path: str, ledger: Ledger) -> dict[str, Json]:
    if mark.ttl is None:
        return {"mode": "explicit"}
    name = next((name for name, ttl in CACHE_TTLS.items() if ttl == mark.ttl), None)
    if name is None:
        ledger.add("cache.ttl", path, f"{mark.ttl} s")
        name = "12h" if mark.ttl > CACHE_CONTROL_TTLS["1h"] else "30m"
    return {"mode": "explicit", "ttl": name}
