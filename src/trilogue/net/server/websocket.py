"""One client connection after its upgrade to a WebSocket: text messages in and out.

In: the bytes of the socket, parsed by the sans-IO part of `websockets`, which loads with the first connection. Out:
messages for a `MessageHandler`, each complete and within the limit. Compression is not offered: what it saves on
small events does not pay for a window of memory per connection. This module does not know what messages mean.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha1
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from trilogue.net.event_loop import take_portions
from trilogue.net.server.request import Head, Problem
from trilogue.net.server.silent_client import HAS_TCP_INFO, SilentClient, acknowledged

if TYPE_CHECKING:
    from websockets.frames import Frame
    from websockets.protocol import Protocol as Framing

CLOSE_SECONDS = 5.0
"""how long a client may take to end the connection after either side has asked for it"""
DEAD_SECONDS = 60.0
"""How long a client's system may acknowledge nothing. Pongs are not required: many clients only read while they wait
for a response."""
PORTION = 2 * 1024
"""bytes of a client that are parsed before other connections have their turn: frames can be as small as six bytes"""
WRITE_SECONDS = 120.0
"""how long a client may read nothing of what it was sent"""

NORMAL, GOING_AWAY, INVALID_DATA, POLICY_VIOLATION = 1000, 1001, 1007, 1008
INTERNAL_ERROR, SERVICE_RESTART = 1011, 1012

VERSION = "13"
_KEY_BYTES = 16
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
BAD_KEY: Problem = (400, "sec-websocket-key must be 16 bytes in Base64", "bad_websocket")
BAD_VERSION: Problem = (426, f"only version {VERSION} of WebSocket is supported", "upgrade_required")

_SILENT = logging.Logger("trilogue.websocket", logging.CRITICAL + 1)
"""The library would log messages, which contain prompts."""


class SocketLimits(Struct, frozen=True):
    """The largest message that is accepted, and how often the client is pinged."""

    max_bytes: int
    ping_seconds: float


class MessageHandler(Protocol):
    """What the application does with a connection."""

    def received(self, message: bytes, *, text: bool) -> None:
        """Take a complete message. `text`: it is a text message and valid UTF-8."""

    def writable(self) -> None:
        """Go on after the client was too slow."""

    def leave(self) -> None:
        """Close the connection as soon as nothing is running: the gateway drains."""

    def lost(self) -> None:
        """End everything: the client has disconnected."""


class MessageSocket(Protocol):
    """A connection that carries text messages, as the application sees it. `WebSocket` is one."""

    handler: MessageHandler
    keep_alive: bool
    paused: bool
    """whether the client does not read what was sent"""
    on_flow: Callable[[bool], None]
    """called with the new value whenever `paused` changes"""

    @property
    def peer(self) -> str:
        """The address that the client connects from; "" if it is not known."""
        ...

    def put(self, data: bytes) -> None: ...
    def put_all(self, messages: Iterable[bytes]) -> None: ...
    async def drained(self) -> None: ...
    def response_ended(self) -> None: ...
    def close(self, code: int, reason: str = "") -> None: ...


Upgrade = Callable[[SocketLimits], MessageSocket]
"""sends the response that accepts an upgrade, and returns the connection, which needs a handler at once"""


def offers_websocket(head: Head) -> bool:
    """Return whether a request asks for a WebSocket."""
    return head.method == "GET" and head.headers.get("upgrade", "").strip().lower() == "websocket"


def handshake_problem(headers: dict[str, str]) -> Problem | None:
    """Return what is wrong with a request for a WebSocket, or None."""
    if headers.get("sec-websocket-version", "").strip() != VERSION:
        return BAD_VERSION
    try:
        key = base64.b64decode(headers.get("sec-websocket-key", "").strip(), validate=True)
    except (binascii.Error, ValueError):
        return BAD_KEY
    return None if len(key) == _KEY_BYTES else BAD_KEY


def accepting_headers(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """Return the headers that accept the upgrade of a request with these headers."""
    key = headers.get("sec-websocket-key", "").strip().encode("latin-1")
    accepted = base64.b64encode(sha1(key + _GUID, usedforsecurity=False).digest())
    return [(b"upgrade", b"websocket"), (b"connection", b"Upgrade"), (b"sec-websocket-accept", accepted)]


class WebSocket(asyncio.Protocol):
    """One connection. It is in `connections` while it is open."""

    peer = ""
    handler: MessageHandler
    """set before the first message can arrive"""

    def __init__(
        self,
        transport: asyncio.Transport,
        connections: set[Any],
        limits: SocketLimits,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._transport = transport
        self._connections = connections
        self._limits = limits
        self._loop = loop
        library = _library()
        self._framing: Framing = library.Protocol(library.SERVER, max_size=limits.max_bytes, logger=_SILENT)
        self._open = library.State.OPEN
        self._parts = bytearray()
        """the fragments of a message that is not complete"""
        self._is_text = True
        self._rest = b""
        """what was read and is parsed when other connections have had their turn"""
        self._patience = SilentClient(loop)
        self._drain_waiter: asyncio.Future[None] | None = None
        self._closer: asyncio.TimerHandle | None = None
        self._acknowledged = acknowledged(transport)
        self._silent_seconds = 0.0
        self._pinger = loop.call_later(limits.ping_seconds, self._ping)
        self.keep_alive = True
        self.paused = False
        self.on_flow: Callable[[bool], None] = _ignore
        connections.add(self)

    @property
    def is_open(self) -> bool:
        """Whether messages can still be sent."""
        return self._framing.state is self._open and not self._transport.is_closing()

    def begin(self, response: bytes, early: bytes, *, paused: bool, leaving: bool) -> None:
        """Take the connection over. `early`: what the client has already sent. `leaving`: the gateway drains."""
        self._transport.set_protocol(self)
        if paused:
            self.pause_writing()
        self._transport.write(response)
        if early:
            self._loop.call_soon(self.data_received, early)
        if leaving:
            self._loop.call_soon(self.shut)

    # --- asyncio ---

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, and let the application know."""
        self._connections.discard(self)
        self._pinger.cancel()
        if self._closer is not None:
            self._closer.cancel()
        self._patience.stop()
        # Wake up what waits for the client, but do not let the upstream send more for it.
        self.on_flow = _ignore
        self._resume()
        self.handler.lost()

    def data_received(self, data: bytes) -> None:
        """Parse bytes of the client."""
        if len(data) > PORTION:
            self._take_portions(data)
            return
        framing = self._framing
        framing.receive_data(data)
        for event in framing.events_received():
            self._take(event)
        self._flush(reply=True)
        if not self.is_open:
            self._end()

    def _take_portions(self, data: bytes) -> None:
        """Parse a part of many bytes, and the rest when other connections have had their turn."""
        self._rest = take_portions(data, self.data_received, self._goes_on, PORTION)
        if not self._transport.is_closing():
            self._transport.pause_reading()
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        rest, self._rest = self._rest, b""
        if not self._transport.is_closing():
            self._transport.resume_reading()
            if rest:
                self.data_received(rest)

    def _goes_on(self) -> bool:
        return not self._transport.is_closing()

    def eof_received(self) -> bool | None:
        """Close: a client that ends its side without a closing handshake has disconnected."""
        return None

    def pause_writing(self) -> None:
        """Note that the client does not read what it was sent."""
        self.paused = True
        self._patience.watch(self._transport, WRITE_SECONDS)
        self.on_flow(True)

    def resume_writing(self) -> None:
        """Continue after the client has read enough."""
        if not self.paused:
            return
        if not self._transport.is_closing():
            self._patience.stop()
        self._resume()
        self.on_flow(False)
        self.handler.writable()

    # --- messages ---

    def put(self, data: bytes) -> None:
        """Send a text message, if the connection is open. Callers that send much must check `paused`."""
        self.put_all((data,))

    def put_all(self, messages: Iterable[bytes]) -> None:
        """Send text messages with one write. Does nothing once the connection is closed."""
        if not self.is_open:
            return
        for message in messages:
            self._framing.send_text(message)
        self._flush()

    async def drained(self) -> None:
        """Wait until the client has read enough of what it was sent, or has disconnected."""
        while self.paused:
            self._drain_waiter = self._loop.create_future()
            await self._drain_waiter

    def response_ended(self) -> None:
        """Go on after a complete response: the connection stays open."""
        self.on_flow = _ignore

    # --- the end ---

    def close(self, code: int, reason: str = "") -> None:
        """Start the closing handshake. Messages of the client are ignored from now on."""
        if self.is_open:
            self._framing.send_close(code, reason)
            self._flush()
            self._end()

    def shut(self, *, at_once: bool = False) -> None:
        """Let the application close the connection, because the gateway drains. It never waits for another request."""
        self.handler.leave()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def _end(self) -> None:
        """Give the client a moment to close its side. If ours closed first, it might not read why."""
        self._pinger.cancel()
        if self._closer is None:
            self._wait_for_end()
            self.on_flow = _ignore
            self.handler.lost()

    def _wait_for_end(self) -> None:
        """Abort after a while, but not as long as the client still reads what it was sent before the end."""
        known = self._acknowledged
        self._acknowledged = acknowledged(self._transport)
        if self._closer is not None and not (
            self._transport.get_write_buffer_size() and self._acknowledged > known and HAS_TCP_INFO
        ):
            self._transport.abort()
            return
        self._closer = self._loop.call_later(CLOSE_SECONDS, self._wait_for_end)

    # --- frames ---

    def _take(self, event: Any) -> None:
        """Take a frame; control frames are handled by the library."""
        frame: Frame = event
        opcode = frame.opcode
        if opcode >= _library().CLOSE or not self.is_open:
            return
        if opcode:
            self._is_text = opcode == _library().TEXT
            if frame.fin:
                self._deliver(bytes(frame.data))
                return
        self._parts += frame.data
        if frame.fin:
            message, self._parts = bytes(self._parts), bytearray()
            self._deliver(message)

    def _deliver(self, message: bytes) -> None:
        if self._is_text and not _is_utf8(message):
            self._framing.fail(INVALID_DATA, "the message is not valid UTF-8")
        else:
            self.handler.received(message, text=self._is_text)

    def _flush(self, *, reply: bool = False) -> None:
        """Write what the library has to send. `reply`: it is about frames of the client."""
        out = self._framing.data_to_send()
        if not out or self._transport.is_closing():
            return
        if reply and self.paused and self.is_open:
            # Only pongs: they must not pile up for a client that does not read.
            return
        self._transport.write(b"".join(out))
        if not out[-1] and self._transport.can_write_eof():
            self._transport.write_eof()

    def _ping(self) -> None:
        """Keep the connection open in proxies, and find out whether the client's machine is still there."""
        seconds = self._limits.ping_seconds
        self._pinger = self._loop.call_later(seconds, self._ping)
        if self.paused or not self.is_open:
            return
        known, self._acknowledged = self._acknowledged, acknowledged(self._transport)
        self._silent_seconds = self._silent_seconds + seconds if known == self._acknowledged else 0.0
        if HAS_TCP_INFO and self._silent_seconds > DEAD_SECONDS:
            self._transport.abort()
            return
        self._framing.send_ping(b"")
        self._flush()

    def _resume(self) -> None:
        self.paused = False
        if self._drain_waiter is not None and not self._drain_waiter.done():
            self._drain_waiter.set_result(None)


class _Library(Struct, frozen=True):
    """The names of the library that are used."""

    Protocol: Any
    SERVER: Any
    State: Any
    TEXT: int
    CLOSE: int


@cache
def _library() -> _Library:
    protocol, frames = import_module("websockets.protocol"), import_module("websockets.frames")
    opcode = frames.Opcode
    return _Library(protocol.Protocol, protocol.SERVER, protocol.State, opcode.TEXT, opcode.CLOSE)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _ignore(_: bool) -> None:
    """Ignore whether the client is slow."""
