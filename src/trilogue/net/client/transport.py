"""Sends requests over pooled HTTP/1.1 connections.

In: an `UpstreamRequest`. Out: an `HttpExchange`, or an `Upstream…` error. It follows no redirects, keeps no cookies,
asks for no compression and ignores proxies in the environment. It is bound to one event loop. It knows nothing of
accounts, and retries only what a pooled connection that was already closed cannot have carried.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Iterator
from copy import copy
from functools import lru_cache, partial
from itertools import islice

from trilogue.base.headers import LEGAL_NAME, OF_CONNECTION
from trilogue.errors import InternalError, UpstreamConnect, UpstreamProtocolError, UpstreamTimeout
from trilogue.net.client.connection import Connection
from trilogue.net.client.dial import dial, tls_context, unverified_context
from trilogue.net.client.exchange import HttpExchange
from trilogue.net.client.interface import HeaderPairs, UpstreamRequest
from trilogue.net.client.origin import Origin, parse_proxy, split_url
from trilogue.net.client.tunnel import proxy_authorization

AT_ONCE = 8
PAUSE_SECONDS = 0.02
"""Closing a connection takes as long as relaying a few events: closing a hundred at once delays all streams by
milliseconds.
"""


class Idle:
    """Connections that wait for their next exchange, the most recently used first, so that the others can expire.

    `seconds`: how long one may wait. Servers close theirs after 5 to 75 s, which we notice at once. `per_origin`: how
    many may wait. Hundreds of streams begin and end at random, and opening a connection costs more than all the rest of
    a request. One timer runs for all of them: nothing is set up per exchange.
    """

    def __init__(self, seconds: float = 30, per_origin: int = 512) -> None:
        self._seconds = seconds
        self._per_origin = per_origin
        self._waiting: dict[Origin, dict[Connection, float]] = {}
        """When each began to wait."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._waiting.values())

    def take(self, origin: Origin) -> Connection | None:
        """Return a connection that can be used again, or None."""
        waiting = self._waiting.get(origin)
        while waiting:
            connection, _ = waiting.popitem()
            transport = connection.transport
            if transport is not None and not transport.is_closing():
                return connection
        return None

    def put(self, origin: Origin, connection: Connection) -> None:
        """Keep a connection for later, or close it if enough are waiting."""
        waiting = self._waiting.get(origin)
        if waiting is None:
            waiting = self._waiting[origin] = {}
        if len(waiting) >= self._per_origin:
            connection.abort()
            return
        waiting[connection] = time.monotonic()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds / 4, self._sweep)

    def drop(self, origin: Origin, connection: Connection) -> None:
        """Forget a connection that was closed."""
        waiting = self._waiting.get(origin, {})
        waiting.pop(connection, None)
        if not waiting:
            self._waiting.pop(origin, None)

    def _sweep(self) -> None:
        """Close expired connections, a few at a time, so that streams are not delayed."""
        due = list(islice(self._old(time.monotonic() - self._seconds), AT_ONCE))
        for waiting, connection in due:
            del waiting[connection]
            connection.abort()
        pause = PAUSE_SECONDS if len(due) == AT_ONCE else self._seconds / 4
        some = any(self._waiting.values())
        self._timer = asyncio.get_running_loop().call_later(pause, self._sweep) if some else None

    def _old(self, oldest: float) -> Iterator[tuple[dict[Connection, float], Connection]]:
        """Yield connections that have waited since then or longer. Each origin's are sorted by age."""
        for waiting in self._waiting.values():
            for connection, since in waiting.items():
                if since > oldest:
                    break
                yield waiting, connection


TOO_SILENT = 408
"""Some servers send this status on an idle connection before they close it."""


class HttpTransport:
    """The `Transport` for real networks.

    `proxy`: http, https, socks5 or socks5h URL. `ca_file`: further root certificates. `verify`: False accepts any
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
        self._forwarded = self._proxy is not None and not self._proxy.socks
        """Plain HTTP through an HTTP proxy needs no tunnel: the proxy reads the whole URL (RFC 9112 §3.2.2)."""
        self._login = tuple(proxy_authorization(self._proxy)) if self._proxy is not None else ()
        self._context = tls_context(ca_file) if ca_file else None
        self._make_context = tls_context if verify else unverified_context
        self._idle = Idle() if idle is None else idle
        self._open: set[Connection] = set()

    async def send(self, request: UpstreamRequest) -> HttpExchange:
        """Send a request and return the response once its head is complete. Raise UpstreamError.

        If a pooled connection turns out to be closed, send the request again on a new one.
        """
        origin, target = split_url(request.url)
        if self._forwarded and not origin.tls:
            head = request_head(request, origin, f"http://{origin.host_header}{target}", self._login)
        else:
            head = request_head(request, origin, target)
        # An upload can be read once, so it gets a connection that the upstream cannot be about to close.
        connection = self._idle.take(origin) if request.upload is None else None
        if connection is not None:
            exchange = connection.start(head, request.body, request.timeouts)
            await exchange.wait()
            if not _was_closed(exchange):
                return self._checked(exchange)
            exchange.abort()
        began, request.unsent = time.monotonic(), True
        connection = await self._dial(origin, request.timeouts.connect)
        request.connect_seconds, request.unsent = time.monotonic() - began, False
        exchange = connection.start(head, request.body, request.timeouts)
        if request.upload is not None:
            await connection.upload(exchange, request.upload, request.timeouts.first_byte)
        if not exchange.status and exchange.error is None:
            await exchange.wait()
        return self._checked(exchange)

    async def reach(self, url: str, seconds: float) -> None:
        """Open a connection to the server of an address, and keep it for a request. Raise UpstreamError."""
        origin, _ = split_url(url)
        self._idle.put(origin, await self._dial(origin, seconds))

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        for connection in list(self._open):
            connection.abort()
        # Let the event loop close the sockets.
        await asyncio.sleep(0)

    def connections(self) -> tuple[int, int]:
        """Return how many connections are in use, and how many are idle."""
        idle = len(self._idle)
        return len(self._open) - idle, idle

    def _checked(self, exchange: HttpExchange) -> HttpExchange:
        """Return an exchange whose head has arrived and whose body the caller can read. Raise UpstreamError."""
        if exchange.error is not None and not exchange.status:
            raise copy(exchange.error)
        if exchange.status == 407 and self._proxy is not None:
            exchange.abort()
            raise UpstreamConnect("the egress proxy rejected the login", proxy=True)
        # An error response is passed on even if its body is compressed: its status is enough.
        if exchange.encoded and exchange.status < 300 and (encoding := _encoding(exchange.headers)):
            exchange.abort()
            raise UpstreamProtocolError(
                f"the upstream's response is compressed ({encoding}), although we asked for plain"
            )
        return exchange

    async def _dial(self, origin: Origin, seconds: float) -> Connection:
        proxy = self._proxy
        try:
            async with asyncio.timeout(seconds):
                needed = origin.tls or (proxy is not None and proxy.tls)
                connection = await dial(origin, await self._tls() if needed else None, proxy)
        except UpstreamConnect as error:
            error.connecting = True
            raise
        except TimeoutError:
            raise UpstreamTimeout(f"no connection to the upstream within {seconds:g} s", connecting=True) from None
        if connection.transport is None or connection.transport.is_closing():
            # Closed before its callbacks were set.
            raise UpstreamConnect("the upstream closed the connection before it responded")
        self._open.add(connection)
        connection.on_idle = partial(self._idle.put, origin)
        connection.on_lost = partial(self._forget, origin)
        return connection

    async def _tls(self) -> ssl.SSLContext:
        """Return the TLS context. Reading the system's roots takes 40 ms: it is done once, off the event loop."""
        if self._context is None:
            self._context = await asyncio.to_thread(self._make_context)
        return self._context

    def _forget(self, origin: Origin, connection: Connection) -> None:
        self._open.discard(connection)
        self._idle.drop(origin, connection)


def _was_closed(exchange: HttpExchange) -> bool:
    """Return True if the upstream had closed a pooled connection, so that it cannot have seen this request.

    Either it closed the connection while we wrote, the usual end of a keep-alive connection (RFC 9112 §9.3.1), or it
    sent a 408, which is about the silence before our request (RFC 9110 §15.5.9).
    """
    if exchange.status == TOO_SILENT:
        return any(name == "connection" and "close" in value.lower() for name, value in exchange.headers)
    return not exchange.touched and isinstance(exchange.error, UpstreamConnect)


def _encoding(headers: list[tuple[str, str]]) -> str:
    """Return the compression of a body, as one of our own words and not the upstream's text; "" if there is none."""
    value = next((value for name, value in headers if name == "content-encoding"), "").strip().lower()
    if value in ("", "identity"):
        return ""
    return value if value in ("gzip", "br", "zstd", "deflate") else "unknown"


_OURS = OF_CONNECTION | {"accept-encoding"}
"""Headers that the transport writes itself."""

_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_USER_AGENT = "trilogue"


def request_head(request: UpstreamRequest, origin: Origin, target: str, extra: HeaderPairs = ()) -> bytes:
    """Return the request line and headers, with the blank line. `extra` headers are our own and need no check.

    Raises InternalError for a value that could end a line early (header injection).
    """
    method, body = request.method, request.body
    lines = _lines(method, target, origin, request.headers, extra)
    length = len(body) if request.upload is None else request.upload.length
    if length is None:
        return lines + b"transfer-encoding: chunked\r\n\r\n"
    return lines + b"content-length: %d\r\n\r\n" % length if length or method != "GET" else lines + b"\r\n"


@lru_cache(256)
def _lines(
    method: str,
    target: str,
    origin: Origin,
    headers: HeaderPairs,
    extra: HeaderPairs,
) -> bytes:
    """Return all lines but the length of the body. Cached: a client sends the same headers with every request."""
    if not method.isalpha():
        raise InternalError("a request for an upstream has an illegal method")
    lines = [f"{method} {target} HTTP/1.1", f"host: {origin.host_header}", "accept-encoding: identity"]
    agent = True
    for name, value in headers:
        lower = _lower(name)
        if lower in _OURS:
            continue
        agent = agent and lower != "user-agent"
        if not value.isprintable() and not _VALUE.fullmatch(value):
            raise InternalError("a request for an upstream has an illegal header")
        lines.append(f"{name}: {value}")
    if agent:
        lines.append(f"user-agent: {_USER_AGENT}")
    lines += [f"{name}: {value}" for name, value in extra]
    lines.append("")
    return _latin("\r\n".join(lines))


@lru_cache(1024)
def _lower(name: str) -> str:
    """Return a legal header name in lower case. Cached: the same few names come with every request."""
    if not LEGAL_NAME.fullmatch(name):
        raise InternalError("a request for an upstream has an illegal header")
    return name.lower()


def _latin(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        # The text of the original error holds the header.
        raise InternalError("a request for an upstream has an illegal header") from None
