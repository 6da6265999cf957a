"""WebSocket connections over sockets, without the gateway: frames, limits, slow readers, the end of a connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
import uvloop

from tests.serving.raw_websocket import (
    ACCEPTED,
    BINARY,
    CLOSE,
    CONTINUATION,
    OFFER,
    PING,
    PONG,
    TEXT,
    Frame,
    RawClient,
    connected,
    frame,
    request,
)
from tests.serving.test_serving import refusal
from tests.timing import eventually_async, pause_for, settled, turns
from trilogue.net.server import connection, websocket
from trilogue.net.server.listener import Listener
from trilogue.net.server.request import Head, HttpRequest
from trilogue.net.server.responder import Responder
from trilogue.net.server.websocket import SocketLimits, WebSocket, handshake_problem, offers_websocket

MAX_BYTES = 100_000
Loop = Callable[[], asyncio.AbstractEventLoop]
LOOPS: list[Loop] = [asyncio.new_event_loop, uvloop.new_event_loop]
Client = Callable[[RawClient, "Server"], Awaitable[None]]


class Echo:
    """Sends every message back, and notes what happens."""

    def __init__(self, socket: WebSocket, server: Server) -> None:
        self.socket = socket
        self.server = server

    def received(self, message: bytes, *, text: bool) -> None:
        self.server.received.append((message, text))
        self.socket.put(b"%d:%b" % (len(message), message[:20]))

    def writable(self) -> None:
        self.server.notes.append("writable")

    def leave(self) -> None:
        self.server.notes.append("leave")
        self.socket.close(1012, "restart")

    def lost(self) -> None:
        self.server.notes.append("lost")


class Server:
    """A listener whose application accepts every WebSocket."""

    def __init__(self, ping_seconds: float = 60.0) -> None:
        self.listener = Listener(self.app, refusal)
        self.ping_seconds = ping_seconds
        self.received: list[tuple[bytes, bool]] = []
        self.notes: list[str] = []
        self.sockets: list[WebSocket] = []
        self.address = ("", 0)

    async def app(self, request: HttpRequest, responder: Responder) -> None:
        if responder.upgrade is None or request.path == "/declined":
            responder.reply(401, [], b"no")
            return
        await pause_for(0.01 if request.path == "/slow" else 0)
        socket = responder.upgrade(SocketLimits(MAX_BYTES, self.ping_seconds))
        assert isinstance(socket, WebSocket)
        socket.handler = Echo(socket, self)
        self.sockets.append(socket)


def talk(
    client: Client,
    opening: bytes = b"",
    *,
    loop: Loop = LOOPS[0],
    ping: float = 60.0,
) -> Server:
    """Run a client against a server. The client has read the response to its request."""
    server = Server(ping)

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            await server.listener.open(sock)
            server.address = sock.getsockname()
            raw = await connected(*server.address, opening or request())
            async with asyncio.timeout(10):
                if not opening:
                    assert "101 Switching Protocols" in await raw.head()
                await client(raw, server)
            raw.writer.close()
            await eventually_async(lambda: not server.listener._connections)
            await server.listener.drain(1)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
    return server


@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
def test_handshake_and_messages(loop: Loop) -> None:
    async def client(raw: RawClient, server: Server) -> None:
        head = await raw.head()
        assert head.startswith("HTTP/1.1 101 Switching Protocols\r\n")
        assert f"sec-websocket-accept: {ACCEPTED}\r\n" in head
        assert "connection: Upgrade\r\n" in head
        assert "extensions" not in head
        for size in (0, 1, 125, 126, 65535, 65536, MAX_BYTES):
            raw.send(TEXT, b"x" * size)
            assert await raw.message() == b"%d:%b" % (size, b"x" * min(size, 20))
        raw.send(CLOSE, (1000).to_bytes(2, "big"))
        assert (await raw.receive()).code == 1000
        assert await raw.reader.read() == b""

    # permessage-deflate is offered by many clients, and not taken up.
    offer = request(headers=OFFER + "sec-websocket-extensions: permessage-deflate\r\n")
    server = talk(client, offer, loop=loop)
    assert [len(message) for message, _ in server.received] == [0, 1, 125, 126, 65535, 65536, MAX_BYTES]
    assert set(server.notes) == {"lost"}


def test_bytes_may_be_split_anywhere() -> None:
    """Also inside a frame's head, and a frame may come right after the request."""
    early = frame(TEXT, b"early")

    async def client(raw: RawClient, server: Server) -> None:
        assert "101" in await raw.head()
        assert await raw.message() == b"5:early"
        for byte in frame(TEXT, b"hello" * 30):
            raw.writer.write(bytes([byte]))
            await raw.writer.drain()
            await turns()
        assert (await raw.message()).startswith(b"150:hello")

    talk(client, request("/slow") + early)


def test_fragments() -> None:
    """Control frames may come between the fragments of a message, and a fragment may be empty."""

    async def client(raw: RawClient, server: Server) -> None:
        raw.send(TEXT, "naï".encode()[:3], fin=False)
        raw.send(CONTINUATION, fin=False)
        raw.send(PING, b"between")
        raw.send(CONTINUATION, "naï".encode()[3:] + b"ve", fin=True)
        assert await raw.receive() == Frame(PONG, b"between")
        assert await raw.message() == b"6:" + "naïve".encode()
        raw.send(BINARY, b"\xff", fin=False)
        raw.send(CONTINUATION, b"\xfe")
        assert (await raw.message()).startswith(b"2:")

    assert talk(client).received == [("naïve".encode(), True), (b"\xff\xfe", False)]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(TEXT, b"hello", masked=False), 1002),
        (frame(TEXT, b"hello", reserved=0x40), 1002),
        (frame(3, b"hello"), 1002),
        (frame(CONTINUATION, b"hello"), 1002),
        (frame(TEXT, b"a", fin=False) + frame(TEXT, b"b"), 1002),
        (frame(PING, b"x" * 126), 1002),
        (frame(PING, b"x", fin=False), 1002),
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(TEXT, b"x" * (MAX_BYTES + 1)), 1009),
        (frame(TEXT, b"x" * MAX_BYTES, fin=False) + frame(CONTINUATION, b"x"), 1009),
    ],
    ids=[
        "unmasked",
        "compressed",
        "opcode",
        "no-start",
        "nested",
        "long-ping",
        "split-ping",
        "utf-8",
        "large",
        "large-in-parts",
    ],
)
def test_broken_rules(data: bytes, code: int) -> None:
    """The client gets the close code that says why, also if it goes on sending."""

    async def client(raw: RawClient, server: Server) -> None:
        raw.writer.write(data + frame(TEXT, b"more") * 10)
        assert (await raw.closed()).code == code
        assert server.received == []

    assert set(talk(client).notes) == {"lost"}


def test_a_huge_frame_is_refused_by_its_head() -> None:
    """Nothing is buffered for a frame that is too large."""

    async def client(raw: RawClient, server: Server) -> None:
        raw.writer.write(frame(TEXT, b"x" * 70_000)[:2] + (1 << 62).to_bytes(8, "big"))
        assert (await raw.closed()).code == 1009

    talk(client)


def test_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle clients are pinged. They need not answer, because many only read while they wait for a response."""
    monkeypatch.setattr(websocket, "DEAD_SECONDS", 0.1)

    async def client(raw: RawClient, server: Server) -> None:
        for _ in range(8):
            assert await raw.receive() == Frame(PING, b"")
        raw.send(TEXT, b"alive")
        assert await raw.message() == b"5:alive"

    talk(client, ping=0.05)


def test_a_machine_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose system acknowledges nothing is given up."""
    monkeypatch.setattr(websocket, "DEAD_SECONDS", 0.1)
    monkeypatch.setattr(websocket, "acknowledged", lambda _: 1)

    async def client(raw: RawClient, server: Server) -> None:
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await raw.closed()
        assert server.notes == ["lost"]

    talk(client, ping=0.02)


def test_declined() -> None:
    """The application may respond with an error instead; the connection is good for the next request."""

    async def client(raw: RawClient, server: Server) -> None:
        assert "401" in (await raw.head()).partition("\r\n")[0]
        assert await raw.reader.readexactly(2) == b"no"
        raw.writer.write(request())
        assert "101" in await raw.head()
        raw.send(TEXT, b"hello")
        assert await raw.message() == b"5:hello"

    talk(client, request("/declined"))


def test_no_timer_of_earlier_requests_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.1)

    async def client(raw: RawClient, server: Server) -> None:
        await raw.head()
        await raw.reader.readexactly(2)
        raw.writer.write(request())
        assert "101" in await raw.head()
        await pause_for(0.3)
        raw.send(TEXT, b"hello")
        assert await raw.message() == b"5:hello"

    talk(client, b"GET /declined HTTP/1.1\r\nhost: a\r\n\r\n")


def test_drain_waits_for_the_application() -> None:
    async def client(raw: RawClient, server: Server) -> None:
        draining = asyncio.create_task(server.listener.drain(5))
        assert (await raw.closed()).code == 1012
        raw.send(CLOSE, (1012).to_bytes(2, "big"))
        assert await raw.reader.read() == b""
        raw.writer.close()
        async with asyncio.timeout(2):
            await draining

    assert talk(client).notes[0] == "leave"


def test_a_client_that_does_not_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """The closing handshake has a time limit, and messages after it do not count."""
    monkeypatch.setattr(websocket, "CLOSE_SECONDS", 0.1)

    async def client(raw: RawClient, server: Server) -> None:
        server.sockets[0].close(1000)
        assert (await raw.closed()).code == 1000
        raw.send(TEXT, b"late")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await raw.receive()
        assert server.received == []

    talk(client)


@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
def test_slow_readers(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not read is noticed, its pings are not answered meanwhile, and in the end it is cut off."""
    flows: list[bool] = []
    monkeypatch.setattr(websocket, "WRITE_SECONDS", 0.4)

    async def client(raw: RawClient, server: Server) -> None:
        socket = server.sockets[0]
        socket.on_flow = flows.append
        cast(asyncio.Transport, raw.writer.transport).pause_reading()
        while not socket.paused:
            socket.put(b"x" * 100_000)
            await turns()
        assert flows == [True]
        buffered = socket._transport.get_write_buffer_size()
        for _ in range(500):
            raw.send(PING, b"x" * 100)
        assert await settled(socket._transport.get_write_buffer_size) <= buffered
        await eventually_async(lambda: socket not in server.listener._connections)
        await socket.drained()
        raw.writer.transport.abort()

    assert talk(client, loop=loop).notes == ["lost"]
    assert flows == [True]


def test_a_slow_reader_that_catches_up() -> None:
    async def client(raw: RawClient, server: Server) -> None:
        socket, count = server.sockets[0], 0
        while not socket.paused:
            socket.put(b"x" * 100_000)
            count += 1
        for _ in range(count):
            assert len(await raw.message()) == 100_000
        await socket.drained()
        assert not socket.paused

    assert talk(client).notes[0] == "writable"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 426),
        ({"sec-websocket-version": "8"}, 426),
        ({"sec-websocket-version": "13"}, 400),
        ({"sec-websocket-version": "13", "sec-websocket-key": "c2hvcnQ="}, 400),
        ({"sec-websocket-version": "13", "sec-websocket-key": "?" * 24}, 400),
        ({"sec-websocket-version": "13", "sec-websocket-key": "é" * 24}, 400),
    ],
)
def test_bad_handshakes(headers: dict[str, str], code: int) -> None:
    problem = handshake_problem(headers)
    assert problem is not None
    assert problem[0] == code


def test_what_offers_a_websocket() -> None:
    assert offers_websocket(Head("GET", "/", b"", {"upgrade": "WebSocket"}))
    assert not offers_websocket(Head("POST", "/", b"", {"upgrade": "websocket"}))
    assert not offers_websocket(Head("GET", "/", b"", {"upgrade": "h2c"}))
