"""A WebSocket client that writes frames byte by byte, so that it can also break the rules."""

from __future__ import annotations

import asyncio
import os
import struct
from typing import NamedTuple

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPTED = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
"""the example of RFC 6455"""
OFFER = f"upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: {KEY}\r\n"

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


class Frame(NamedTuple):
    """A frame of the server."""

    opcode: int
    data: bytes
    fin: bool = True

    @property
    def code(self) -> int:
        """The code of a close frame."""
        return int.from_bytes(self.data[:2], "big")


def frame(opcode: int, data: bytes = b"", *, fin: bool = True, masked: bool = True, reserved: int = 0) -> bytes:
    """Return a frame as a client sends it."""
    first = (0x80 if fin else 0) | reserved | opcode
    size = len(data)
    mask_bit = 0x80 if masked else 0
    if size < 126:
        head = struct.pack("!BB", first, mask_bit | size)
    elif size < 65536:
        head = struct.pack("!BBH", first, mask_bit | 126, size)
    else:
        head = struct.pack("!BBQ", first, mask_bit | 127, size)
    if not masked:
        return head + data
    mask = os.urandom(4)
    repeated = (mask * (size // 4 + 1))[:size]
    hidden = int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")
    return head + mask + hidden.to_bytes(size, "big")


def request(path: str = "/", headers: str = OFFER, method: str = "GET") -> bytes:
    """Return a request for a WebSocket."""
    return f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n".encode()


class RawClient:
    """A connection after its request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def head(self) -> str:
        """Return the head of the server's response."""
        return (await self.reader.readuntil(b"\r\n\r\n")).decode()

    def send(self, opcode: int, data: bytes = b"", *, fin: bool = True) -> None:
        """Send a frame."""
        self.writer.write(frame(opcode, data, fin=fin))

    async def receive(self) -> Frame:
        """Return the next frame, whatever it is. Raises IncompleteReadError at the end of the connection."""
        first, size = struct.unpack("!BB", await self.reader.readexactly(2))
        assert not size & 0x80, "a server must not mask"
        if size == 126:
            (size,) = struct.unpack("!H", await self.reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await self.reader.readexactly(8))
        return Frame(first & 0x0F, await self.reader.readexactly(size), bool(first & 0x80))

    async def message(self) -> bytes:
        """Return the next text message, and ignore pings."""
        while True:
            received = await self.receive()
            if received.opcode not in (PING, PONG):
                assert (received.opcode, received.fin) == (TEXT, True), received
                return received.data

    async def closed(self) -> Frame:
        """Return the close frame, and ignore what comes before it."""
        while (received := await self.receive()).opcode != CLOSE:
            pass
        return received


async def connected(host: str, port: int, data: bytes) -> RawClient:
    """Return a connection on which this was sent."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(data)
    return RawClient(reader, writer)
