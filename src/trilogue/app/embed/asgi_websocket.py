"""One WebSocket over ASGI: the handshake as a request, and then messages in and out.

The gateway's own server has the same interfaces (`net.server.websocket`). Pings and the closing handshake are the
server's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from trilogue.app.embed.asgi_http import Message, Outbox, Receive, Scope, Send, common_headers, end_tasks, head_of
from trilogue.gateway.endpoints.app import GatewayApp
from trilogue.net.server.request import Head, HeadReader, HttpRequest
from trilogue.net.server.responder import Headers, Responder
from trilogue.net.server.websocket import VERSION, MessageHandler, SocketLimits

TOO_BIG = 1009
_REFUSED = 1008
_EXTENSION = "websocket.http.response"
_HANDSHAKE = {
    "upgrade": "websocket",
    "connection": "upgrade",
    "sec-websocket-version": VERSION,
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
"""what the application looks for, and the server has dealt with; HTTP/2 has no such headers"""

OpenSockets = set["AsgiSocket"]


async def serve_websocket(app: GatewayApp, sockets: OpenSockets, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one connection until it is closed."""
    await receive()
    head = head_of(scope, HeadReader())
    outbox = AsgiSocket()
    if not isinstance(head, Head):
        await send({"type": "websocket.close", "code": _REFUSED})
        return
    request = HttpRequest(head.changed(method="GET", headers={**head.headers, **_HANDSHAKE}), b"")
    responder = HandshakeResponder(outbox, with_reason=_EXTENSION in (scope.get("extensions") or {}))
    request.task = asyncio.create_task(app(request, responder), name="request")
    writing = asyncio.create_task(_write(outbox, send))
    try:
        await request.task
        if outbox.accepted:
            sockets.add(outbox)
            await _read(outbox, receive, writing)
        else:
            await writing
    finally:
        sockets.discard(outbox)
        outbox.lost()
        await end_tasks(writing)


async def _read(socket: AsgiSocket, receive: Receive, writing: asyncio.Task[None]) -> None:
    """Hand the client's messages to the application until either side has closed the connection."""
    while True:
        message = asyncio.ensure_future(receive())
        await asyncio.wait({message, writing}, return_when=asyncio.FIRST_COMPLETED)
        if not message.done():
            # Our side has closed the connection.
            message.cancel()
            return
        if not socket.take(message.result()):
            return


async def _write(socket: AsgiSocket, send: Send) -> None:
    try:
        await socket.run(send)
    except OSError:
        socket.lost()


class AsgiSocket(Outbox):
    """A connection, as far as the application needs it: a `MessageSocket`."""

    handler: MessageHandler
    """set before the first message is read"""

    def __init__(self) -> None:
        super().__init__()
        self.accepted = False
        self._max_bytes = 0
        self._closed = False

    def accept(self, limits: SocketLimits) -> AsgiSocket:
        """Accept the connection, and return it."""
        self.accepted = True
        self._max_bytes = limits.max_bytes
        self.post({"type": "websocket.accept"})
        return self

    def put(self, data: bytes) -> None:
        """Send a text message, if the connection is open."""
        if not self._closed:
            self.post({"type": "websocket.send", "text": data.decode()}, len(data))

    def put_all(self, messages: Iterable[bytes]) -> None:
        """Send text messages."""
        for message in messages:
            self.put(message)

    def response_ended(self) -> None:
        """Go on after a complete response: the connection stays open."""
        self.on_flow = _ignore

    def take(self, message: Message) -> bool:
        """Take a message of the server. Return False at the end of the connection."""
        if message["type"] != "websocket.receive":
            return False
        text = message.get("text")
        data: bytes = text.encode() if text is not None else message.get("bytes") or b""
        if len(data) > self._max_bytes:
            self.close(TOO_BIG, "the message is too large")
            return True
        self.handler.received(data, text=text is not None)
        return True

    def close(self, code: int, reason: str = "") -> None:
        """Close the connection. Messages of the client are ignored from now on."""
        if not self._closed:
            self.post({"type": "websocket.close", "code": code, "reason": reason})
            self.finish()
            self.lost()

    def shut(self) -> None:
        """Let the application close the connection, because the gateway stops."""
        self.handler.leave()

    def lost(self) -> None:
        """Let the application know that the connection has ended."""
        if self._closed:
            return
        self._closed = True
        self.on_flow = _ignore
        if self.accepted:
            self.handler.lost()

    def _resume(self) -> None:
        super()._resume()
        if not self._closed:
            self.handler.writable()


class HandshakeResponder(Responder):
    """The response to the request for a WebSocket: it is accepted, or refused with an HTTP response.

    `with_reason`: the server can send one. Others say 403, whatever the reason is.
    """

    __slots__ = ("_socket", "_with_reason")

    def __init__(self, socket: AsgiSocket, *, with_reason: bool) -> None:
        super().__init__(socket, chunked=False, bodiless=False)
        self._socket = socket
        self._with_reason = with_reason
        self.upgrade: Callable[[SocketLimits], Any] | None = self._accept

    def _accept(self, limits: SocketLimits) -> AsgiSocket:
        self.started = self.ended = True
        self.status = HTTPStatus.SWITCHING_PROTOCOLS
        return self._socket.accept(limits)

    def reply(self, status: int, headers: Headers, body: bytes) -> None:
        """Refuse the connection."""
        self.started = self.ended = True
        self.status = status
        if self._with_reason:
            shown = [*headers, *common_headers(self.common)]
            self._socket.post({"type": f"{_EXTENSION}.start", "status": status, "headers": shown})
            self._socket.post({"type": f"{_EXTENSION}.body", "body": body, "more_body": False})
        else:
            self._socket.post({"type": "websocket.close", "code": _REFUSED})
        self._socket.finish()


def _ignore(_: bool) -> None:
    """Ignore whether the client is slow."""
