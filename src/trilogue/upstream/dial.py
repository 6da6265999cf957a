"""Opens connections: names to addresses, addresses to sockets, through a proxy if there is one, with TLS if asked.

Addresses are tried a moment apart and the first that answers wins (RFC 8305), so that one dead address family costs
little. Certificates are verified unless told not to. Whatever goes wrong, or if the caller is cancelled, no socket
stays behind.

Names to addresses. The system's resolver can only be waited for, and may take half a minute to give up.

Each name is looked up in a thread of its own, once at a time, whoever asks: a name server that does not answer holds up
nobody who wants another name, and no shutdown. An address needs no name server, and no thread.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from contextlib import suppress
from copy import copy
from itertools import chain, zip_longest

from trilogue.errors import InternalError
from trilogue.upstream.connection import Connection
from trilogue.upstream.failures import connect_failure
from trilogue.upstream.origin import Origin, Proxy
from trilogue.upstream.tunnel import Tunnel, open_tunnel

Address = tuple[int, int, int, tuple[object, ...]]
"""family, kind, protocol and socket address, as `getaddrinfo` gives them"""
Outcome = list[Address] | OSError

_under_way: dict[tuple[asyncio.AbstractEventLoop, str, int], asyncio.Future[Outcome]] = {}


async def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host, the preferred one first. Raises OSError."""
    with suppress(OSError):
        return _look_up(host, port, socket.AI_NUMERICHOST)
    loop = asyncio.get_running_loop()
    key = (loop, host, port)
    if key not in _under_way:
        _under_way[key] = loop.create_future()
        threading.Thread(target=_run, args=key, name="trilogue-name", daemon=True).start()
    # Whoever has waited long enough leaves the others to it.
    found = await asyncio.shield(_under_way[key])
    if isinstance(found, OSError):
        raise copy(found)  # what is raised holds its frames, and others wait for the same
    return found


def _run(loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
    try:
        found: Outcome = _look_up(host, port)
    except OSError as error:
        found = error
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_tell, (loop, host, port), found)


def _tell(key: tuple[asyncio.AbstractEventLoop, str, int], found: Outcome) -> None:
    _under_way.pop(key).set_result(found)


def _look_up(host: str, port: int, flags: int = 0) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "not a name") from None
    return [(family, kind, proto, address) for family, kind, proto, _, address in found]


STAGGER = 0.25
"""Seconds before the next address gets its try, the delay that RFC 8305 recommends."""


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """The system's roots (SSL_CERT_FILE and SSL_CERT_DIR are honoured) and those of a further file, verification on."""
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context


def unverified_context() -> ssl.SSLContext:
    """For an upstream whose certificate nobody can vouch for, and only because the configuration says so."""
    context = tls_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def dial(origin: Origin, context: ssl.SSLContext | None, proxy: Proxy | None) -> Connection:
    """A fresh connection to the origin, ready for a request. Raises UpstreamConnect."""
    peer = proxy or origin
    if context is None and (origin.tls or peer.tls):
        raise InternalError("TLS is asked for, and there is no context for it")
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
    """Closes a socket that no transport has taken over."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._sock.close()


async def open_socket(host: str, port: int) -> socket.socket:
    """A connected socket. Raises OSError of the first address that failed."""
    addresses = _interleave(await resolve(host, port))
    if len(addresses) == 1:
        return await _attempt(addresses[0])
    attempts: set[asyncio.Task[socket.socket]] = set()
    failures: list[OSError] = []
    try:
        for address in addresses:
            attempts.add(asyncio.create_task(_attempt(address)))
            if winner := await _first(attempts, failures, STAGGER):
                return winner
        while attempts:
            if winner := await _first(attempts, failures, None):
                return winner
    finally:
        await _discard(attempts)
    raise failures[0]


def _interleave(addresses: list[Address]) -> list[Address]:
    """Alternate the families, the preferred one first."""
    first = [address for address in addresses if address[0] == addresses[0][0]]
    other = [address for address in addresses if address[0] != addresses[0][0]]
    return [address for address in chain.from_iterable(zip_longest(first, other)) if address is not None]


async def _attempt(address: Address) -> socket.socket:
    family, kind, proto, where = address
    sock = socket.socket(family, kind, proto)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock


async def _first(
    attempts: set[asyncio.Task[socket.socket]], failures: list[OSError], patience: float | None
) -> socket.socket | None:
    """The socket of an attempt that has succeeded by then. Failed ones leave the set for the list."""
    done, _ = await asyncio.wait(attempts, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
    for attempt in done:
        error = attempt.exception()
        if error is None:
            attempts.discard(attempt)
            return attempt.result()
        if not isinstance(error, OSError):
            raise error
        attempts.discard(attempt)
        failures.append(error)
    return None


async def _discard(attempts: set[asyncio.Task[socket.socket]]) -> None:
    """Give up the attempts that lost."""
    for attempt in attempts:
        attempt.cancel()
    for outcome in await asyncio.gather(*attempts, return_exceptions=True):
        if isinstance(outcome, socket.socket):
            outcome.close()
