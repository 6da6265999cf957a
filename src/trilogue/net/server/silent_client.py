"""What the kernel knows about a client that sends nothing: whether it has gone, and whether it still reads.

In: the transport of a connection. Only Linux has this (`TCP_INFO`); elsewhere nothing is known. This module does not
know HTTP.
"""

from __future__ import annotations

import asyncio
import socket
import sys

_TCP_CLOSE = 7
"""the first byte of Linux's tcp_info after the peer has reset the connection"""
_ACKED = slice(120, 128)
"""where tcp_info has the number of bytes that the peer has acknowledged"""
HAS_TCP_INFO = hasattr(socket, "TCP_INFO")


class SilentClient:
    """A timer that aborts the connection of a client which reads nothing. A client that reads slowly is waited for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._acknowledged = 0
        """how many bytes the client had acknowledged when the timer was set"""

    def watch(self, transport: asyncio.Transport, seconds: float) -> None:
        """Abort the connection unless the client acknowledges some bytes within this many seconds, again and again."""
        if self._timer is None:
            self._acknowledged = acknowledged(transport)
            self._timer = self._loop.call_later(seconds, self._look, transport, seconds)

    def stop(self) -> None:
        """Stop the timer: the client has read enough, or has disconnected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, transport: asyncio.Transport, seconds: float) -> None:
        self._timer = None
        if acknowledged(transport) > self._acknowledged:
            self.watch(transport, seconds)
        else:
            transport.abort()


def has_reset(transport: asyncio.Transport) -> bool:
    """Return whether the client has reset the connection, which it does when it has closed and gets more data."""
    return _info(transport)[0] == _TCP_CLOSE


def acknowledged(transport: asyncio.Transport) -> int:
    """Return how many bytes the client has acknowledged; 0 where the system does not say."""
    try:
        return int.from_bytes(_info(transport)[_ACKED], sys.byteorder) if HAS_TCP_INFO else 0
    except OSError:
        # The connection is being closed.
        return 0


def _info(transport: asyncio.Transport) -> bytes:
    sock = transport.get_extra_info("socket")
    info: bytes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKED.stop)
    return info
