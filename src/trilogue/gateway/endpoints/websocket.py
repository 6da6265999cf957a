"""WebSocket connections: every message of a client is a request, and its response is sent as messages.

A request over a WebSocket goes through the same application as one over HTTP, with its own id, log line and observers.
One is handled at a time; the others wait. `socket_events` knows what messages mean.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any
from typing import Protocol as Interface

import structlog
from msgspec.structs import replace

from trilogue.base.json.text import dump
from trilogue.gateway.conversations.connection import ConnectionResponses
from trilogue.gateway.endpoints.socket_events import create, immediate_reply, refuse_binary
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.request.admission import Admission, Handler, HttpRoute, admit
from trilogue.gateway.request.failures import error_reply, raw_headers
from trilogue.gateway.request.request import RequestContext
from trilogue.gateway.response.messages import MessageResponder
from trilogue.net.server.request import Head, HttpRequest
from trilogue.net.server.responder import Responder
from trilogue.net.server.websocket import (
    GOING_AWAY,
    INTERNAL_ERROR,
    POLICY_VIOLATION,
    SERVICE_RESTART,
    MessageSocket,
    SocketLimits,
)
from trilogue.protocols.failure import own_failure

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
