"""JSON text in and out: parsing, writing, and a size check before parsing.

msgspec raises `RecursionError` on deep nesting, `UnicodeDecodeError` on bad UTF-8 and `OverflowError` on huge integers,
in addition to its own errors. All of them become one of our own errors here, with a message that shows no payload.

The time that a parser takes depends on the number of fields and items, and nothing else runs in the meantime. Long
texts, images and files cost next to nothing. The size check therefore counts fields and items, not bytes.

Servers split characters in two, in JSON escapes of one surrogate of a pair, which parsers refuse: these are repaired.
Of two fields with the same name, one server reads the first and another one the last: `read_pairs` returns both, for
what must not be avoided by a second field.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

import msgspec

from trilogue.errors import BadRequest, InternalError, TooLarge, TrilogueError, UpstreamProtocolError

LARGE_BYTES = 256 * 1024
"""smaller texts are not checked: they cannot have enough fields to matter"""
MOST_FIELDS = 200_000
MOST_ITEMS = 1_000_000
"""A request that fills the longest context of any model has a tenth of that. At these limits parsing takes 40 ms."""
_WINDOW = 256 * 1024

Typed = TypeVar("Typed")

Json = Any
"""A JSON value that stays opaque by intent: schemas, native objects, extras."""

MOST_TOKENS = 2**31 - 1
"""More than that in one response is a mistake of the upstream."""
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
"""in typed objects: a count of tokens or the like, neither negative nor larger than any real one"""

DECODE_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError, OverflowError, ValueError)
ENCODE_ERRORS = (TypeError, ValueError, OverflowError, RecursionError)
SUSPECT = (InternalError, UnicodeEncodeError, RecursionError)
"""exceptions that a document with values which JSON cannot express leads to: see `blame`"""

dumps = msgspec.json.Encoder().encode
"""The JSON bytes of a value that came from JSON; it raises msgspec's own errors, unlike `dump`."""

_decode = msgspec.json.Decoder().decode

_NOT_AN_OBJECT = "the request body must be a JSON object"
_TOO_MANY_FIELDS = f"the request body has more than {MOST_FIELDS} fields or {MOST_ITEMS} items"
_UPSTREAM_NOT_AN_OBJECT = "the upstream sent JSON that is not an object"
# PowerShell writes UTF-16 by default.
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""the first bytes of files from editors and shells on Windows"""
_REPLACEMENT = b"\\ufffd"


def parse(data: bytes | str, fault: type[TrilogueError]) -> Json:
    """Return the value of a JSON text. Raises `fault` with a message that shows no payload."""
    try:
        return _decode(data)
    except DECODE_ERRORS as error:
        raise fault(_reason(error, data)) from None


def decode_whole(decoder: msgspec.json.Decoder[Typed], data: bytes) -> Typed | None:
    """Return the value if the whole text is valid and has the decoder's type, else None."""
    try:
        if not data.isascii():
            # A typed decoder does not validate the UTF-8 of fields that it skips.
            data.decode()
        return decoder.decode(data)
    except DECODE_ERRORS:
        return None


def parse_request(data: bytes | str) -> dict[str, Json]:
    """Return the object of a client's request body.

    Raises `BadRequest` if it is not a JSON object, and `TooLarge`, without parsing it, if it has more fields or items
    than any real request.
    """
    try:
        if len(data) > LARGE_BYTES and has_too_many_fields(data):
            raise TooLarge(_TOO_MANY_FIELDS)
        body = _decode(data)
    except DECODE_ERRORS as error:
        raise BadRequest(_reason(error, data)) from None
    except TypeError:  # a caller of the library passed a parsed list, number, …
        raise BadRequest(_NOT_AN_OBJECT) from None
    if type(body) is not dict:
        raise BadRequest(_NOT_AN_OBJECT)
    return body


def parse_upstream(data: bytes | str, *, whole: bool = False) -> dict[str, Json]:
    """Return a JSON object from an upstream. Raises `UpstreamProtocolError` if it is not one.

    `whole`: the text is complete, and no second part follows. Lone surrogates are then replaced, and a byte order mark
    is ignored.
    """
    try:
        body = _decode(data)
    except DECODE_ERRORS as error:
        text = _bytes(data)
        # Some servers write a byte order mark before the body; the official SDKs lose the first event of a stream
        # because of it.
        if whole and text.startswith(codecs.BOM_UTF8):
            return parse_upstream(text.removeprefix(codecs.BOM_UTF8), whole=True)
        if whole and has_lone_surrogates(text):
            return parse_upstream(replace_lone_surrogates(text))
        raise UpstreamProtocolError(_reason(error, data)) from None
    except TypeError:
        raise UpstreamProtocolError(_UPSTREAM_NOT_AN_OBJECT) from None
    if type(body) is not dict:
        raise UpstreamProtocolError(_UPSTREAM_NOT_AN_OBJECT)
    return body


def dump(value: Json) -> bytes:
    """Return a value as compact JSON bytes with its key order. Raises `InternalError` if that is not possible."""
    try:
        return dumps(value)
    except ENCODE_ERRORS as error:
        raise InternalError(f"cannot write as JSON: {type(error).__name__}") from None


def dump_text(value: Json) -> str:
    """Return a value as compact JSON text; see `dump`."""
    return dump(value).decode()


def blame(document: dict[str, Json], fault: type[TrilogueError]) -> None:
    """Raise `fault` if a document has values that JSON text cannot express, after a `SUSPECT` failure.

    A caller of the library passed the document already parsed. Other parsers produce lone surrogates and any depth.
    They are looked for only after a failure, so that good documents pay nothing.
    """
    try:
        dumps(document)
    except ENCODE_ERRORS as error:
        raise fault(f"the body cannot be written as JSON: {type(error).__name__}") from None


def parse_object(text: bytes | str) -> dict[str, Json] | None:
    """Return the object that a JSON text describes, or None if it is not valid or not an object."""
    try:
        value = _decode(text)
    except DECODE_ERRORS:
        return None
    # Tool arguments must be an object; models also write lists and bare words.
    return value if isinstance(value, dict) else None


def has_too_many_fields(data: bytes | str) -> bool:
    """Return whether a JSON text has more fields or items than any real request. Invalid JSON gives either result.

    It works through the text in pieces, so that other threads can run, and stops as soon as the result is clear.
    """
    # Parsed documents of callers may have lone surrogates, which plain UTF-8 cannot encode.
    text = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    fields = items = 0
    escape, in_string = b"", 0
    for start in range(0, len(text), _WINDOW):
        piece = escape + text[start : start + _WINDOW]
        escape = b""
        if b"\\" in piece:
            # Without escapes every quote begins or ends a string. At most one backslash of a run remains.
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


def _reason(error: Exception, data: bytes | str) -> str:
    """Return what is wrong with a JSON text, and where, without any text of the payload."""
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply"
    text = _bytes(data)
    if not text.strip():
        return "not valid JSON: it is empty"
    if text.startswith(codecs.BOM_UTF8):
        return "not valid JSON: it begins with a byte order mark"
    if isinstance(error, UnicodeDecodeError) or text.startswith(_UTF_16):
        return "not valid JSON: it is not in UTF-8"
    if has_lone_surrogates(text):
        return "not valid JSON: a text holds half of a character, an escaped surrogate without the other one"
    return f"not valid JSON: {error if isinstance(error, msgspec.DecodeError) else type(error).__name__}"


def _bytes(data: bytes | str) -> bytes:
    """Return the text as bytes, with lone surrogates kept."""
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)


# Any escape: a high surrogate with or without its low one, a low surrogate alone, or another escape.
_UNITS = re.compile(
    rb"\\(?:u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u([dD][c-fC-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def _is_lone_surrogate(unit: re.Match[bytes]) -> bool:
    return bool(unit[3] or (unit[1] and not unit[2]))


def has_lone_surrogates(text: bytes) -> bool:
    """Return whether a JSON text has an escaped surrogate without its other half."""
    return any(map(_is_lone_surrogate, _UNITS.finditer(text)))


def replace_lone_surrogates(text: bytes) -> bytes:
    """Return the text with each lone surrogate replaced by U+FFFD, the replacement character."""
    # Used for complete responses, where no second half can follow.
    return _UNITS.sub(lambda unit: _REPLACEMENT if _is_lone_surrogate(unit) else unit[0], text)


class SurrogateJoiner:
    """A filter that joins characters which were split across two JSON texts.

    JavaScript counts an emoji as two characters. Servers that split text there write half of the emoji into each of two
    events, which no JSON parser accepts.
    """

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first = b""

    def join(self, data: bytes) -> bytes | None:
        """Return the text with split characters joined, or None if none was split.

        A high surrogate at the end is held back and put in front of the low surrogate of the next text.
        """
        joined = _UNITS.sub(self._unit, data)
        return None if joined == data else joined

    def _unit(self, match: re.Match[bytes]) -> bytes:
        if match[1] and not match[2]:
            unpaired, self._first = self._first, match[0]
            # Two high surrogates in a row: the earlier one never gets its other half.
            return _REPLACEMENT if unpaired else b""
        if match[3]:
            first, self._first = self._first, b""
            return first + match[0] if first else _REPLACEMENT
        return match[0]


class Pairs(tuple[tuple[str, Any], ...]):
    """The fields of an object, in order."""

    __slots__ = ()

    def all(self, name: str) -> Iterator[Any]:
        """Yield the value of every field with this name."""
        return (value for key, value in self if key == name)


def read_pairs(body: bytes) -> Pairs:
    """Return the object of a request body. Raises BadRequest, and TooLarge as `parse_request` does."""
    if len(body) > LARGE_BYTES:
        parse_request(body)
    try:
        found = json.loads(body, object_pairs_hook=Pairs)
    except (ValueError, RecursionError):
        # The generic parser says what is wrong.
        parse_request(body)
        raise BadRequest("the request body cannot be read") from None
    if not isinstance(found, Pairs):
        raise BadRequest("the request body must be a JSON object")
    return found


def at_path(value: object, path: str) -> Iterator[object]:
    """Yield every value at a path such as `requests[].params.model`. A step with `[]` goes into each entry of a list.

    Objects are `Pairs` or dictionaries.
    """
    values: list[object] = [value]
    for step in path.split("."):
        name = step.removesuffix("[]")
        values = [found for one in values for found in _fields(one, name)]
        if step.endswith("[]"):
            values = [entry for one in values if isinstance(one, list) for entry in one]
    yield from values


def _fields(value: object, name: str) -> Iterator[object]:
    if isinstance(value, Pairs):
        yield from value.all(name)
    elif isinstance(value, dict) and name in value:
        yield value[name]
