"""Content parts of request messages, read into blocks.

In: the `content` of a message (text, an array of parts, or null). Out: blocks with their paths. It does not know which
message a part belongs to; reasoning, calls and results are in the files that read whole messages.
"""

from __future__ import annotations

from collections.abc import Callable

from trilogue.errors import BadRequest
from trilogue.model import (
    Audio,
    Block,
    CacheMark,
    Document,
    Image,
    Json,
    Native,
    Reasoning,
    Refusal,
    Source,
    SourceKind,
    Text,
)
from trilogue.protocols.chat.wire import CACHE_CONTROL_TTLS, REASONING_PART
from trilogue.protocols.content.parts import data_source, sniffed_type
from trilogue.protocols.fields.reader import Fields
from trilogue.protocols.openai.cache import read_breakpoint

PLAIN_TEXT = {"type", "text"}


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
