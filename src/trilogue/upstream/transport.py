"""Sends requests over pooled HTTP/1.1 connections.

No redirects, no cookies, no compression, no proxies from the environment: what the caller says is what
goes out, and where it says is where it goes. Not for use from several event loops.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from trilogue.errors import UpstreamConnect, UpstreamProtocolError, UpstreamTimeout
from trilogue.upstream.connection import Connection
from trilogue.upstream.dial import dial, tls_context, unverified_context
from trilogue.upstream.exchange import Exchange
from trilogue.upstream.head import request_head
from trilogue.upstream.idle import Idle
from trilogue.upstream.origin import Origin, Proxy, parse_proxy, split_url
from trilogue.upstream.seam import UpstreamRequest
from trilogue.upstream.tunnel import proxy_authorization


class HttpResponse:
    """An `UpstreamResponse` over an exchange."""

    def __init__(self, exchange: Exchange, between: float | None) -> None:
        self.status = exchange.status
        self.headers = exchange.headers
        self._exchange = exchange
        self._between = between

    @property
    def complete(self) -> bool:
        """All of it has arrived."""
        return self._exchange.complete

    async def read(self, limit: int) -> bytes:
        """The whole body, bounded."""
        exchange = self._exchange
        if exchange.complete and exchange.waiting <= limit:
            return exchange.take()
        pieces: list[bytes] = []
        size = 0
        while data := await self.chunk():
            pieces.append(data)
            size += len(data)
            if size > limit:
                await self.aclose()
                raise UpstreamProtocolError(f"the upstream's answer is larger than {limit} bytes")
        return b"".join(pieces)

    async def chunk(self) -> bytes:
        """The next bytes, b"" at the end."""
        return await self._exchange.chunk(self._between)

    async def pour(self, take: Callable[[bytes], bool]) -> None:
        """Everything that comes, as it comes."""
        await self._exchange.pour(take, self._between)

    def hold(self, held: bool) -> None:
        """Leave what comes in the socket."""
        self._exchange.hold(held)

    def release(self, seconds: float) -> None:
        """The rest is of no interest, but the connection is."""
        self._exchange.release(seconds)

    async def aclose(self) -> None:
        """Drop the connection at once if the body is neither complete nor released."""
        if not self._exchange.released:
            self._exchange.abort()


class HttpTransport:
    """The `Transport` of real networks.

    `proxy`: http, https, socks5 or socks5h URL. `ca_file`: further root certificates. `verify`: False takes any
    certificate.
    """

    def __init__(
        self,
        *,
        proxy: str | None = None,
        ca_file: str | None = None,
        verify: bool = True,
        idle: Idle | None = None,
    ) -> None:
        self._proxy = parse_proxy(proxy) if proxy else None
        self._context = tls_context(ca_file) if ca_file else None
        self._make_context = tls_context if verify else unverified_context
        self._idle = Idle() if idle is None else idle
        self._open: set[Connection] = set()

    async def send(self, request: UpstreamRequest) -> HttpResponse:
        """Send it; once more, on a new connection, if a pooled one turns out to be dead."""
        origin, target = split_url(request.url)
        proxy = self._proxy
        head = _head(request, origin, target, proxy)
        connection = self._idle.take(origin)
        if connection is not None:
            exchange = connection.start(head, request.body)
            try:
                return await self._answer(exchange, request, proxy)
            except UpstreamConnect:
                # The upstream closed it while we wrote: a keep-alive connection's usual end (RFC 9112 §9.3.1).
                if exchange.touched:
                    raise
        connection = await self._dial(origin, proxy, request.timeouts.connect)
        return await self._answer(connection.start(head, request.body), request, proxy)

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        for connection in list(self._open):
            connection.abort()
        # Let the event loop close the sockets.
        await asyncio.sleep(0)

    async def _answer(self, exchange: Exchange, request: UpstreamRequest, proxy: Proxy | None) -> HttpResponse:
        await exchange.head(request.timeouts.first_byte)
        if exchange.status == 407 and proxy is not None:
            exchange.abort()
            raise UpstreamConnect("the egress proxy refused our credentials", proxy=True)
        if encoding := _encoding(exchange.headers):
            exchange.abort()
            raise UpstreamProtocolError(f"the upstream's answer is encoded ({encoding}), though we asked for plain")
        return HttpResponse(exchange, request.timeouts.between)

    async def _dial(self, origin: Origin, proxy: Proxy | None, seconds: float) -> Connection:
        try:
            async with asyncio.timeout(seconds):
                needed = origin.tls or (proxy is not None and proxy.tls)
                connection = await dial(origin, await self._tls() if needed else None, proxy)
        except TimeoutError:
            raise UpstreamTimeout(f"no connection to the upstream within {seconds:g} s") from None
        self._open.add(connection)
        connection.on_idle = lambda done: self._idle.put(origin, done)
        connection.on_lost = lambda lost: self._forget(origin, lost)
        return connection

    async def _tls(self) -> ssl.SSLContext:
        """Reading the system's roots takes some 40 ms: when they are first needed, and beside the event loop."""
        if self._context is None:
            self._context = await asyncio.to_thread(self._make_context)
        return self._context

    def _forget(self, origin: Origin, connection: Connection) -> None:
        self._open.discard(connection)
        self._idle.drop(origin, connection)


def _head(request: UpstreamRequest, origin: Origin, target: str, proxy: Proxy | None) -> bytes:
    extra: list[tuple[str, str]] = []
    if proxy is not None and not proxy.socks and not origin.tls:
        # Plain HTTP through an HTTP proxy needs no tunnel: the proxy reads the whole URL (RFC 9112 §3.2.2).
        target = f"http://{origin.host_header}{target}"
        extra = proxy_authorization(proxy)
    return request_head(request.method, target, origin, request.headers, len(request.body), *extra)


def _encoding(headers: list[tuple[str, str]]) -> str:
    """What the body is packed in, in spite of our request; a short word, not the upstream's text."""
    value = next((value for name, value in headers if name == "content-encoding"), "").strip().lower()
    if value in ("", "identity"):
        return ""
    return value if value in ("gzip", "br", "zstd", "deflate") else "unknown"
