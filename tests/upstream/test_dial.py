"""How connections are opened: which address wins, and that TLS is never left out."""

import asyncio
import socket

import pytest

from tests.upstream.raw import LOOPS, OK, Peer, run, serving
from trilogue.errors import InternalError
from trilogue.net.client.dial import dial, open_socket
from trilogue.net.client.origin import Origin, parse_proxy

every_loop = pytest.mark.parametrize("loop", LOOPS)


async def answer(peer: Peer) -> None:
    await peer.request()
    await peer.send(OK)


@every_loop
def test_no_tls_without_a_context(loop: str) -> None:
    """No connection is better than a plain one."""

    async def test() -> None:
        with pytest.raises(InternalError):
            await dial(Origin("https", "127.0.0.1", 1), None, None)
        with pytest.raises(InternalError):
            await dial(Origin("http", "127.0.0.1", 1), None, parse_proxy("https://127.0.0.1:1"))

    run(loop, test)


@every_loop
def test_a_dead_address_costs_a_moment(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first address neither accepts nor refuses; the second one is tried soon."""

    async def test() -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.2", 0))
            silent.listen(0)
            dead = silent.getsockname()
            async with serving(answer) as port:
                with socket.create_connection(dead):
                    found = [dead, ("127.0.0.1", port)]

                    def resolve(*_: object, **__: object) -> list[tuple[object, ...]]:
                        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in found]

                    running = asyncio.get_running_loop()
                    monkeypatch.setattr(socket, "getaddrinfo", resolve)
                    start = running.time()
                    sock = await open_socket("twice.example", port)
                    assert sock.getpeername() == ("127.0.0.1", port)
                    assert 0.2 < running.time() - start < 1
                    sock.close()

    run(loop, test)


@every_loop
def test_every_address_refuses(loop: str) -> None:
    """The error is that of the first address."""

    async def test() -> None:
        with pytest.raises(ConnectionRefusedError):
            await open_socket("localhost", 1)

    run(loop, test)
