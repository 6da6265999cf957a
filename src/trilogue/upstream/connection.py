"""One connection to an upstream, spoken to in HTTP/1.1: one exchange at a time, several after each other.

In: the bytes of the socket, parsed by llhttp. Out: an `HttpExchange` per request, which is told what comes.
The connection knows nothing of pools, retries and how it was opened.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from trilogue.deadlines import deadlines
from trilogue.errors import (
    InternalError,
    UpstreamConnect,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTruncated,
)
from trilogue.headers import header_name
from trilogue.upstream.exchange import HttpExchange
from trilogue.upstream.failures import tls_failure
from trilogue.upstream.interface import UpstreamTimeouts

MAX_HEAD_BYTES = 256 * 1024
"""Honest heads are below 16 KiB; one read from the socket can be as large as this."""
_JOIN_BELOW = 64 * 1024
_FRAMED = ("content-length", "transfer-encoding")
"""What marks the end of an answer; without them the end of the connection is its end."""


class _Unasked(Exception):
    """Ends the parser's work from within one of its callbacks."""


class Connection(asyncio.Protocol):
    """`on_idle` is called when an exchange is over and another may follow, `on_lost` when the connection is gone."""

    def __init__(self) -> None:
        self.on_idle: Callable[[Connection], None] = _ignore
        self.on_lost: Callable[[Connection], None] = _ignore
        self.loop = asyncio.get_running_loop()
        self.deadlines = deadlines(self.loop)
        self.transport: asyncio.Transport | None = None
        self._exchange: HttpExchange | None = None
        self._bodies: list[bytes] = []
        """what the read under way has of the body: it is handed over in one piece"""
        self.on_body = self._bodies.append
        """llhttp: a part of the body, without its framing"""
        self._head_bytes = 0
        self._paused = False
        self._parser = HttpResponseParser(self)

    def start(self, head: bytes, body: bytes, timeouts: UpstreamTimeouts) -> HttpExchange:
        """Send a request. The connection must be idle."""
        transport = self.transport
        if transport is None or self._exchange is not None:
            raise InternalError("a connection was used twice at once")
        exchange = self._exchange = HttpExchange(self, timeouts)
        self._head_bytes = 0
        if len(body) < _JOIN_BELOW:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)
        return exchange

    def abort(self) -> None:
        """Close at once, without a farewell."""
        if self.transport is not None:
            self.transport.abort()

    def pause(self) -> None:
        """Leave further bytes in the socket."""
        if not self._paused and self.transport is not None and not self.transport.is_closing():
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._paused and self.transport is not None and not self.transport.is_closing():
            self._paused = False
            self.transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is open."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes have come."""
        exchange = self._exchange
        if exchange is None:
            # Nobody asked: whatever this is, the next exchange must not take it for its answer.
            self.abort()
            return
        exchange.touched = True
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._fail(exchange, UpstreamProtocolError("the upstream switched to another protocol"))
        except HttpParserError as error:
            self._fail(exchange, UpstreamProtocolError(f"the upstream's answer is not HTTP ({type(error).__name__})"))
        else:
            if self._bodies:
                self._head_bytes = 0
                exchange.received(self._bodies)
            elif self._exchange is not None:
                self._check_head(exchange, len(data))

    def _check_head(self, exchange: HttpExchange, received: int) -> None:
        """The head, or what surrounds the body: trailers must not go on for ever either."""
        self._head_bytes += received
        if self._head_bytes > MAX_HEAD_BYTES:
            self._fail(exchange, UpstreamProtocolError(f"the answer's head or trailer is over {MAX_HEAD_BYTES} bytes"))

    def _fail(self, exchange: HttpExchange, error: UpstreamError) -> None:
        if self._bodies:
            exchange.received(self._bodies)
        exchange.finish(error)
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection is gone; without `exc` the upstream closed it in good order."""
        del self._parser  # it holds us as we hold it: nobody should have to find that out
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.finish(_loss(exchange, exc))
        self.on_lost(self)

    def on_message_begin(self) -> None:
        """llhttp: a message starts. One that nobody asked for could be taken for the answer to the next request."""
        if self._exchange is None:
            raise _Unasked

    def on_header(self, name: bytes, value: bytes) -> None:
        """llhttp: one header, or one trailer after the body, which nobody needs."""
        exchange = self._exchange
        if exchange is None or exchange.status:
            return
        lower = header_name(name)
        if lower == "content-encoding":
            exchange.encoded = True
        exchange.headers.append((lower, value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """llhttp: the head is complete; 1xx heads only announce another one."""
        exchange = self._exchange
        if exchange is None:
            return
        status = self._parser.get_status_code()
        if status >= 200:
            exchange.status = status
            exchange.wake()
        else:
            exchange.headers, exchange.encoded = [], False

    def on_message_complete(self) -> None:
        """llhttp: the message is over."""
        exchange, transport = self._exchange, self.transport
        if exchange is None or transport is None or not exchange.status:
            return
        self._exchange = None
        if self._bodies:
            exchange.received(self._bodies)
        exchange.finish()
        if self._paused:
            self.resume()
        # An upstream that answers before it has read all of the request will close.
        if self._parser.should_keep_alive() and transport.get_write_buffer_size() == 0:
            self.on_idle(self)
        else:
            transport.abort()


def _ignore(_: Connection) -> None:
    """Nobody listens yet."""


def _loss(exchange: HttpExchange, exc: Exception | None) -> UpstreamError | None:
    """What the end of the connection means for the answer that was under way."""
    if isinstance(exc, ssl.SSLError):
        return tls_failure(exc)
    if not exchange.status:
        return UpstreamConnect("the upstream closed the connection before it answered")
    if exc is not None:
        return UpstreamConnect("the connection to the upstream broke in the middle of the answer")
    if any(name in _FRAMED for name, _ in exchange.headers):
        return UpstreamTruncated("the upstream closed the connection in the middle of the answer")
    return None
