"""One client connection in HTTP/1.1: one request at a time, any number in succession.

In: the bytes of the socket, parsed by llhttp. Out: an `HttpRequest` with its `Responder`, given to the application in a
task. Clients are limited: headers in size and time, bodies in how much is buffered, responses in how long they may stay
unread. A client that stops sending has not necessarily disconnected; that is checked first. This module does not know
what requests mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import structlog
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from trilogue.net.event_loop import PORTION, take_portions
from trilogue.net.server.request import (
    BEFORE_BODY,
    MAX_HEAD_BYTES,
    TOO_LARGE,
    TOO_SLOW,
    ClientGone,
    Head,
    HeadKey,
    HeadReader,
    HttpRequest,
    Inbound,
    KnownHeads,
    Problem,
    StopParsing,
    Upload,
    without_upgrade,
)
from trilogue.net.server.responder import Responder, response_head
from trilogue.net.server.silent_client import HAS_TCP_INFO, SilentClient, has_reset
from trilogue.net.server.websocket import SocketLimits, WebSocket, accepting_headers, offers_websocket

HEAD_SECONDS = 10.0
IDLE_SECONDS = 75.0
LINGER_SECONDS = 5.0
"""How long a refused client may go on sending. If the connection were closed at once, the client would not see why."""
LAST_CALL_SECONDS = 1.0
"""How long a client that is connected may still send a request while the gateway drains."""
WRITE_SECONDS = 120.0
"""how long a client may read nothing of what it was sent"""
PROBE_SECONDS = 0.01

_EMPTY_LINES = frozenset({b"\r\n", b"\n", b"\r\n\r\n"})
"""what some old clients send after a body; it has no meaning"""

log = structlog.get_logger("trilogue.http")

App = Callable[[HttpRequest, Responder], Coroutine[Any, Any, None]]
Refusal = Callable[[Problem, str], tuple[list[tuple[bytes, bytes]], bytes]]
"""returns headers and body of the response to an invalid request, for a client that asked for this path"""


class ClientConnection(asyncio.Protocol):
    """One connection. It is in `connections` while it is open, and shares `known` with them, unless that is None.

    When a request has become a WebSocket, a `WebSocket` takes its place.
    """

    def __init__(
        self,
        app: App,
        refusal: Refusal,
        connections: set[ClientConnection | WebSocket],
        known: KnownHeads | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._app = app
        self._refusal = refusal
        self._connections = connections
        self._known = known
        self._loop = loop
        self._head = HeadReader()
        self.on_url = self._head.on_url
        self.on_header = self._head.on_header
        self._parser = self._new_parser()
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._inbound = Inbound.NOTHING
        self._head_bytes = 0
        self._framing = 0
        """Bytes received of the body, minus twice its content: positive if its framing is larger than its content."""
        self._declined: Head | None = None
        """the head of a request whose body is being parsed again, because its upgrade was declined"""
        self._key: HeadKey | None = None
        """the key of the headers being parsed, if they arrived in one piece with their body"""
        self._request: HttpRequest | None = None
        self._upload: Upload | None = None
        """the body that is being parsed"""
        self._responder: Responder | None = None
        self._reading = True
        self._gives_way = False
        """whether nothing is read for a moment, so that other connections have their turn"""
        self._rest = b""
        """what was read and is parsed after that"""
        self._early = b""
        """what the client sent after a request that offers a WebSocket"""
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_since = 0.0
        self._patience = SilentClient(loop)
        self._drain_waiter: asyncio.Future[None] | None = None
        self._leaving = False
        """whether the gateway drains: no request may follow the current one"""
        self.keep_alive = True
        self.paused = False
        self.on_flow: Callable[[bool], None] = _ignore

    # --- asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit for the first request."""
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self._timer = self._loop.call_later(HEAD_SECONDS, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything that waits for the client, and let the application know."""
        self._detach()
        # Wake up what waits for the client, but do not let the upstream send more for it.
        self.on_flow = _ignore
        self.resume_writing()
        self._patience.stop()
        if self._request is not None and self._responder is not None:
            self._request.lost()

    def _detach(self) -> None:
        """Release what this connection uses."""
        # The parser refers to us: break the cycle, so that the garbage collector has nothing to do.
        del self._parser
        self._connections.discard(self)
        self._stop_timer()
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse bytes of the client. A complete request with known headers skips the parser."""
        if self._inbound is Inbound.NOTHING and self._responder is None and not self._head_bytes:
            if self._known is not None:
                self._key, request = self._known.find(data)
                if request is not None:
                    self._start(request, Responder(self, chunked=True, bodiless=False))
                    return
        elif self._inbound is Inbound.IGNORED:
            return
        if self._inbound is Inbound.NOTHING and data in _EMPTY_LINES:
            return
        if self._inbound is Inbound.BODY:
            if len(data) > PORTION:
                self._take_portions(data)
                return
            self._framing += len(data)
        else:
            self._head_bytes += len(data)
        self._parse(data)
        if self._head_bytes and self._inbound in BEFORE_BODY:
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(TOO_LARGE)
            elif self._timer is None:
                self._timer = self._loop.call_later(HEAD_SECONDS, self._head_is_late)
        elif self._framing > MAX_HEAD_BYTES:
            self._give_up()

    def eof_received(self) -> bool | None:
        """Find out whether a client that sends no more is still there to read its response."""
        responder = self._responder
        if self._inbound is not Inbound.NOTHING or responder is None or not HAS_TCP_INFO:
            return None
        self.keep_alive = False
        if responder.chunked:
            if responder.started:
                # An empty SSE comment. Only streams are in this state: whole responses start and end at once.
                responder.send(b":\n\n")
            else:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._look_for_reset(PROBE_SECONDS)
        return True

    def pause_writing(self) -> None:
        """Note that the client does not read what it was sent."""
        self.paused = True
        self._patience.watch(self._transport, WRITE_SECONDS)
        self.on_flow(True)

    def resume_writing(self) -> None:
        """Continue after the client has read enough."""
        if not self.paused:
            return
        self.paused = False
        if not self._transport.is_closing():
            self._patience.stop()
        if self._drain_waiter is not None and not self._drain_waiter.done():
            self._drain_waiter.set_result(None)
        self.on_flow(False)

    @property
    def peer(self) -> str:
        """The address that the client connects from; "" for a socket without one."""
        name = self._transport.get_extra_info("peername")
        return str(name[0]) if isinstance(name, tuple) else ""

    # --- llhttp ---

    def on_message_begin(self) -> None:
        """Start a request. Pipelining is refused: no client of these protocols uses it."""
        if self._responder is not None:
            raise StopParsing
        self._inbound = Inbound.HEAD
        if self._declined is None:
            self._head.clear()

    def on_headers_complete(self) -> None:
        """Check the headers, and start the application; the body may still be arriving."""
        parser, reader = self._parser, self._head
        if self._head_bytes > MAX_HEAD_BYTES and reader.is_too_large():
            reader.stop(TOO_LARGE)
        version, method = parser.get_http_version(), parser.get_method().decode("ascii")
        head, self._declined = self._declined or reader.complete(method, version), None
        upgrades = parser.should_upgrade()
        if upgrades and reader.length != 0:
            self._declined = without_upgrade(head)
            return
        self._inbound = Inbound.BODY
        # HTTP/1.0 has no way to keep a connection open that all of its clients understand.
        self.keep_alive = parser.should_keep_alive() and version != "1.0" and not self._leaving
        if self._known is not None and self._key is not None and version == "1.1" and self.keep_alive:
            self._known.keep(self._key, head)
        self._upload = Upload(self._body_is_wanted, reader.length)
        responder = Responder(self, chunked=version == "1.1", bodiless=method == "HEAD")
        if upgrades and version == "1.1" and offers_websocket(head):
            responder.upgrade = self._upgrade
        self._start(HttpRequest(head, self._upload), responder)

    def on_body(self, body: bytes) -> None:
        """Add a part of the body, without its framing."""
        self._framing -= 2 * len(body)
        if self._responder is None or self._upload is None:
            # The response is complete. The body is still read, because some clients send all of it before they read.
            return
        if not self._upload.received(body) and self._reading:
            self._reading = False
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Note that the whole request has arrived."""
        if self._inbound is Inbound.HEAD:
            # An upgrade, which will be declined.
            return
        self._inbound = Inbound.NOTHING
        self._head_bytes = self._framing = 0
        upload, self._upload = self._upload, None
        if self._responder is not None and upload is not None:
            upload.completed()
        else:
            self._stop_timer()
            self._next()

    # --- the response ---

    def put(self, data: bytes) -> None:
        """Send bytes to the client, if it is still connected."""
        if data and not self._transport.is_closing():
            self._transport.write(data)

    async def drained(self) -> None:
        """Wait until the client has read enough of what it was sent, or has disconnected."""
        while self.paused:
            self._drain_waiter = self._loop.create_future()
            await self._drain_waiter

    def response_ended(self) -> None:
        """Go on after a complete response: to the next request, or to the end of the connection."""
        self._responder = None
        self.on_flow = _ignore
        if not self._reading:
            self._resume_reading()
        if self._inbound is Inbound.BODY:
            self._timer = self._loop.call_later(LINGER_SECONDS, self._transport.abort)
        else:
            self._next()

    def shut(self, *, at_once: bool = False) -> None:
        """Close the connection after the current request. A client that has none may still send one, unless `at_once`.

        A proxy that keeps connections open may be sending one right now. If the connection were closed, the proxy could
        not know whether the request was run, and would not dare to send it to another gateway.
        """
        self._leaving = True
        self.keep_alive = False
        if self._responder is not None:
            return
        if at_once and self._idle_since and not self._head_bytes:
            self._close()
        else:
            self._loop.call_later(LAST_CALL_SECONDS, self._close_silent)

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def _start(self, request: HttpRequest, responder: Responder) -> None:
        """Run the application for a request."""
        if self._timer is not None:
            self._stop_timer()
        self._request, self._responder = request, responder
        request.task = asyncio.Task(self._run(request, responder), loop=self._loop, name="request")

    async def _run(self, request: HttpRequest, responder: Responder) -> None:
        try:
            await self._app(request, responder)
        finally:
            if not responder.ended:
                # The client has disconnected, or the application has failed: the response must not look complete.
                self._responder = None
                self._transport.abort()

    def _upgrade(self, limits: SocketLimits) -> WebSocket:
        """Accept the WebSocket that the current request offers. From now on, the connection belongs to it."""
        transport, request, responder = self._transport, self._request, self._responder
        if request is None or responder is None or transport.is_closing():
            raise ClientGone
        self._responder = None
        self._detach()
        self._patience.stop()
        websocket = WebSocket(transport, self._connections, limits, self._loop)
        response = responder.switch(accepting_headers(request.headers))
        websocket.begin(response, self._early, paused=self.paused, leaving=self._leaving)
        if not self._reading or self._gives_way:
            transport.resume_reading()
        return websocket

    def _next(self) -> None:
        """Wait for the next request, or close."""
        self._request = None
        if not self.keep_alive or self._inbound is Inbound.IGNORED:
            self._close()
            return
        self._idle_since = self._loop.time()
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(IDLE_SECONDS, self._look_idle)

    def _look_idle(self) -> None:
        """Close the connection if it was idle for too long."""
        # One timer serves many requests: setting one per request would cost 6 µs.
        self._idle_timer = None
        if self._responder is not None:
            return
        left = self._idle_since + IDLE_SECONDS - self._loop.time()
        if left > 0:
            self._idle_timer = self._loop.call_later(left, self._look_idle)
        elif self._inbound is Inbound.NOTHING:
            self._close()

    def _close_silent(self) -> None:
        """Close a connection that has no request after its last chance to send one."""
        if self._responder is None and self in self._connections and not self._transport.is_closing():
            self._close()

    def _close(self) -> None:
        """Close the connection after the client has read the rest, which it must not delay forever."""
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._patience.watch(self._transport, WRITE_SECONDS)

    # --- parsing ---

    def _new_parser(self) -> HttpRequestParser:
        parser = HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            if self._inbound is Inbound.HEAD:
                self._decline_upgrade(data[upgrade.args[0] :])
            elif self._responder is not None and self._responder.upgrade is not None:
                # What follows is not HTTP if the application accepts.
                self._early = data[upgrade.args[0] :]
                self._reading = False
                self._transport.pause_reading()
        except HttpParserError:
            self._give_up()

    def _take_portions(self, data: bytes) -> None:
        """Parse a part of many bytes of a body, and the rest when other connections have had their turn."""
        self._rest = take_portions(data, self.data_received, self._is_body)
        if not self._transport.is_closing():
            self._gives_way = True
            self._transport.pause_reading()
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._gives_way = False
        rest, self._rest = self._rest, b""
        if self not in self._connections or self._transport.is_closing():
            return
        if rest:
            self.data_received(rest)
        if self._reading and not self._gives_way and not self._transport.is_closing():
            self._transport.resume_reading()

    def _is_body(self) -> bool:
        return self._inbound is Inbound.BODY and not self._transport.is_closing()

    def _decline_upgrade(self, rest: bytes) -> None:
        """Let a new parser read the body of a request that offers an upgrade. Its head stays as it was read.

        Java's HTTP clients offer HTTP/2 with every request. The parser then takes the body for HTTP/2.
        """
        framing = self._head.framing(self._parser.get_method(), self._parser.get_http_version())
        self._parser = self._new_parser()
        self._parse(framing + rest)

    def _body_is_wanted(self, first: bool) -> None:
        responder, expected = self._responder, self._head.headers.get("expect", "")
        if first and responder is not None and responder.chunked and expected.lower() == "100-continue":
            self.put(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._resume_reading()

    def _resume_reading(self) -> None:
        if not self._reading and not self._transport.is_closing():
            self._reading = True
            if not self._gives_way:
                self._transport.resume_reading()

    # --- errors ---

    def _give_up(self) -> None:
        """Handle bytes that are not HTTP. A response in progress goes on, but it is the last one."""
        if self._responder is None and self._request is None:
            self._refuse(self._head.problem)
            return
        if self._inbound is Inbound.BODY and self._upload is not None:
            self._upload.broke()
        self._inbound = Inbound.IGNORED
        self.keep_alive = False

    def _refuse(self, problem: Problem) -> None:
        """Respond with an error in the protocol that the path belongs to, and close once the client has read it."""
        self._stop_timer()
        self._inbound = Inbound.IGNORED
        if self._transport.is_closing():
            return
        log.info("refused", status=problem[0], error=problem[2])
        headers, body = self._refusal(problem, self._head.url.decode("latin-1").partition("?")[0])
        headers.append((b"content-length", b"%d" % len(body)))
        self._transport.write(response_head(problem[0], headers, b"", keep_alive=False) + body)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._timer = self._loop.call_later(LINGER_SECONDS, self._transport.abort)

    def _head_is_late(self) -> None:
        self._timer = None
        if self._head_bytes:
            self._refuse(TOO_SLOW)
        else:
            self._transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_for_reset(self, seconds: float) -> None:
        """Abort if the client has reset the connection. A client that has only stopped sending does not reset it."""
        if self._transport.is_closing() or self._responder is None:
            return
        if has_reset(self._transport):
            self._transport.abort()
        else:
            self._loop.call_later(seconds, self._look_for_reset, min(2 * seconds, 1.0))


def _ignore(_: bool) -> None:
    """Ignore whether the client is slow."""
