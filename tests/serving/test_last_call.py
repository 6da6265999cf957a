"""A listener that closes: clients that have connected are served, and the server waits for no others."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from tests.gateway.wire import is_refused
from tests.serving.test_serving import GET, hello, refusal
from tests.serving.test_slow_readers import LOOPS, Loop
from tests.timing import check_within, eventually_async, with_tries
from trilogue.net.server import connection
from trilogue.net.server.listener import Listener

CLIENTS = 100


async def received(sock: socket.socket) -> bytes:
    """Return everything that the server sends until it closes."""
    data = b""
    while more := await asyncio.get_running_loop().sock_recv(sock, 65536):
        data += more
    return data


@LOOPS
@pytest.mark.parametrize("late", [False, True], ids=["asked", "asks later"])
def test_a_client_in_the_accept_queue_gets_a_response(loop: Loop, late: bool) -> None:
    """These connections exist in the kernel, but the event loop has not accepted them when it is stopped."""

    async def main() -> None:
        listener = Listener(hello, refusal)
        with socket.create_server(("127.0.0.1", 0)) as server:
            await listener.open(server)
            address = server.getsockname()
            clients = [socket.create_connection(address) for _ in range(CLIENTS)]
            for client in clients:
                client.setblocking(False)
            if not late:
                for client in clients:
                    client.sendall(GET)
            draining = asyncio.create_task(listener.drain(5))
            await eventually_async(lambda: is_refused(address))
            if late:
                for client in clients:
                    client.sendall(GET)
            answers = await asyncio.gather(*map(received, clients))
            await draining
            for client in clients:
                client.close()
        assert [answer for answer in answers if not answer.startswith(b"HTTP/1.1 200 OK")] == []
        assert [answer for answer in answers if b"connection: close" not in answer] == []

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(main(), 10))


@with_tries
def test_a_silent_client_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is connected gets a moment, also one that has had a response, unless the end is to come at once."""
    monkeypatch.setattr(connection, "LAST_CALL_SECONDS", 0.2)

    async def main() -> list[float]:
        took = []
        for asks, at_once in ((False, True), (True, False), (True, True)):
            listener = Listener(hello, refusal)
            with socket.create_server(("127.0.0.1", 0)) as server:
                await listener.open(server)
                with socket.create_connection(server.getsockname()) as client:
                    client.setblocking(False)
                    if asks:
                        client.sendall(GET)
                        await asyncio.get_running_loop().sock_recv(client, 65536)
                    start = time.monotonic()
                    await listener.drain(5, at_once=at_once)
                    took.append(time.monotonic() - start)
        return took

    silent, served, at_once = asyncio.run(main())
    assert silent >= 0.15
    assert served >= 0.15
    check_within(silent, 1)
    check_within(served, 1)
    check_within(at_once, 0.15)


def test_an_idle_connection_is_used_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that sends a request on a connection it kept open gets a response, and learns that it was the last."""

    async def main() -> bytes:
        listener = Listener(hello, refusal)
        with socket.create_server(("127.0.0.1", 0)) as server:
            await listener.open(server)
            address = server.getsockname()
            with socket.create_connection(address) as client:
                client.setblocking(False)
                client.sendall(GET)
                await asyncio.get_running_loop().sock_recv(client, 65536)
                draining = asyncio.create_task(listener.drain(5))
                await eventually_async(lambda: is_refused(address))
                client.sendall(GET)
                answer = await received(client)
                await draining
        return answer

    monkeypatch.setattr(connection, "LAST_CALL_SECONDS", 5.0)
    answer = asyncio.run(asyncio.wait_for(main(), 10))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"connection: close" in answer
