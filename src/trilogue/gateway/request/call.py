"""One client request, as far as the gateway must understand it to route it."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

import msgspec
from msgspec import Raw, Struct

from trilogue.errors import BadRequest
from trilogue.jsontext.text import DECODE_ERRORS, dump, parse_request
from trilogue.model import Loss, Protocol, Severity, Strictness, refuses
from trilogue.upstream import HeaderPairs


class _Head(Struct):
    """The two fields that decide where a request goes and how it is answered; the rest is not parsed for this."""

    model: str | None = None
    stream: bool | None = None


_MODEL = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")')
_MOST_PLACES = 8
"""places in a body that look like the model's name; with more, the body is written anew"""
_MODEL_NAME, _STREAM_NAME = b'"model"', b'"stream"'
_USUAL_LENGTH = 200
"""of a model's name"""

_decode_head = msgspec.json.Decoder(_Head).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode


class Call(Struct, kw_only=True, gc=False):
    """A request that was read and may be routed."""

    client: Protocol
    body: bytes
    model: str
    stream: bool
    headers: dict[str, str]
    forwarded: HeaderPairs
    """the headers that an upstream of the client's protocol may see"""
    hop: HeaderPairs = ()
    """the one of them that any upstream may see"""
    query: bytes = b""
    strict: Severity | None = None
    """losses from this severity on are refused; None outside of strict mode"""
    request_id: str = ""
    key_name: str = ""
    losses: tuple[Loss, ...] = ()
    """what was decided for the client before the request was routed"""


class ReadBody(Struct, frozen=True):
    """A body that means the same to everyone who reads it, and what decides where it goes."""

    body: bytes
    model: str
    stream: bool
    losses: tuple[Loss, ...] = ()


def read_asked(body: bytes, only_model: str | None, *, strict: Strictness) -> ReadBody:
    """What a request asks for. `only_model`: the one that there is, for a request that names none.

    Whatever is wrong with the body is the client's mistake, said in one line.
    """
    model, stream = _read_head(body)
    body = _without_doubles(body)
    if model:
        return ReadBody(body, model, stream)
    if only_model is None or refuses(strict, "model.defaulted"):
        raise BadRequest("model is required", path="model")
    fields = _decode_fields(body)
    fields["model"] = Raw(dump(only_model))
    return ReadBody(dump(fields), only_model, stream, (Loss("model.defaulted", "model", only_model),))


def _without_doubles(body: bytes) -> bytes:
    """The body with its model, and whether to stream, said once.

    Of a field that is there twice we go by the last, and some servers by the first: a request must not go to one model
    here and ask for another there. Written anew only if it may be so; values stay byte for byte.
    """
    if body.find(rb"\u006") >= 0 or body.find(rb"\u007") >= 0:
        # The name of a field may be spelled with escapes.
        return dump(_decode_fields(body))
    if body.count(_MODEL_NAME) > 1 and _is_double(body, _MODEL_NAME):
        return dump(_decode_fields(body))
    if body.count(_STREAM_NAME) > 1 and _is_double(body, _STREAM_NAME):
        return dump(_decode_fields(body))
    return body


def _is_double(body: bytes, name: bytes) -> bool:
    """Whether a field of the request is there twice. Tools and their schemas may have fields of the same name."""
    at = -1
    for _ in range(_MOST_PLACES):
        at = body.find(name, at + 1)
        if at < 0:
            break
        head = _decode_head(body[:at] + name.upper() + body[at + len(name) :])
        if (head.model if name is _MODEL_NAME else head.stream) is None:
            # Without this one there is none.
            return False
    return True


def _read_head(body: bytes) -> tuple[str, bool]:
    """The model, if there is one, and whether to stream."""
    try:
        if not body.isascii():
            # The parser looks into the texts that it needs, and only into those.
            body.decode()
        head = _decode_head(body)
    except DECODE_ERRORS:
        # The generic parser says what is wrong with the JSON, or else it is one of the two fields.
        parse_request(body)
        raise BadRequest("model must be a string and stream a boolean", path="model") from None
    return head.model or "", bool(head.stream)


def read_model(body: bytes) -> str:
    """The model that a JSON document names; nothing if it names none or cannot be read."""
    try:
        return _decode_head(body).model or ""
    except DECODE_ERRORS:
        return ""


def with_model(body: bytes, old: str, model: str) -> bytes:
    """The same body for another model name. Every other byte stays: signatures and caches depend on them."""
    if len(old) <= _USUAL_LENGTH:
        for before, after in _spellings(old, model):
            changed = body.replace(before, after, 1)
            # Whether it was the right place shows in the result.
            if changed is not body and _decode_head(changed).model == model:
                return changed
    name = dump(model)
    for found in islice(_MODEL.finditer(body), _MOST_PLACES):
        changed = body[: found.start(1)] + name + body[found.end(1) :]
        # The first place may be inside of something; the right one is where the change shows.
        if _decode_head(changed).model == model:
            return changed
    fields = _decode_fields(body)
    fields["model"] = Raw(name)
    return dump(fields)


@lru_cache(256)
def _spellings(old: str, new: str) -> list[tuple[bytes, bytes]]:
    """The usual ways to write the field, before and after."""
    return [(key + dump(old), key + dump(new)) for key in (b'"model":', b'"model": ')]
