"""Opens connections to upstreams: name lookup, egress proxy, and TLS if the origin is https.

In: an origin, a proxy or None, a TLS context. Out: a `Connection` that is ready for a request, or `UpstreamConnect`. If
anything fails or the caller is cancelled, no socket stays open. Certificates are verified unless the configuration
turns that off. The module knows nothing of pooling and requests.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from contextlib import suppress
from copy import copy

from aiohappyeyeballs import AddrInfoType, start_connection

from trilogue.errors import InternalError
from trilogue.net.client.connection import Connection
from trilogue.net.client.failures import connect_failure
from trilogue.net.client.origin import Origin, Proxy
from trilogue.net.client.tunnel import Tunnel, open_tunnel

STAGGER = 0.25
"""Seconds before the next address is tried, the delay that RFC 8305 recommends."""


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Return a context that verifies certificates with the system's roots and those of a further file.

    OpenSSL reads SSL_CERT_FILE and SSL_CERT_DIR.
    """
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context


def unverified_context() -> ssl.SSLContext:
    """Return a context that accepts any certificate, for upstreams where the configuration asks for that."""
    context = tls_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def dial(origin: Origin, context: ssl.SSLContext | None, proxy: Proxy | None) -> Connection:
    """Return a new connection to the origin, ready for a request. Raise UpstreamConnect if there is none."""
    peer = proxy or origin
    if context is None and (origin.tls or peer.tls):
        raise InternalError("a TLS connection needs a TLS context")
    try:
        sock = await open_socket(peer.host, peer.port)
        if proxy is None:
            return await _direct(sock, origin, context)
        tunnel = await _to_proxy(sock, proxy, context)
    except OSError as error:
        raise connect_failure(error, proxy=proxy is not None) from error
    try:
        return await _through(tunnel, origin, proxy, context)
    except OSError as error:
        raise connect_failure(error, proxy=False) from error


async def _direct(sock: socket.socket, origin: Origin, context: ssl.SSLContext | None) -> Connection:
    loop = asyncio.get_running_loop()
    tls, name = (context, origin.host) if origin.tls else (None, None)
    with _closing_on_error(sock):
        _, connection = await loop.create_connection(Connection, sock=sock, ssl=tls, server_hostname=name)
    return connection


async def _to_proxy(sock: socket.socket, proxy: Proxy, context: ssl.SSLContext | None) -> Tunnel:
    loop = asyncio.get_running_loop()
    tls, name = (context, proxy.host) if proxy.tls else (None, None)
    with _closing_on_error(sock):
        _, tunnel = await loop.create_connection(Tunnel, sock=sock, ssl=tls, server_hostname=name)
    return tunnel


async def _through(tunnel: Tunnel, origin: Origin, proxy: Proxy, context: ssl.SSLContext | None) -> Connection:
    connection = Connection()
    try:
        if proxy.socks or origin.tls:
            await open_tunnel(tunnel, origin, proxy)
        await tunnel.hand_over(connection, context if origin.tls else None, origin.host)
    except BaseException:
        tunnel.abort()
        raise
    return connection


class _closing_on_error:
    """Closes a socket if an error means that no transport takes it over."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._sock.close()


async def open_socket(host: str, port: int) -> socket.socket:
    """Return a connected socket, or raise OSError.

    Addresses are tried STAGGER seconds apart, in alternating families, and the first that connects wins (RFC 8305): an
    IPv6 address that leads nowhere costs a quarter of a second.
    """
    sock = await start_connection(await resolve(host, port), happy_eyeballs_delay=STAGGER)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


_Outcome = list[AddrInfoType] | OSError
_under_way: dict[tuple[asyncio.AbstractEventLoop, str, int], asyncio.Future[_Outcome]] = {}


async def resolve(host: str, port: int) -> list[AddrInfoType]:
    """Return the addresses of a host as the system's resolver sorts them. Raise OSError if it has none.

    Every name is looked up in its own daemon thread, at most once at a time; an IP address needs no thread. The
    system's resolver cannot be cancelled and may take half a minute to give up. In asyncio's thread pool, fifty names
    whose server is down delay the fifty-first by minutes, and the end of the process too. uvloop's pool has four
    threads.
    """
    with suppress(OSError):
        return _look_up(host, port, socket.AI_NUMERICHOST)
    loop = asyncio.get_running_loop()
    key = (loop, host, port)
    if key not in _under_way:
        _under_way[key] = loop.create_future()
        threading.Thread(target=_run, args=key, name="trilogue-name", daemon=True).start()
    # Other callers may wait for the same lookup: it goes on if this one is cancelled.
    found = await asyncio.shield(_under_way[key])
    if isinstance(found, OSError):
        raise copy(found)  # a raised error holds its frames, and several callers get this one
    return found


def _run(loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
    try:
        found: _Outcome = _look_up(host, port)
    except OSError as error:
        found = error
    with suppress(RuntimeError):  # the loop is closed, and the process about to end
        loop.call_soon_threadsafe(_finish, (loop, host, port), found)


def _finish(key: tuple[asyncio.AbstractEventLoop, str, int], found: _Outcome) -> None:
    _under_way.pop(key).set_result(found)


def _look_up(host: str, port: int, flags: int = 0) -> list[AddrInfoType]:
    try:
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags))
    except UnicodeError:
        # A label of more than 63 characters, for example.
        raise socket.gaierror(socket.EAI_NONAME, "not a name") from None
