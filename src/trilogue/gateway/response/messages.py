"""A response over a WebSocket: the events of a stream, each as one text message.

In: what the handlers of requests write, a stream of server-sent events or a whole error. Out: messages. An event is its
JSON alone. A response ends with exactly one event that clients take for its end: streams have an `error` event followed
by a failed response, of which clients that stop at the first would read the second as the next response.
"""

from __future__ import annotations

import re
import time

import msgspec
from msgspec import Raw, Struct

from trilogue.base.json_text import DECODE_ERRORS, dump
from trilogue.base.sse import SseParser
from trilogue.gateway.request.failures import error_reply, raw_headers
from trilogue.gateway.response.client_response import LOSS_COMMENT, LOSS_HEADER
from trilogue.model import Failed, Failure, FailureKind, Json, Protocol
from trilogue.net.server.responder import Headers, Responder
from trilogue.net.server.websocket import MessageSocket
from trilogue.protocols.registry import CODECS

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
