"""What the system knows of a silent client: whether it has gone, and whether it still takes what it was sent."""

from __future__ import annotations

import asyncio
import socket
import sys

_TCP_CLOSE = 7
"""the first byte of Linux's tcp_info when the peer has reset the connection"""
_ACKED = slice(120, 128)
"""where it has the number of bytes that the peer has confirmed"""
TOLD = hasattr(socket, "TCP_INFO")
"""whether the system tells"""


class SilentClient:
    """Gives up a client that takes nothing of what it was sent; one that reads slowly is waited for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._taken = 0
        """what it had taken when the timer was set"""

    def watch(self, transport: asyncio.Transport, seconds: float) -> None:
        """It may take nothing for so long."""
        if self._timer is None:
            self._taken = _taken(transport)
            self._timer = self._loop.call_later(seconds, self._look, transport, seconds)

    def stop(self) -> None:
        """It has taken enough, or has gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, transport: asyncio.Transport, seconds: float) -> None:
        self._timer = None
        if _taken(transport) > self._taken:
            self.watch(transport, seconds)
        else:
            transport.abort()


def has_reset(transport: asyncio.Transport) -> bool:
    """The client has answered something with a reset: it is not there any more."""
    return _info(transport)[0] == _TCP_CLOSE


def _taken(transport: asyncio.Transport) -> int:
    """The bytes that the client's side has confirmed; none where the system does not tell."""
    try:
        return int.from_bytes(_info(transport)[_ACKED], sys.byteorder) if TOLD else 0
    except OSError:  # it is being closed
        return 0


def _info(transport: asyncio.Transport) -> bytes:
    sock = transport.get_extra_info("socket")
    info: bytes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKED.stop)
    return info
