"""The parts of a client request that decide where it goes: the model, and whether to stream.

In: the bytes of a body and what the URL says. Out: the same bytes, with another model if needed. Nothing else in the
body is parsed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

import msgspec
from msgspec import Raw, Struct

from trilogue.base.json_text import DECODE_ERRORS, dump, parse_request
from trilogue.errors import BadRequest
from trilogue.gateway.conversations.reasoning import ReasoningMemory
from trilogue.gateway.conversations.turn import StoredTurn
from trilogue.gateway.policies.run import RequestPolicies
from trilogue.model import Loss, Protocol, Severity, Strictness, refuses
from trilogue.net.client.interface import HeaderPairs
from trilogue.protocols.endpoint import UrlHead
from trilogue.routing.model_names import LONG_CONTEXT
from trilogue.translate.reasoning.seal import Sealer


class _Head(Struct):
    """The two fields that decide where a request goes and whether the response is a stream."""

    model: str | None = None
    stream: bool | None = None


_MODEL = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")')
_MOST_PLACES = 8
"""places in a body that look like the model's name; if there are more, the body is written again"""
_MODEL_NAME, _STREAM_NAME = b'"model"', b'"stream"'
_USUAL_LENGTH = 200
"""characters of a model's name"""

_decode_head = msgspec.json.Decoder(_Head).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode


class AskedFor(Struct, frozen=True):
    """A request as the client has sent it: its model and its body."""

    model: str
    body: bytes


class ModelCall(Struct, kw_only=True, gc=False):
    """A request that was read and can be routed."""

    client: Protocol
    body: bytes
    model: str
    stream: bool
    headers: dict[str, str]
    sealer: Sealer
    """seals reasoning for the client, and opens what was sealed for it"""
    forwarded: HeaderPairs
    """the headers that an upstream of the client's protocol may see"""
    hop: HeaderPairs = ()
    """the only header of these that upstreams of other protocols get"""
    query: bytes = b""
    strict: Severity | None = None
    """losses from this severity on are refused; None outside of strict mode"""
    loss_comment: bool = False
    """whether a stream declares its losses in a comment before its end"""
    request_id: str = ""
    key_name: str = ""
    losses: tuple[Loss, ...] = ()
    """losses from before the request was routed"""
    long_context: bool = False
    """whether the upstream gets the beta for its longest context window"""
    own_limits: bool = False
    """whether the response tells the client its limits here, instead of the upstream's"""
    path: str = ""
    """where an upstream of the client's protocol gets it; empty: where the protocol's requests go"""
    turn: StoredTurn | None = None
    """what the request refers to and what is kept of its response, in protocols that can continue a response"""
    summary: bool = False
    """whether the model is to write a summary for a compaction, so that its response is not the client's"""
    policies: RequestPolicies | None = None
    """what judges the response; None without policies"""
    asked: AskedFor | None = None
    """what the client has sent, if policies have changed it"""
    memory: ReasoningMemory | None = None
    """reasoning that the client has not sent back; None if nothing is translated or the client sends all of it"""

    @property
    def shown_model(self) -> str:
        """The model as the client knows it."""
        return self.model if self.asked is None else self.asked.model

    @property
    def sent(self) -> bytes:
        """The body as the client has sent it."""
        return self.body if self.asked is None else self.asked.body

    @property
    def whole(self) -> bytes:
        """The request with the stored history that it refers to, as far as the gateway knows it."""
        turn = self.turn
        return self.body if turn is None or turn.foreign is not None else turn.expanded


class ReadBody(Struct, frozen=True):
    """A body in which `model` and `stream` are unambiguous, and their values."""

    body: bytes
    model: str
    stream: bool
    losses: tuple[Loss, ...] = ()
    long_context: bool = False
    """whether the client has asked for the model's longest context window, by the end of the name"""


def read_asked(body: bytes, only_model: str | None, *, strict: Strictness, head: UrlHead | None = None) -> ReadBody:
    """Return what a request asks for. Raises `BadRequest` if it cannot be read.

    `only_model`: the only model that there is, for a request that names none. `head`: what the URL says, in protocols
    that have the model there.
    """
    if head is not None:
        return ReadBody(_with_head(body, head), head.model, head.stream)
    # As in `read_named`: a call costs more than a line.
    model, stream = _read_head(body)
    body = _without_doubles(body)
    if model:
        return _long_context(body, model, stream) if model[-4:] == LONG_CONTEXT else ReadBody(body, model, stream)
    if only_model is None or refuses(strict, "model.defaulted"):
        raise BadRequest("model is required", path="model")
    fields = _decode_fields(body)
    fields["model"] = Raw(dump(only_model))
    return ReadBody(dump(fields), only_model, stream, (Loss("model.defaulted", "model", only_model),))


def read_named(body: bytes) -> ReadBody:
    """Return what a request asks for; it may name no model. Raises `BadRequest` if it cannot be read."""
    model, stream = _read_head(body)
    return ReadBody(_without_doubles(body), model, stream)


def _long_context(body: bytes, model: str, stream: bool) -> ReadBody:
    """Return a request without the end of its model's name: no rule for the model may be got around by it."""
    name = model.removesuffix(LONG_CONTEXT)
    return ReadBody(with_model(body, model, name), name, stream, long_context=True)


def _with_head(body: bytes, head: UrlHead) -> bytes:
    """Return a body with the fields `model` and `stream` as its URL says. All other bytes stay."""
    try:
        fields = _decode_fields(body)
    except DECODE_ERRORS:
        # The generic parser says what is wrong with the JSON.
        parse_request(body)
        raise BadRequest("the body must be a JSON object") from None
    if not body.isascii():
        parse_request(body)  # the decoder above does not look into values
    rest = {name: value for name, value in fields.items() if name not in ("model", "stream")}
    if len(rest) < len(fields):
        # The URL decides. No server must read another model in the body.
        body = dump(rest)
    named = _head_fields(head.model, head.stream)
    return named + body.lstrip()[1:] if rest else named[:-1] + b"}"


def _head_fields(model: str, stream: bool) -> bytes:
    return b'{"model":%b,"stream":%b,' % (dump(model), b"true" if stream else b"false")


def without_head(body: bytes, model: str, stream: bool) -> bytes:
    """Return a body without the fields that go into the URL. All other bytes stay, if `_with_head` put them there."""
    head = _head_fields(model, stream)
    if body.startswith(head):
        return b"{" + body[len(head) :]
    return dump({name: value for name, value in _decode_fields(body).items() if name not in ("model", "stream")})


def _without_doubles(body: bytes) -> bytes:
    """Return the body with at most one `model` and one `stream`.

    If a field is there twice, the gateway uses the last and some servers the first: a request must not be routed by one
    model and ask for another. The body is only written again if that is possible; values stay byte for byte.
    """
    if body.find(rb"\u006") >= 0 or body.find(rb"\u007") >= 0:
        # The name of a field may be written with escapes.
        return dump(_decode_fields(body))
    if body.count(_MODEL_NAME) > 1 and _is_double(body, _MODEL_NAME):
        return dump(_decode_fields(body))
    if body.count(_STREAM_NAME) > 1 and _is_double(body, _STREAM_NAME):
        return dump(_decode_fields(body))
    return body


def _is_double(body: bytes, name: bytes) -> bool:
    """Return whether a field of the request is there twice. Tools and schemas may have fields of the same name."""
    at = -1
    for _ in range(_MOST_PLACES):
        at = body.find(name, at + 1)
        if at < 0:
            break
        head = _decode_head(body[:at] + name.upper() + body[at + len(name) :])
        if (head.model if name is _MODEL_NAME else head.stream) is None:
            # Without this field there is none, so it is the only one.
            return False
    return True


def _read_head(body: bytes) -> tuple[str, bool]:
    """Return the model, or "", and whether to stream. Raises `BadRequest`."""
    try:
        if not body.isascii():
            # The parser only validates the texts that it returns.
            body.decode()
        head = _decode_head(body)
    except DECODE_ERRORS:
        # The generic parser says what is wrong with the JSON. If nothing is, it is one of the two fields.
        parse_request(body)
        raise BadRequest("model must be a string and stream a boolean", path="model") from None
    return head.model or "", bool(head.stream)


def read_model(body: bytes) -> str:
    """Return the model that a JSON document names; "" if it names none or cannot be read."""
    try:
        return _decode_head(body).model or ""
    except DECODE_ERRORS:
        return ""


def with_model(body: bytes, old: str, model: str) -> bytes:
    """Return the body with another model. Every other byte stays, because signatures and caches depend on them."""
    if len(old) <= _USUAL_LENGTH:
        for before, after in _spellings(old, model):
            changed = body.replace(before, after, 1)
            # Only the right place changes the model that is read.
            if changed is not body and _decode_head(changed).model == model:
                return changed
    name = dump(model)
    for found in islice(_MODEL.finditer(body), _MOST_PLACES):
        changed = body[: found.start(1)] + name + body[found.end(1) :]
        # The first places may be inside of something else; only the right one changes the model that is read.
        if _decode_head(changed).model == model:
            return changed
    fields = _decode_fields(body)
    fields["model"] = Raw(name)
    return dump(fields)


@lru_cache(256)
def _spellings(old: str, new: str) -> list[tuple[bytes, bytes]]:
    """Return the usual ways to write the field, each with the old and the new name."""
    return [(key + dump(old), key + dump(new)) for key in (b'"model":', b'"model": ')]
