"""What clients send over a WebSocket: `response.create` is a request, and `response.steer` is declined.

In: one message of a client. Out: the request that it would be over HTTP, which `generate` handles.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from trilogue.base.json_text import DECODE_ERRORS, dump, parse_request
from trilogue.errors import BadRequest
from trilogue.gateway.conversations.turn import StoredTurn
from trilogue.gateway.endpoints.background import handle
from trilogue.gateway.endpoints.generate import read_call
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.request.request import RequestContext, targets_of, watching
from trilogue.gateway.response.client_response import SSE_HEADERS, ClientResponse
from trilogue.gateway.response.messages import MessageResponder
from trilogue.model import Finish, Json, ResponseStart, Stop, StopReason, Usage
from trilogue.protocols.registry import codec
from trilogue.protocols.stream.response_context import Reply

CREATE = "response.create"
STEER = "response.steer"
PROCESSED = "response.processed"
"""Codex confirms with it that it has read a response; there is nothing to do."""
_AT_ONCE = (b'"response.steer"', b'"response.processed"')

_OF_MESSAGES = frozenset({"type", "generate", "stream_id", "background", "stream"})
"""fields that only messages have, or that have no meaning there"""
NO_STEERING = "this gateway cannot steer a running response: send the input as the next response.create"

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_any = msgspec.json.Decoder().decode


class CreateEvent(Struct, frozen=True):
    """A `response.create`. `body`: the request as it would be sent over HTTP."""

    body: bytes
    generate: bool
    """whether a model is asked; else the request is only kept, so that the next one can continue it"""
    stream_id: str | None


async def create(context: RequestContext) -> None:
    """Respond to one message. Raises like `generate.handle`."""
    request, responder = context.request, context.responder
    message = await request.body(context.entry.gateway.settings.max_body_bytes)
    if len(message) > LARGE_BYTES:
        with watching(context):
            event = await in_thread(read_create, message)
    else:
        event = read_create(message)
    if isinstance(responder, MessageResponder):
        responder.stream_id = event.stream_id
    request.replace_body(event.body)
    await (handle if event.generate else prepare)(context)


async def refuse_binary(context: RequestContext) -> None:
    """Refuse a message that is not text."""
    raise BadRequest("send events as text messages, not as binary ones")


def read_create(message: bytes) -> CreateEvent:
    """Return the request in a message. Raises BadRequest if there is none."""
    try:
        fields = _decode_fields(message)
    except DECODE_ERRORS:
        # The generic parser says what is wrong with the JSON.
        parse_request(message)
        raise BadRequest("a message must be a JSON object") from None
    if _value(fields, "type") != CREATE:
        raise BadRequest(f"the type of an event must be {CREATE} or {STEER}", path="type")
    stream_id, generate = _value(fields, "stream_id"), _value(fields, "generate")
    if stream_id is not None and not isinstance(stream_id, str):
        raise BadRequest("stream_id must be a string", path="stream_id")
    if generate is not None and not isinstance(generate, bool):
        raise BadRequest("generate must be a boolean", path="generate")
    if _value(fields, "background"):
        raise BadRequest("a response over a WebSocket cannot run in the background: use POST", path="background")
    caching = _value(fields, "prompt_cache_options")
    prewarm = isinstance(caching, dict) and caching.get("prewarm") is True
    body = {name: value for name, value in fields.items() if name not in _OF_MESSAGES}
    return CreateEvent(dump({**body, "stream": Raw(b"true")}), generate is not False and not prewarm, stream_id)


def _value(fields: Mapping[str, Raw], name: str) -> Json:
    """Return the value of a field; None if there is none or it is not valid JSON text."""
    try:
        return _decode_any(fields[name]) if name in fields else None
    except DECODE_ERRORS:
        return None


async def prepare(context: RequestContext) -> None:
    """Respond with a response without output, which the client can continue. No model is asked."""
    gateway, call = context.entry.gateway, await read_call(context)
    turn = call.turn
    if turn is None:
        text = "only an upstream knows what the request refers to: it cannot be prepared without asking one"
        raise BadRequest(text, path="generate")
    # A model that does not exist is an error now, and not only when it is asked.
    if not gateway.models.resolved((call.model, call.client)):
        await targets_of(context, call.model)
    with watching(context):
        out = await _prepared(ClientResponse(call, context.responder, context.record, gateway.observers), turn)
    context.responder.start(200, SSE_HEADERS)
    context.responder.end(out)


async def _prepared(client: ClientResponse, turn: StoredTurn) -> bytes:
    """Keep a response without output, and return its stream."""
    call, stamp = client.call, client.stamp()
    reply = Reply(
        body=turn.echoed(parse_request(call.body)),
        model=call.model,
        created=stamp.now,
        clock=time.time,
        seed=stamp.seed,
        request_id=stamp.request_id,
        response_id=stamp.response_id,
        stored=stamp.stored,
    )
    encoder = codec(call.client).encoder(reply)
    start = ResponseStart(protocol=call.client, id="", model=call.model)
    out = encoder.encode([start, Finish(stop=Stop(reason=StopReason.END), usage=Usage())])
    await turn.keep(dump(encoder.snapshot), None)
    client.record.usage = Usage()
    return out


class _Steering(Struct):
    """What is read of a `response.steer`."""

    type: str = ""
    previous_response_id: str = ""
    input: Raw = Raw(b'""')


_decode_steering = msgspec.json.Decoder(_Steering).decode


def immediate_reply(message: bytes) -> bytes | None:
    """Return the message that is sent at once, b"" if there is nothing to say, or None for a request."""
    if not any(message.find(mark) >= 0 for mark in _AT_ONCE):
        return None
    try:
        steering = _decode_steering(message)
    except DECODE_ERRORS:
        return None
    if steering.type != STEER:
        return b"" if steering.type == PROCESSED else None
    return dump(
        {
            "type": "response.steer.failed",
            "sequence_number": 0,
            "steer": {"previous_response_id": steering.previous_response_id, "input": steering.input},
            "error": {"type": "invalid_request_error", "code": "steering_not_supported", "message": NO_STEERING},
        }
    )
