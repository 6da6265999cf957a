"""JSON text in and out, with every way it can fail turned into one of our own errors.

msgspec raises RecursionError on deep nesting, UnicodeDecodeError on bad UTF-8 and OverflowError on huge integers
besides its own errors; none of them may reach a caller.

How much a large JSON text holds, counted before it is parsed.

A parser takes as long as there are fields and items, and nothing else runs meanwhile. Texts, images and files cost it
next to nothing, however long they are, so what is bounded is the number of things, not of bytes.
"""

from __future__ import annotations

import codecs
from typing import Annotated, TypeVar

import msgspec

from trilogue.errors import BadRequest, InternalError, TooLarge, TrilogueError, UpstreamProtocolError
from trilogue.jsontext.surrogates import has_halves, with_halves_shown
from trilogue.model import Json

LARGE_BYTES = 256 * 1024
"""what is smaller cannot hold enough to matter"""
MOST_FIELDS = 200_000
MOST_ITEMS = 1_000_000
"""What fills the longest context of any model has a tenth of that. At the bounds a parser takes some 40 ms."""
_WINDOW = 256 * 1024


def is_crowded(data: bytes | str) -> bool:
    """Tell whether a JSON text has more fields or more items than any request. What is no JSON may be either.

    It goes through the text in pieces, so that other threads can run, and ends as soon as it is clear.
    """
    text = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    fields = items = 0
    escape, in_string = b"", 0
    for start in range(0, len(text), _WINDOW):
        piece = escape + text[start : start + _WINDOW]
        escape = b""
        if b"\\" in piece:
            # Without escaped signs every quote begins or ends a string. Of runs of backslashes at most one is left.
            piece = piece.replace(rb"\\", b"")
            escape = b"\\" if piece.endswith(b"\\") else b""
            piece = piece.replace(rb"\"", b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[in_string::2])
        in_string ^= len(parts) - 1 & 1
        fields += outside.count(b":")
        items += outside.count(b",")
        if fields > MOST_FIELDS or items > MOST_ITEMS:
            return True
    return False


Typed = TypeVar("Typed")
Count = Annotated[int, msgspec.Meta(ge=0)]
"""in typed objects: a number of things, not fewer than none"""

DECODE_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError, OverflowError, ValueError)
ENCODE_ERRORS = (TypeError, ValueError, OverflowError, RecursionError)
SUSPECT = (InternalError, UnicodeEncodeError, RecursionError)
"""what a document that is nothing JSON text could hold leads to, sooner or later: see `blame`"""

dumps = msgspec.json.Encoder().encode
"""JSON bytes of a value that came from JSON."""

_decode = msgspec.json.Decoder().decode

_NO_OBJECT = "the request body must be a JSON object"
_CROWDED = f"the request body has more than {MOST_FIELDS} fields or {MOST_ITEMS} items"
_NO_OBJECT_FROM_UPSTREAM = "the upstream sent JSON that is not an object"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""what editors and shells on Windows begin a file with"""


def parse(data: bytes | str, fault: type[TrilogueError]) -> Json:
    """The value of a JSON text; raises `fault` with a message that shows no payload."""
    try:
        return _decode(data)
    except DECODE_ERRORS as error:
        raise fault(_reason(error, data)) from None


def decode_whole(decoder: msgspec.json.Decoder[Typed], data: bytes) -> Typed | None:
    """The value if all of the text is valid and has this type, else None."""
    try:
        if not data.isascii():
            # The parser looks into the texts that it needs, and only into those.
            data.decode()
        return decoder.decode(data)
    except DECODE_ERRORS:
        return None


def parse_request(data: bytes | str) -> dict[str, Json]:
    """A client's request body. Raises TooLarge, without parsing it, if there is more in it than in any request."""
    try:
        if len(data) > LARGE_BYTES and is_crowded(data):
            raise TooLarge(_CROWDED)
        body = _decode(data)
    except DECODE_ERRORS as error:
        raise BadRequest(_reason(error, data)) from None
    except TypeError:  # a caller has parsed it, and it is a list, a number, …
        raise BadRequest(_NO_OBJECT) from None
    if type(body) is not dict:
        raise BadRequest(_NO_OBJECT)
    return body


def parse_upstream(data: bytes | str, *, whole: bool = False) -> dict[str, Json]:
    """A JSON object from an upstream.

    `whole`: nothing comes after it. Half of a character, where the upstream has cut a text, is then shown as such, and
    a byte order mark is ignored.
    """
    try:
        body = _decode(data)
    except DECODE_ERRORS as error:
        text = _bytes(data)
        if whole and text.startswith(codecs.BOM_UTF8):
            return parse_upstream(text.removeprefix(codecs.BOM_UTF8), whole=True)
        if whole and has_halves(text):
            return parse_upstream(with_halves_shown(text))
        raise UpstreamProtocolError(_reason(error, data)) from None
    except TypeError:
        raise UpstreamProtocolError(_NO_OBJECT_FROM_UPSTREAM) from None
    if type(body) is not dict:
        raise UpstreamProtocolError(_NO_OBJECT_FROM_UPSTREAM)
    return body


def dump(value: Json) -> bytes:
    """JSON bytes, compact, key order kept."""
    try:
        return dumps(value)
    except ENCODE_ERRORS as error:
        raise InternalError(f"cannot write as JSON: {type(error).__name__}") from None


def dump_text(value: Json) -> str:
    """As `dump`, as text."""
    return dump(value).decode()


def blame(document: dict[str, Json], fault: type[TrilogueError]) -> None:
    """After a `SUSPECT` failure: raise `fault` if the document, which a caller parsed, is nothing JSON text could hold.

    Other parsers give half characters and any depth. Looking for them only after a failure costs good documents
    nothing.
    """
    try:
        dumps(document)
    except ENCODE_ERRORS as error:
        raise fault(f"the body cannot be written as JSON: {type(error).__name__}") from None


def parse_object(text: bytes | str) -> dict[str, Json] | None:
    """The object that a JSON text says, or None if it is not valid or not an object."""
    try:
        value = _decode(text)
    except DECODE_ERRORS:
        return None
    return value if isinstance(value, dict) else None


def _reason(error: Exception, data: bytes | str) -> str:
    """What is wrong with a JSON text, and where, without the text around it."""
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply"
    text = _bytes(data)
    if not text.strip():
        return "not valid JSON: it is empty"
    if text.startswith(codecs.BOM_UTF8):
        return "not valid JSON: it begins with a byte order mark"
    if isinstance(error, UnicodeDecodeError) or text.startswith(_UTF_16):
        return "not valid JSON: it is not in UTF-8"
    if has_halves(text):
        return "not valid JSON: a text holds half of a character, an escaped surrogate without the other one"
    return f"not valid JSON: {error if isinstance(error, msgspec.DecodeError) else type(error).__name__}"


def _bytes(data: bytes | str) -> bytes:
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)
