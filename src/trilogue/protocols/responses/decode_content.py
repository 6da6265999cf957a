"""Content parts and annotations of requests and responses, read into blocks and citations.

In: the `content` of messages and the `output` of tools. Out: text, refusals, images and documents. `items.py` knows
items, and where parts belong.
"""

from __future__ import annotations

from collections.abc import Callable

from trilogue.errors import BadRequest
from trilogue.model import (
    Block,
    Citation,
    CitationKind,
    Document,
    Image,
    Json,
    Native,
    Refusal,
    Source,
    SourceKind,
    Text,
)
from trilogue.protocols.content.parts import data_source
from trilogue.protocols.fields.reader import Fields, LooseFields
from trilogue.protocols.openai.cache import read_breakpoint

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
    if decode is _text and kind != text_type:
        fields.put_back("type", kind)
    return decode(fields, part)


def _text(fields: Fields, _: dict[str, Json]) -> Block:
    citations = decode_annotations(fields.items("annotations"))
    return Text(
        text=fields.text("text") or "",
        citations=citations,
        logprobs=fields.items("logprobs") or None,
        cache=read_breakpoint(fields),
        path=fields.path,
        extras=fields.rest(),
    )


def _refusal(fields: Fields, _: dict[str, Json]) -> Block:
    return Refusal(text=fields.text("refusal") or "", path=fields.path, extras=fields.rest())


def _image(fields: Fields, part: dict[str, Json]) -> Block:
    source = _source(fields, "image_url", "image_url")
    if source is None:
        return Native(type="input_image", data=part, harmless=True, path=fields.path)
    return Image(
        source=source,
        detail=fields.text("detail"),
        cache=read_breakpoint(fields),
        path=fields.path,
        extras=fields.rest(),
    )


def _file(fields: Fields, part: dict[str, Json]) -> Block:
    source = _source(fields, "file_data", "file_url")
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
    "input_text": _text,
    "output_text": _text,
    "text": _text,
    "refusal": _refusal,
    "input_image": _image,
    "input_file": _file,
}


def _source(fields: Fields, data_name: str, url_name: str) -> Source | None:
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
