"""WebSocket connections: every message of a client is a request, and its response is sent as messages.

A request over a WebSocket goes through the same application as one over HTTP, with its own id, log line and observers.
One is handled at a time; the others wait. `socket_events` knows what messages mean.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any
from typing import Protocol as Interface

import msgspec
import structlog
from msgspec import Raw, Struct
from msgspec.structs import replace

from trilogue.base.json_text import DECODE_ERRORS, dump, parse_request
from trilogue.base.sse import SseParser
from trilogue.errors import BadRequest
from trilogue.gateway.conversations.history import ConnectionResponses
from trilogue.gateway.conversations.turn import StoredTurn
from trilogue.gateway.endpoints.background import handle
from trilogue.gateway.endpoints.generate import read_call
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.request.admission import Admission, Handler, HttpRoute, admit
from trilogue.gateway.request.failures import error_reply, raw_headers
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.request.request import RequestContext, targets_of, watching
from trilogue.gateway.response.client_response import LOSS_COMMENT, LOSS_HEADER, SSE_HEADERS, ClientResponse
from trilogue.model import Failed, Failure, FailureKind, Finish, Json, Protocol, ResponseStart, Stop, StopReason, Usage
from trilogue.net.server.request import Head, HttpRequest
from trilogue.net.server.responder import Headers, Responder
from trilogue.net.server.websocket import (
    GOING_AWAY,
    INTERNAL_ERROR,
    POLICY_VIOLATION,
    SERVICE_RESTART,
    MessageSocket,
    SocketLimits,
)
from trilogue.protocols.failure import own_failure
from trilogue.protocols.registry import CODECS, codec
from trilogue.protocols.stream.response_context import Reply

LIFETIME_SECONDS = 3_600.0
"""how long a connection lasts, as in the API"""
MOST_WAITING = 16
"""messages that may wait for the current response to end"""

NO_OFFER = own_failure(400, "the upgrade to a WebSocket needs the header connection: upgrade", "bad_websocket")
TOO_OLD = own_failure(
    400,
    "Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.",
    "websocket_connection_limit_reached",
)
"""In the words of the API: Codex and other clients open a new connection when they see this code."""

_WEBSOCKET_BETA = "responses_websockets"

log = structlog.get_logger("trilogue.gateway")


class Application(Interface):
    """The gateway application, as far as this module uses it: called for each request that a connection carries."""

    gateway: Gateway

    def __call__(self, request: HttpRequest, responder: Responder) -> Coroutine[Any, Any, None]: ...


class WebSocketEndpoint:
    """The endpoint that accepts WebSocket connections and hands them to the application."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def handle(self, context: RequestContext) -> None:
        """Accept a connection. The request ends with that; the connection goes on by itself."""
        upgrade, entry = context.responder.upgrade, context.entry
        if upgrade is None:
            context.refuse(NO_OFFER)
            return
        limits = entry.gateway.settings
        socket = upgrade(SocketLimits(limits.max_body_bytes, limits.keepalive_seconds))
        socket.handler = SocketRequests(self._app, socket, context.request.head, entry, limits.max_body_bytes)


class SocketRequests:
    """The requests of one connection. `head`: of the request that opened it. `max_bytes`: that may wait."""

    def __init__(self, app: Application, socket: MessageSocket, head: Head, entry: Admission, max_bytes: int) -> None:
        self._app = app
        self._socket = socket
        self._entry = entry
        self._max_bytes = max_bytes
        self._opened = head.changed(method="POST", headers=_request_headers(head.headers))
        self._heads: dict[Handler, Head] = {}
        self._responses = ConnectionResponses(max_bytes)
        self._waiting: deque[tuple[bytes, Handler]] = deque()
        self._waiting_bytes = 0
        self._running: HttpRequest | None = None
        self._leaving = False
        self._too_old = False
        self._lost = False
        self._timer = asyncio.get_running_loop().call_later(LIFETIME_SECONDS, self._expire)

    # --- the connection ---

    def received(self, message: bytes, *, text: bool) -> None:
        """Handle a message, or let it wait for the current response to end."""
        reply = immediate_reply(message) if text and not self._socket.paused else None
        if reply is not None:
            if reply:
                self._socket.put(reply)
            return
        self._waiting.append((message, create if text else refuse_binary))
        self._waiting_bytes += len(message)
        self._next()
        if len(self._waiting) > MOST_WAITING or self._waiting_bytes > self._max_bytes:
            self._socket.close(POLICY_VIOLATION, "too many messages wait for a response")

    def writable(self) -> None:
        """Go on after the client was too slow."""
        self._next()

    def leave(self) -> None:
        """Close the connection as soon as no response is running."""
        self._leaving = True
        self._next()

    def lost(self) -> None:
        """Cancel the running request, and forget those that wait."""
        self._lost = True
        self._timer.cancel()
        self._waiting.clear()
        if self._running is not None:
            self._running.lost()

    def _expire(self) -> None:
        self._too_old = True
        self._next()

    # --- requests ---

    def _next(self) -> None:
        """Start the next request, unless one is running or the client is slow. Close the connection if it has to."""
        if self._running is not None or self._lost:
            return
        if self._leaving:
            self._socket.close(SERVICE_RESTART, "the gateway restarts")
        elif self._too_old:
            responder = MessageResponder(self._socket, self._entry.client)
            reply = error_reply(TOO_OLD, self._entry.client, "")
            responder.reply(reply.status, raw_headers(reply.headers), dump(reply.body))
            self._socket.close(GOING_AWAY, "the connection is too old")
        elif self._waiting and not self._socket.paused:
            message, handler = self._waiting.popleft()
            self._waiting_bytes -= len(message)
            self._start(HttpRequest(self._head(handler), message))

    def _start(self, request: HttpRequest) -> None:
        responder = MessageResponder(self._socket, self._entry.client)
        self._running = request
        request.task = asyncio.create_task(self._respond(request, responder), name="message")

    async def _respond(self, request: HttpRequest, responder: MessageResponder) -> None:
        try:
            # The client may have disconnected before this task began.
            if not self._lost:
                await self._app(request, responder)
        finally:
            self._running = None
            self._responses.settle()
            if not responder.ended:
                # The client has disconnected, or the application has failed.
                self._socket.close(INTERNAL_ERROR)
            self._next()

    def _head(self, handler: Handler) -> Head:
        """Return the head of a message's request, admitted with the current configuration and its current keys."""
        head, gateway = self._heads.get(handler), self._app.gateway
        if head is None or not isinstance(head.note, Admission) or not _is_current(head.note, gateway):
            head = self._heads[handler] = self._opened.changed()
            route = HttpRoute(handler, self._entry.client, self._entry.path)
            head.note = replace(admit(HttpRequest(head, b""), gateway, route), connection=self._responses)
        return head


def _is_current(entry: Admission, gateway: Gateway) -> bool:
    return entry.gateway is gateway and entry.keys_version == gateway.access.keys.version


def _request_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers of the request that opened a connection, as the requests over it have them."""
    beta = [part.strip() for part in headers.get("openai-beta", "").split(",")]
    kept = ",".join(part for part in beta if part and not part.startswith(_WEBSOCKET_BETA))
    others = {name: value for name, value in headers.items() if name not in ("openai-beta", "upgrade")}
    return {**others, "openai-beta": kept} if kept else others


LOSSES = "trilogue_loss"
"""the field of the first event, and of the last one if the client asks for it, with the value of the header that
declares losses over HTTP"""
_LOSSES_FOUND = re.compile(rb"(?:^|(?<=\n\n))%b(.*)\n\n" % LOSS_COMMENT)
"""the comment about losses, between two events"""
_NOT_SHOWN = frozenset({b"content-type", b"content-length"})
_MAYBE_ERROR = re.compile(rb'"type"\s*:\s*"error"')
_MAYBE_END = re.compile(rb'"type"\s*:\s*"response\.(?:failed|completed|incomplete)"')


class _EventType(Struct):
    type: str = ""


class _ErrorBody(Struct):
    error: dict[str, Raw] = {}


_decode_type = msgspec.json.Decoder(_EventType).decode
_decode_error = msgspec.json.Decoder(_ErrorBody).decode


class MessageResponder(Responder):
    """The response to one message."""

    __slots__ = ("_client", "_held", "_losses", "_over", "_parser", "_socket", "stream_id")

    def __init__(self, socket: MessageSocket, client: Protocol) -> None:
        super().__init__(socket, chunked=False, bodiless=False)
        self._socket = socket
        self._client = client
        self.stream_id: str | None = None
        """what the client wants to see in every event"""
        self._parser = SseParser()
        self._losses = ""
        """what the next event has to declare"""
        self._held: bytes | None = None
        """an error in the stream, which is sent unless a failed response follows"""
        self._over = False
        """whether the client has the end of the response"""

    def start(self, status: int, headers: Headers) -> None:
        """Note the losses. Messages have no status and no headers."""
        self.started, self.status = True, status
        if self.on_head is not None:
            self.on_head(status, headers)
        for name, value in headers:
            if name == LOSS_HEADER:
                self._losses = value.decode("ascii")

    def send(self, data: bytes) -> None:
        """Send the events that these bytes of a stream complete. Keep-alive comments are not events.

        A comment about losses becomes a field of the event after it: messages have no comments.
        """
        now = time.monotonic()
        found = _LOSSES_FOUND.search(data)
        if found is not None:
            self.piece(data[: found.start()], now)
            self._losses = found[1].decode("ascii", "replace")
            data = data[found.end() :]
        self.piece(data, now)

    def piece(self, data: bytes, now: float) -> None:
        """Send the events that these bytes of a stream complete. `now`: the current time."""
        self.last_write_at = now
        self._put([event.data for event in self._parser.feed(data)])

    def end(self, data: bytes = b"") -> None:
        """Send the last events. Does nothing if the response has ended."""
        if self.ended:
            return
        self.send(data)
        self._put([event.data for event in self._parser.close()])
        if self._held is not None and not self._over:
            self._fail(_failure_in(self._held, self._client))
        self.ended = True
        self._socket.response_ended()

    def reply(self, status: int, headers: Headers, body: bytes) -> None:
        """Send an error, or a whole response as one message."""
        self.start(status, headers)
        self.ended = True
        message = body if status < 400 else self._error(status, headers, body)
        self._show(message)
        self._write([self._marked(message)])
        self._socket.response_ended()

    def _put(self, events: list[bytes]) -> None:
        messages = []
        for event in events:
            data = event.strip()
            if not data.startswith(b"{"):
                # Some servers end every stream with [DONE].
                continue
            if _MAYBE_ERROR.search(data) is not None and _type_of(data) == "error":
                self._held = data
                continue
            self._show(data)
            if self._held is not None and _MAYBE_END.search(data) is not None:
                self._over = True
            messages.append(self._marked(data))
        self._write(messages)

    def _marked(self, data: bytes) -> bytes:
        """Return an event with the fields that only messages have."""
        more: dict[str, Json] = {}
        if self._losses:
            more[LOSSES], self._losses = self._losses, ""
        if self.stream_id is not None:
            more["stream_id"] = self.stream_id
        return b"%b,%b" % (data[:-1], dump(more)[1:]) if more else data

    def _write(self, messages: list[bytes]) -> None:
        if messages:
            self._socket.put_all(messages)

    def _show(self, event: bytes) -> None:
        """Show an event to observers as HTTP clients would get it: they need not know about WebSockets."""
        if self.on_body is not None:
            self.on_body(b"data: %b\n\n" % event, time.monotonic())

    def _fail(self, failure: Failure) -> None:
        reply = error_reply(failure, self._client, "")
        message = self._error(reply.status, raw_headers(reply.headers), dump(reply.body))
        self._show(message)
        self._write([self._marked(message)])

    def _error(self, status: int, headers: Headers, body: bytes) -> bytes:
        """Return an error in the shape that it has over a WebSocket."""
        # Every response has the id of its request as the first of these.
        shown = [tuple(self.common.partition(b"\r\n")[0].split(b": ")), *headers]
        named: dict[str, Json] = {
            pair[0].decode("latin-1"): pair[1].decode("latin-1")
            for pair in shown
            if len(pair) == 2 and pair[0] not in _NOT_SHOWN
        }
        # OpenAI's types have the headers in the error; Codex reads them, and whether to retry, next to it.
        error = {**_decode_error(body).error, "headers": named}
        return dump({"type": "error", "status": status, "error": error, "headers": named})


def _type_of(data: bytes) -> str:
    try:
        return _decode_type(data).type
    except DECODE_ERRORS:
        return ""


def _failure_in(data: bytes, protocol: Protocol) -> Failure:
    """Return the failure that an error event reports."""
    for event in CODECS[protocol].decoder().feed_event("error", data):
        if isinstance(event, Failed):
            return event.failure
    return Failure(kind=FailureKind.SERVER, message="the upstream reported an error")


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
