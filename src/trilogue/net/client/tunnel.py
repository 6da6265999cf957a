"""The handshake with an egress proxy: HTTP CONNECT or SOCKS5 (RFC 1928, 1929).

In: a connection to the proxy, and the origin that it should lead to. Out: the same connection as a `Connection` to the
origin, or `UpstreamConnect`, which says whether the proxy or the origin is at fault. Credentials are in no error text.
docs/dependencies.md says why this is not a library.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from typing import cast

from trilogue.errors import UpstreamConnect
from trilogue.net.client.connection import Connection
from trilogue.net.client.origin import Origin, Proxy

_MAX_REPLY_BYTES = 16 * 1024

_SOCKS_REPLIES = {
    1: ("the egress proxy failed", True),
    2: ("the egress proxy does not allow this upstream", True),
    3: ("the network of the upstream cannot be reached", False),
    4: ("the upstream cannot be reached", False),
    5: ("the upstream refused the connection", False),
    6: ("the upstream cannot be reached", False),
}
"""RFC 1928 §6: the reason, and whether the proxy is at fault."""
_SOCKS_ADDRESS_BYTES = {1: 4, 4: 16}


class Tunnel(asyncio.Protocol):
    """A connection to a proxy during the handshake, read by length or up to a blank line."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport (called by asyncio)."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Buffer bytes for the handshake (called by asyncio)."""
        self._buffer += data
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let a waiting reader fail (called by asyncio)."""
        self._lost = True
        self._wake()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def write(self, data: bytes) -> None:
        """Send bytes to the proxy."""
        if self._transport is not None:
            self._transport.write(data)

    async def exactly(self, count: int) -> bytes:
        """Return the next bytes. Raise UpstreamConnect if the proxy closes the connection first."""
        while len(self._buffer) < count:
            await self._more()
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    async def head(self) -> bytes:
        """Return an HTTP head with its blank line. Raise UpstreamConnect if there is none."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > _MAX_REPLY_BYTES:
                raise _proxy_fault("the egress proxy's response is not HTTP")
            await self._more()
        return await self.exactly(end + 4)

    async def hand_over(self, connection: Connection, context: ssl.SSLContext | None, name: str) -> None:
        """Make this connection one to the origin, with TLS if there is a context."""
        transport = self._transport
        if transport is None or self._lost or self._buffer:
            raise _proxy_fault("the egress proxy did not keep the tunnel open")
        if context is not None:
            loop = asyncio.get_running_loop()
            transport = await loop.start_tls(transport, connection, context, server_hostname=name)
        else:
            transport.set_protocol(connection)
        if transport is None:
            raise _proxy_fault("the egress proxy did not keep the tunnel open")
        connection.connection_made(transport)

    async def _more(self) -> None:
        if self._lost:
            raise _proxy_fault("the egress proxy closed the connection")
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def open_tunnel(tunnel: Tunnel, origin: Origin, proxy: Proxy) -> None:
    """Ask the proxy for a connection to the origin, by name: the proxy resolves it, for `socks5` too."""
    await (_socks if proxy.socks else _connect)(tunnel, origin, proxy)


def proxy_authorization(proxy: Proxy) -> list[tuple[str, str]]:
    """Return the header with the credentials for an HTTP proxy, if there are any."""
    if not proxy.user:
        return []
    token = b64encode(f"{proxy.user}:{proxy.password}".encode()).decode("ascii")
    return [("proxy-authorization", f"Basic {token}")]


async def _connect(tunnel: Tunnel, origin: Origin, proxy: Proxy) -> None:
    lines = [f"CONNECT {origin.authority} HTTP/1.1", f"host: {origin.authority}"]
    lines += [f"{name}: {value}" for name, value in proxy_authorization(proxy)]
    tunnel.write("\r\n".join([*lines, "\r\n"]).encode("latin-1"))
    words = (await tunnel.head()).split(None, 2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    if not 200 <= status < 300:
        # With 5xx a proxy says that it could not reach the origin.
        raise UpstreamConnect(f"the egress proxy responded with status {status}", proxy=not 500 <= status < 600)


async def _socks(tunnel: Tunnel, origin: Origin, proxy: Proxy) -> None:
    # Offer one method only. Proxies pick the way out by the user (Tor: the circuit). A proxy that is also offered "no
    # login" may take that, and accounts that should be separate share a way out.
    method = b"\x02" if proxy.user else b"\x00"
    tunnel.write(b"\x05\x01" + method)
    if await tunnel.exactly(2) != b"\x05" + method:
        raise _proxy_fault("the egress proxy supports none of our login methods")
    if proxy.user:
        tunnel.write(b"\x01" + _short(proxy.user) + _short(proxy.password))
        if (await tunnel.exactly(2))[1]:
            raise _proxy_fault("the egress proxy rejected the login")
    tunnel.write(b"\x05\x01\x00\x03" + _short(origin.host) + origin.port.to_bytes(2, "big"))
    _, reply, _, kind = await tunnel.exactly(4)
    if reply:
        message, at_fault = _SOCKS_REPLIES.get(reply, (f"the egress proxy responded with code {reply}", True))
        raise UpstreamConnect(message, proxy=at_fault)
    length = _SOCKS_ADDRESS_BYTES.get(kind) or (await tunnel.exactly(1))[0]
    await tunnel.exactly(length + 2)


def _short(text: str) -> bytes:
    data = text.encode()
    if len(data) > 255:
        raise _proxy_fault("a name or password is too long for SOCKS")
    return bytes([len(data)]) + data


def _proxy_fault(message: str) -> UpstreamConnect:
    return UpstreamConnect(message, proxy=True)
