"""One HTTP/1.1 connection to an upstream: one exchange at a time, several after each other.

In: the bytes of the socket, parsed by llhttp. Out: an `HttpExchange` per request, which gets headers, body and end as
they arrive. The connection knows nothing of pools, retries and how it was opened.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from trilogue.base.headers import header_name, named_by_connection
from trilogue.errors import (
    InternalError,
    UpstreamConnect,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeout,
    UpstreamTruncated,
)
from trilogue.net.client.exchange import HttpExchange
from trilogue.net.client.failures import tls_failure
from trilogue.net.client.interface import BodySource, UpstreamTimeouts
from trilogue.net.event_loop import PORTION, deadlines, take_portions

MAX_HEAD_BYTES = 256 * 1024
"""Real heads are below 16 KiB; one read from the socket can be as large as this."""
_JOIN_BELOW = 64 * 1024
_FRAMED = ("content-length", "transfer-encoding")
"""Headers that mark the end of a response. Without them it ends with the connection."""


class _Unrequested(Exception):
    """Stops the parser from within one of its callbacks: there is a response without a request."""


class Connection(asyncio.Protocol):
    """A connection. It calls `on_idle` when an exchange is over and another may follow, `on_lost` when it is closed."""

    def __init__(self) -> None:
        self.on_idle: Callable[[Connection], None] = _ignore
        self.on_lost: Callable[[Connection], None] = _ignore
        self.loop = asyncio.get_running_loop()
        self.deadlines = deadlines(self.loop)
        self.transport: asyncio.Transport | None = None
        self._exchange: HttpExchange | None = None
        self._bodies: list[bytes] = []
        """Parts of the body in the current read from the socket, handed over together."""
        self.on_body = self._bodies.append
        """Called by llhttp with each part of the body, without its framing. No method: this is the hot path."""
        self._head_bytes = 0
        self._paused = False
        self._gives_way = False
        """whether nothing is read for a moment, so that other connections have their turn"""
        self._rest = b""
        """what was read and is taken after that"""
        self._full: asyncio.Future[None] | None = None
        """done when the upstream has read enough of what was sent; None while it reads fast enough"""
        self._uploading = False
        """whether a part of the current request was not sent"""
        self._parser = HttpResponseParser(self)

    def start(self, head: bytes, body: bytes, timeouts: UpstreamTimeouts) -> HttpExchange:
        """Send a request and return its exchange. The connection must be idle."""
        transport = self.transport
        if transport is None or self._exchange is not None:
            raise InternalError("a connection was used for two requests at once")
        exchange = self._exchange = HttpExchange(self, timeouts)
        self._head_bytes = 0
        if len(body) < _JOIN_BELOW:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)
        return exchange

    async def upload(self, exchange: HttpExchange, source: BodySource, seconds: float) -> None:
        """Send a body as it arrives, until its end or until the response begins: an early one is an error.

        Raises what the source raises, and UpstreamTimeout if the upstream reads nothing for this many seconds. The
        connection is closed then.
        """
        chunked = source.length is None
        self._uploading = True
        try:
            while not exchange.touched and exchange.error is None:
                data = await source.piece()
                if self.transport is not None and not self.transport.is_closing() and (data or chunked):
                    self.transport.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
                if not data:
                    self._uploading = False
                    break
                if self._full is not None:
                    await self._drained(self._full, seconds)
        except BaseException:
            # The upstream must not take a part of the body for the whole.
            self.abort()
            raise

    async def _drained(self, full: asyncio.Future[None], seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await full
        except TimeoutError:
            raise UpstreamTimeout(f"the upstream read nothing of the request for {seconds:g} s") from None

    def pause_writing(self) -> None:
        """Note that the upstream is slow to read (called by asyncio)."""
        self._full = self.loop.create_future()

    def resume_writing(self) -> None:
        """Go on sending (called by asyncio)."""
        full, self._full = self._full, None
        if full is not None and not full.done():
            full.set_result(None)

    def abort(self) -> None:
        """Close the connection at once, without flushing buffers or TLS's closing message."""
        if self.transport is not None:
            self.transport.abort()

    def pause(self) -> None:
        """Stop reading from the socket, so that TCP slows the upstream down."""
        if not self._paused and self.transport is not None and not self.transport.is_closing():
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Start reading from the socket again."""
        if self._paused and self.transport is not None and not self.transport.is_closing():
            self._paused = False
            if not self._gives_way:
                self.transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport (called by asyncio)."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Parse bytes and hand them to the exchange (called by asyncio)."""
        if data[PORTION:]:  # longer than that, without a call: this is the hot path
            self._take_portions(data)
            return
        exchange = self._exchange
        if exchange is None:
            # There is no request. The next exchange must not take these bytes for its response.
            self.abort()
            return
        exchange.touched = True
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._fail(exchange, UpstreamProtocolError("the upstream switched to another protocol"))
        except HttpParserError as error:
            self._fail(exchange, UpstreamProtocolError(f"the upstream's response is not HTTP ({type(error).__name__})"))
        else:
            if self._bodies:
                self._head_bytes = 0
                exchange.received(self._bodies)
            elif self._exchange is not None:
                self._check_head(exchange, len(data))

    def _take_portions(self, data: bytes) -> None:
        """Take a part of many bytes, and the rest when other connections have had their turn."""
        self._rest = take_portions(data, self.data_received, self._is_open)
        if self.transport is not None and self._is_open():
            self._gives_way = True
            self.transport.pause_reading()
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._gives_way = False
        rest, self._rest = self._rest, b""
        if self.transport is None or not self._is_open():
            return
        if rest:
            self.data_received(rest)
        if not self._gives_way and not self._paused and self._is_open():
            self.transport.resume_reading()

    def _is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    def _check_head(self, exchange: HttpExchange, received: int) -> None:
        """Fail the exchange if its head, or its chunk headers and trailers, are larger than any real ones."""
        self._head_bytes += received
        if self._head_bytes > MAX_HEAD_BYTES:
            self._fail(
                exchange, UpstreamProtocolError(f"the response's head or trailer is over {MAX_HEAD_BYTES} bytes")
            )

    def _fail(self, exchange: HttpExchange, error: UpstreamError) -> None:
        if self._bodies:
            exchange.received(self._bodies)
        exchange.finish(error)
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange (called by asyncio). Without `exc` the upstream closed the connection properly."""
        # The parser refers to this object. Break the cycle, so that the garbage collector has nothing to do.
        del self._parser
        self.resume_writing()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.finish(_loss(exchange, exc))
        self.on_lost(self)

    def on_message_begin(self) -> None:
        """Refuse a response without a request (called by llhttp). The next request could take it for its own."""
        if self._exchange is None:
            raise _Unrequested

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header (called by llhttp). Trailers, which come after the body, are ignored."""
        exchange = self._exchange
        if exchange is None or exchange.status:
            return
        lower = header_name(name)
        if lower == "content-encoding":
            exchange.encoded = True
        exchange.headers.append((lower, value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Wake the caller (called by llhttp). A head with a 1xx status is dropped: another one follows."""
        exchange = self._exchange
        if exchange is None:
            return
        status = self._parser.get_status_code()
        if status >= 200:
            for name, value in exchange.headers:
                if name == "connection" and (hop := named_by_connection(value)):
                    # What it names is for us alone. Framing has been read by then.
                    exchange.headers = [header for header in exchange.headers if header[0] not in hop]
            exchange.status = status
            exchange.wake()
        else:
            exchange.headers, exchange.encoded = [], False

    def on_message_complete(self) -> None:
        """End the exchange and keep the connection for the next one if possible (called by llhttp)."""
        exchange, transport = self._exchange, self.transport
        if exchange is None or transport is None or not exchange.status:
            return
        self._exchange = None
        if self._bodies:
            exchange.received(self._bodies)
        exchange.finish()
        if self._paused:
            self.resume()
        # An upstream that responds before it has read the whole request will close the connection.
        unsent = self._uploading or transport.get_write_buffer_size() > 0
        if self._parser.should_keep_alive() and not unsent:
            self.on_idle(self)
        else:
            transport.abort()


def _ignore(_: Connection) -> None:
    """Do nothing, until the transport sets its own callback."""


def _loss(exchange: HttpExchange, exc: Exception | None) -> UpstreamError | None:
    """Return what the end of the connection means for the current exchange; None if it ends a complete response."""
    if isinstance(exc, ssl.SSLError):
        return tls_failure(exc)
    if not exchange.status:
        return UpstreamConnect("the upstream closed the connection before it responded")
    if exc is not None:
        return UpstreamConnect("the connection to the upstream broke in the middle of the response")
    if any(name in _FRAMED for name, _ in exchange.headers):
        return UpstreamTruncated("the upstream closed the connection in the middle of the response")
    return None
