"""One client connection, spoken to in HTTP/1.1: one request at a time, several after each other.

In: the bytes of the socket, parsed by llhttp. Out: a `HttpRequest` with its `Responder`, handed to the application in a
task. What a client may do is bounded: the head in size and time, the body in what waits unread, the answer in how long
it may be left untaken. The end of what a client sends is not taken for the end of the client; that is found out first.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, cast

import structlog
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from trilogue.headers import header_name, is_framed, size_of
from trilogue.serving.known_heads import Head, Key, KnownHeads, split
from trilogue.serving.request import (
    BAD,
    BAD_HOST,
    BEFORE_BODY,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    TOO_LARGE,
    TOO_SLOW,
    HttpRequest,
    Inbound,
    Problem,
    path_and_query,
)
from trilogue.serving.responder import Responder, response_head
from trilogue.serving.silent_client import TOLD, SilentClient, has_reset
from trilogue.serving.upload import Upload

HEAD_SECONDS = 10.0
IDLE_SECONDS = 75.0
LINGER_SECONDS = 5.0
"""How long a client that was refused may go on sending: closed at once, it would not see why."""
LAST_CALL_SECONDS = 1.0
"""How long a client that has just connected may take to ask, once no more are taken: it has no reason to try again."""
WRITE_SECONDS = 120.0
"""How long a client may leave what it has been sent unread."""
PROBE_SECONDS = 0.01

_HOST = re.compile(r"[\w.~%!$&'()*+,;=-]*(:\d{1,5})?|\[[\da-fA-F:.]+(%[\w.-]+)?\](:\d{1,5})?", re.ASCII)
_VERSIONS = ("1.1", "1.0")
_LISTS = frozenset({"anthropic-beta", "openai-beta"})
"""headers that clients send several times, which means the same as one list"""
_OFFER = frozenset({"connection", "upgrade", "http2-settings"})
_EMPTY_LINES = frozenset({b"\r\n", b"\n", b"\r\n\r\n"})
"""what some old clients send after a body; it says nothing"""

log = structlog.get_logger("trilogue.http")

App = Callable[[HttpRequest, Responder], Coroutine[Any, Any, None]]
Refusal = Callable[[Problem, str], tuple[list[tuple[bytes, bytes]], bytes]]
"""headers and body of the answer to what is no request, for a client that asked for this path"""


class _Stop(Exception):
    """Ends the parser's work from within one of its callbacks."""


class ClientConnection(asyncio.Protocol):
    """`connections`: where it is listed while it is open. `known`: the heads that all of them have seen."""

    def __init__(
        self,
        app: App,
        refusal: Refusal,
        connections: set[ClientConnection],
        known: KnownHeads,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._app = app
        self._refusal = refusal
        self._connections = connections
        self._known = known
        self._loop = loop
        self._parser = self._new_parser()
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._inbound = Inbound.NOTHING
        self._problem = BAD
        self._url = b""
        self._headers: dict[str, str] = {}
        self._header_count = 0
        self._head_bytes = 0
        self._framing = 0
        """what came of the body, less twice what it says: how much more chunk sizes and trailers take than it does"""
        self._key: Key | None = None
        """of the head that is being parsed, if it came in one piece with its body"""
        self._request: HttpRequest | None = None
        self._upload: Upload | None = None
        """the body that is being parsed"""
        self._responder: Responder | None = None
        self._reading = True
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_since = 0.0
        self._patience = SilentClient(loop)
        self._drain_waiter: asyncio.Future[None] | None = None
        self._leaving = False
        """no request may follow the one under way"""
        self.keep_alive = True
        self.paused = False
        self.on_flow: Callable[[bool], None] = _ignore

    # --- asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self._timer = self._loop.call_later(HEAD_SECONDS, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        del self._parser  # it holds us as we hold it: nobody should have to find that out
        self._connections.discard(self)
        self._stop_timer()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        # Whoever waits for the client may go on, but nothing more is to be fetched for it.
        self.on_flow = _ignore
        self.resume_writing()
        self._patience.stop()
        if self._request is not None and self._responder is not None:
            self._request.lost()

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._inbound is Inbound.NOTHING and self._responder is None and not self._head_bytes:
            whole = split(data)
            head = self._known.find(whole[0]) if whole else None
            if whole and head is not None:
                self._start(HttpRequest(head, whole[1]), Responder(self, chunked=True, bodiless=False))
                return
            self._key = whole[0] if whole else None
        elif self._inbound is Inbound.IGNORED:
            return
        if self._inbound is Inbound.NOTHING and data in _EMPTY_LINES:
            return
        if self._inbound is Inbound.BODY:
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
        """The client sends no more. If it has asked for something it may still be there to read the answer."""
        responder = self._responder
        if self._inbound is not Inbound.NOTHING or responder is None or not TOLD:
            return None
        self.keep_alive = False
        if responder.chunked:
            if responder.started:
                responder.send(b":\n\n")  # an empty comment of an event stream: whole answers end as they start
            else:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._look_for_reset(PROBE_SECONDS)
        return True

    def pause_writing(self) -> None:
        """The client does not take what it was sent."""
        self.paused = True
        self._patience.watch(self._transport, WRITE_SECONDS)
        self.on_flow(True)

    def resume_writing(self) -> None:
        """It has taken enough."""
        if not self.paused:
            return
        self.paused = False
        if not self._transport.is_closing():
            self._patience.stop()
        if self._drain_waiter is not None and not self._drain_waiter.done():
            self._drain_waiter.set_result(None)
        self.on_flow(False)

    # --- llhttp ---

    def on_message_begin(self) -> None:
        """A request starts. A second one before the first is answered: no client of these protocols does that."""
        if self._responder is not None:
            raise _Stop
        self._inbound = Inbound.HEAD
        self._url = b""
        self._headers = {}
        self._header_count = 0

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header. Any that is repeated keeps its first value: what a proxy in front has added comes later."""
        if self._inbound is not Inbound.HEAD:
            return  # a trailer must not pass for a header
        self._header_count += 1
        if self._header_count > MAX_HEADERS:
            self._stop_parsing(TOO_LARGE)
        key = header_name(name)
        if key not in self._headers:
            self._headers[key] = value.decode("latin-1")
        elif key in _LISTS:
            self._headers[key] += f",{value.decode('latin-1')}"
        elif key == "host":
            self._stop_parsing(BAD_HOST)

    def on_headers_complete(self) -> None:
        """The head is complete: the application takes over."""
        parser, headers = self._parser, self._headers
        if self._head_bytes > MAX_HEAD_BYTES and size_of(headers) + len(self._url) > MAX_HEAD_BYTES:
            self._stop_parsing(TOO_LARGE)
        version = parser.get_http_version()
        if version not in _VERSIONS or headers.get("transfer-encoding", "chunked").lower() != "chunked":
            self._stop_parsing(BAD)
        if not _HOST.fullmatch(headers.get("host", "/" if version != "1.0" else "")):
            self._stop_parsing(BAD_HOST)
        method = parser.get_method().decode("ascii")
        target = path_and_query(self._url)
        if method == "CONNECT" or target is None:
            self._stop_parsing(BAD)
        if parser.should_upgrade() and is_framed(headers):
            return
        self._inbound = Inbound.BODY
        # HTTP/1.0 has no way to keep a connection that all its clients understand.
        self.keep_alive = parser.should_keep_alive() and version != "1.0" and not self._leaving
        head = Head(method, *target, headers)
        if self._key is not None and version == "1.1" and self.keep_alive:
            self._known.keep(self._key, head)
        self._upload = Upload(self._body_is_wanted)
        self._start(
            HttpRequest(head, self._upload), Responder(self, chunked=version == "1.1", bodiless=method == "HEAD")
        )

    def on_body(self, body: bytes) -> None:
        """A part of the body, without its framing."""
        self._framing -= 2 * len(body)
        if self._responder is None or self._upload is None:
            return  # already answered: it is read so that the client can read too
        if not self._upload.received(body) and self._reading:
            self._reading = False
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The request is over."""
        if self._inbound is Inbound.HEAD:
            return  # an upgrade that will be declined
        self._inbound = Inbound.NOTHING
        self._head_bytes = self._framing = 0
        upload, self._upload = self._upload, None
        if self._responder is not None and upload is not None:
            upload.completed()
        else:
            self._stop_timer()
            self._next()

    # --- the answer ---

    def put(self, data: bytes) -> None:
        """Send this to the client, if it is still there."""
        if data and not self._transport.is_closing():
            self._transport.write(data)

    async def drained(self) -> None:
        """Wait until the client has taken enough of what it was sent, or has left."""
        while self.paused:
            self._drain_waiter = self._loop.create_future()
            await self._drain_waiter

    def answered(self) -> None:
        """The answer is complete."""
        self._responder = None
        self.on_flow = _ignore
        if not self._reading:
            self._resume_reading()
        if self._inbound is Inbound.BODY:
            self._timer = self._loop.call_later(LINGER_SECONDS, self._transport.abort)
        else:
            self._next()

    def shut(self) -> None:
        """No more requests: closed as soon as nothing is being answered. Who has not asked yet may do so once."""
        self._leaving = True
        self.keep_alive = False
        if self._responder is not None:
            return
        if self._idle_since and not self._head_bytes:
            self._close()
        else:
            self._loop.call_later(LAST_CALL_SECONDS, self._close_silent)

    def abort(self) -> None:
        """Closed at once."""
        self._transport.abort()

    def _start(self, request: HttpRequest, responder: Responder) -> None:
        """The application takes over."""
        if self._timer is not None:
            self._stop_timer()
        self._request, self._responder = request, responder
        request.task = asyncio.Task(self._run(request, responder), loop=self._loop, name="request")

    async def _run(self, request: HttpRequest, responder: Responder) -> None:
        try:
            await self._app(request, responder)
        finally:
            if not responder.ended:
                # Left by its client, or by the application in the middle: nobody must take it for complete.
                self._responder = None
                self._transport.abort()

    def _next(self) -> None:
        """Nothing is under way: wait for another request, or close."""
        self._request = None
        if not self.keep_alive or self._inbound is Inbound.IGNORED:
            self._close()
            return
        self._idle_since = self._loop.time()
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(IDLE_SECONDS, self._look_idle)

    def _look_idle(self) -> None:
        """One timer for many requests: it looks when it fires, instead of being set for each."""
        self._idle_timer = None
        if self._responder is not None:
            return
        left = self._idle_since + IDLE_SECONDS - self._loop.time()
        if left > 0:
            self._idle_timer = self._loop.call_later(left, self._look_idle)
        elif self._inbound is Inbound.NOTHING:
            self._close()

    def _close_silent(self) -> None:
        """It was given the time to ask."""
        if self._responder is None and not self._transport.is_closing():
            self._close()

    def _close(self) -> None:
        """In good order: what the client has not taken yet may still go out, but does not wait for it for ever."""
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._patience.watch(self._transport, WRITE_SECONDS)

    # --- the request ---

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
        except HttpParserError:
            self._give_up()

    def _decline_upgrade(self, rest: bytes) -> None:
        """Java's clients offer HTTP/2 with every request. The parser takes what follows for it, and it is the body."""
        lines = [f"{name}: {value}\r\n" for name, value in self._headers.items() if name not in _OFFER]
        if "close" in self._headers.get("connection", "").lower():
            lines.append("connection: close\r\n")
        method, url, version = self._parser.get_method(), self._url, self._parser.get_http_version().encode()
        self._parser = self._new_parser()
        self._parse(b"%b %b HTTP/%b\r\n%b\r\n%b" % (method, url, version, "".join(lines).encode("latin-1"), rest))

    def _body_is_wanted(self) -> None:
        responder = self._responder
        if responder is not None and responder.chunked and self._headers.get("expect", "").lower() == "100-continue":
            self.put(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._resume_reading()

    def _resume_reading(self) -> None:
        if not self._reading and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    # --- what goes wrong ---

    def _give_up(self) -> None:
        """The parser has. An answer that is given or under way is not disturbed, but it is the last one."""
        if self._responder is None and self._request is None:
            self._refuse(self._problem)
            return
        if self._inbound is Inbound.BODY and self._upload is not None:
            self._upload.broke()
        self._inbound = Inbound.IGNORED
        self.keep_alive = False

    def _stop_parsing(self, problem: Problem) -> NoReturn:
        self._problem = problem
        raise _Stop

    def _refuse(self, problem: Problem) -> None:
        """Answer in the shape of whoever the path belongs to, and let the client read it before the end."""
        self._stop_timer()
        self._inbound = Inbound.IGNORED
        if self._transport.is_closing():
            return
        log.info("refused", status=problem[0], error=problem[2])
        headers, body = self._refusal(problem, self._url.decode("latin-1").partition("?")[0])
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
        """A client that has closed answers what it gets with a reset; one that only stopped sending does not."""
        if self._transport.is_closing() or self._responder is None:
            return
        if has_reset(self._transport):
            self._transport.abort()
        else:
            self._loop.call_later(seconds, self._look_for_reset, min(2 * seconds, 1.0))


def _ignore(_: bool) -> None:
    """Nobody minds whether the client is slow."""
