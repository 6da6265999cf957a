"""Clients that read slowly get their response; those that read nothing are disconnected."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from tests.serving.test_serving import refusal
from tests.timing import eventually_async, pause_for
from trilogue.net.server import connection
from trilogue.net.server.listener import Listener
from trilogue.net.server.request import HttpRequest
from trilogue.net.server.responder import Responder

LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
SMALL = 4096
"""requested size of both socket buffers; the system rounds it up to some ten thousand bytes"""
Loop = Callable[[], asyncio.AbstractEventLoop]


def connected(answer: bytes, client: Callable[[socket.socket, Listener], Awaitable[None]], loop: Loop) -> None:
    """Provide a client that asks for this response, over sockets with small buffers."""

    async def app(request: HttpRequest, responder: Responder) -> None:
        responder.reply(200, [], answer)

    async def main() -> None:
        listener = Listener(app, refusal)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sock:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
            await listener.open(server)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
            sock.connect(server.getsockname())
            sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            sock.setblocking(False)
            try:
                await client(sock, listener)
            finally:
                await listener.drain(0)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


@LOOPS
def test_a_client_that_reads_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch, loop: Loop) -> None:
    """A large response may take many times as long as a client may pause reading."""
    monkeypatch.setattr(connection, "WRITE_SECONDS", 0.3)
    answer = b"x" * 500_000

    async def slowly(sock: socket.socket, _: Listener) -> None:
        received = b""
        while data := await asyncio.get_running_loop().sock_recv(sock, 20_000):
            received += data
            await pause_for(0.03)
        assert received.endswith(b"\r\n\r\n" + answer)

    connected(answer, slowly, loop)


@LOOPS
@pytest.mark.parametrize("size", [50_000, 500_000], ids=["little", "much"])
def test_a_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch, loop: Loop, size: int) -> None:
    """This also holds if so little is left that no write has to wait."""
    monkeypatch.setattr(connection, "WRITE_SECONDS", 0.1)

    async def nothing(_: socket.socket, listener: Listener) -> None:
        await eventually_async(lambda: len(listener._connections) == 1)
        await eventually_async(lambda: not listener._connections)

    connected(b"x" * size, nothing, loop)


@LOOPS
def test_a_slow_client_that_leaves_wakes_no_request(loop: Loop) -> None:
    """A producer that was held back is not resumed because its client has disconnected."""
    flows: list[bool] = []

    async def app(request: HttpRequest, responder: Responder) -> None:
        request.on_gone = request.task.cancel
        responder.start(200, [])
        responder.follow(flows.append)
        responder.send(b"x" * 5_000_000)
        await asyncio.Event().wait()

    async def main() -> None:
        listener = Listener(app, refusal)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sock:
            await listener.open(server)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
            sock.connect(server.getsockname())
            sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            async with asyncio.timeout(3):
                await eventually_async(lambda: flows)
                sock.close()
                await eventually_async(lambda: not listener._connections)
            await listener.drain(0)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
    assert flows == [True]
