"""What the HTTP server lets a client do: a bounded and well-formed head, in a bounded time, one request at a time.

uvicorn's fast parser takes header lines of any length, waits for them for ever, and sees nothing wrong in two Host
headers. It also takes the end of what a client sends for the end of the client; here that is found out first.
"""

from __future__ import annotations

import asyncio
import re
import socket
from enum import Enum, auto
from typing import Any

import structlog
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from trilogue.gateway.failures import error_reply, plain_failure, raw_headers
from trilogue.gateway.paths import owner, versionless
from trilogue.model import Protocol
from trilogue.protocols.jsontext import dump

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 100
HEAD_SECONDS = 10.0
LINGER_SECONDS = 5.0
"""How long a client that was refused may go on sending: closed at once, it would not see why."""
WRITE_SECONDS = 120.0
"""How long a client may leave what it has been sent unread."""
PROBE_SECONDS = 0.01

_HOST = re.compile(rb"[\w.~%!$&'()*+,;=-]*(:\d{1,5})?|\[[\da-fA-F:.]+(%[\w.-]+)?\](:\d{1,5})?")
_OFFER = (b"connection", b"upgrade", b"http2-settings")
_TCP_CLOSE = 7
"""the first byte of Linux's tcp_info when the peer has reset the connection"""

log = structlog.get_logger("trilogue.http")

BAD = (400, "this is not a valid HTTP request", "bad_http")
BAD_HOST = (400, "there must be one valid Host header", "bad_host")
TOO_LARGE = (431, f"the head of a request may have {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers", "head_too_large")
TOO_SLOW = (408, "the head of the request came too slowly", "request_timeout")


class Inbound(Enum):
    """What comes next from the client."""

    NOTHING = auto()
    """no request is under way"""
    HEAD = auto()
    BODY = auto()
    IGNORED = auto()
    """whatever comes does not count any more"""


class _Stop(Exception):
    """Ends the parser's work from within one of its callbacks."""


class GuardedProtocol(HttpToolsProtocol):
    """One client connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.url = b""
        self._inbound = Inbound.NOTHING
        self._head_bytes = 0
        self._refusal = BAD
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._inbound is Inbound.IGNORED:
            return
        if self._inbound is not Inbound.BODY:
            self._head_bytes += len(data)
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._inbound in (Inbound.NOTHING, Inbound.HEAD):
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(TOO_LARGE)
            elif self._timer is None and not self._is_answering():
                self._await_head()

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            if self._inbound is Inbound.HEAD:
                self._decline_upgrade(data[upgrade.args[0] :])
        except HttpParserError:
            self._give_up()

    def _decline_upgrade(self, rest: bytes) -> None:
        """Java's clients offer HTTP/2 with every request. The parser takes what follows for it, and it is the body."""
        kept = [header for header in self.headers if header[0] not in _OFFER]
        lines = [b"%b: %b\r\n" % header for header in kept]
        method = self.parser.get_method()
        self.parser = HttpRequestParser(self)
        self._parse(b"".join([method, b" ", self.url, b" HTTP/1.1\r\n", *lines, b"\r\n", rest]))

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """The client sends no more. If it has asked for something it may still be there to read the answer."""
        if self._inbound is not Inbound.NOTHING or not self._is_answering() or not hasattr(socket, "TCP_INFO"):
            return None
        self.cycle.keep_alive = False
        if self.cycle.response_started and self.cycle.chunked_encoding:
            self.transport.write(b"3\r\n:\n\n\r\n")  # an empty comment of an event stream
        elif not self.cycle.response_started and self.scope["http_version"] == "1.1":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._look_for_reset(PROBE_SECONDS)
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()

    def on_message_begin(self) -> None:
        if self._is_answering():
            # A second request before the first is answered: no client of these protocols does that.
            raise _Stop
        super().on_message_begin()
        self._inbound = Inbound.HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._inbound is not Inbound.HEAD:
            return  # a trailer must not pass for a header
        if len(self.headers) >= MAX_HEADERS:
            self._stop_parsing(TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        size = sum(len(name) + len(value) for name, value in self.headers)
        if size + len(self.url) > MAX_HEAD_BYTES:
            self._stop_parsing(TOO_LARGE)
        hosts = [value for name, value in self.headers if name == b"host"]
        expected = (0, 1) if self.parser.get_http_version() == "1.0" else (1,)
        if len(hosts) not in expected or not all(map(_HOST.fullmatch, hosts)):
            self._stop_parsing(BAD_HOST)
        if self.parser.get_method() == b"CONNECT":
            self._stop_parsing(BAD)
        if self.parser.should_upgrade() and any(map(_is_framing, self.headers)):
            return
        self._inbound = Inbound.BODY
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if self._inbound is Inbound.HEAD:
            return  # an upgrade that will be declined
        self._inbound = Inbound.NOTHING
        self._head_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._inbound is Inbound.BODY and not self.transport.is_closing():
            self._timer = self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _give_up(self) -> None:
        """The parser has. An answer that is under way is not disturbed, but it is the last one."""
        if self._is_answering():
            self._inbound = Inbound.IGNORED
            self.cycle.keep_alive = False
        else:
            self._refuse(self._refusal)

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _head_is_late(self) -> None:
        if self._head_bytes:
            self._refuse(TOO_SLOW)
        else:
            self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_parsing(self, refusal: tuple[int, str, str]) -> None:
        self._refusal = refusal
        raise _Stop

    def _refuse(self, refusal: tuple[int, str, str]) -> None:
        """Answer in the shape of whoever the path belongs to, and let the client read it before the end."""
        self._stop_timer()
        self._inbound = Inbound.IGNORED
        if self.transport.is_closing():
            return
        log.info("refused", status=refusal[0], error=refusal[2])
        self.transport.write(_reply(refusal, self.url))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _look_for_reset(self, seconds: float) -> None:
        """A client that has closed answers what it gets with a reset; one that only stopped sending does not."""
        if self.transport.is_closing() or not self._is_answering():
            return
        sock = self.transport.get_extra_info("socket")
        if sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _TCP_CLOSE:
            self.transport.abort()
        else:
            self.loop.call_later(seconds, self._look_for_reset, min(2 * seconds, 1.0))


def _is_framing(header: tuple[bytes, bytes]) -> bool:
    """Whether this says that there is a body."""
    name, value = header
    return name == b"transfer-encoding" or (name == b"content-length" and value != b"0")


def _reply(refusal: tuple[int, str, str], url: bytes) -> bytes:
    client = owner(versionless(url.decode("latin-1").partition("?")[0])) or Protocol.CHAT
    reply = error_reply(plain_failure(*refusal), client, "")
    body = dump(reply.body)
    headers = [*raw_headers(reply.headers), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    lines = [b"%b: %b\r\n" % header for header in headers]
    return b"".join([STATUS_LINE[reply.status], *lines, b"\r\n", body])
