"""Cancelling a wait closes the upstream's socket within 100 ms, at every stage."""

import asyncio
import socket
from pathlib import Path

import pytest

from tests.timing import check_within, turns
from tests.upstream.certificates import Authority
from tests.upstream.raw import CHUNKED, LOOPS, Handler, Peer, chunk, post, run, serving, transport, until
from trilogue.net.client.interface import UpstreamRequest, UpstreamResponse
from trilogue.net.client.transport import HttpTransport

pytestmark = pytest.mark.parametrize("loop", LOOPS)
LIMIT = 0.1


async def before_headers(peer: Peer) -> None:
    await peer.request()


async def in_headers(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\ncontent-ty")


async def after_headers(peer: Peer) -> None:
    await peer.request()
    await peer.send(CHUNKED)


async def in_body(peer: Peer) -> None:
    await peer.request()
    await peer.send(CHUNKED + chunk(b"data: 1\n\n"))


async def sending(peer: Peer) -> None:
    await peer.reader.read(1)


async def in_handshake(peer: Peer) -> None:
    await peer.reader.read(1)


STAGES = [before_headers, in_headers, after_headers, in_body, sending, in_handshake]


async def consume(http: HttpTransport, request: UpstreamRequest, got: list[UpstreamResponse]) -> None:
    response = await http.send(request)
    got.append(response)
    while await response.chunk():
        pass


@pytest.mark.parametrize("stage", STAGES, ids=[stage.__name__ for stage in STAGES])
def test_cancelled_task_closes_the_socket(loop: str, stage: Handler) -> None:
    """The task that awaits the upstream is cancelled; the upstream sees the end of the connection."""
    reached = asyncio.Event()
    gone: list[float] = []

    async def handler(peer: Peer) -> None:
        await stage(peer)
        reached.set()
        gone.append(await peer.gone())

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            body = b"x" * 30_000_000 if stage is sending else b"{}"
            scheme = "https" if stage is in_handshake else "http"
            task = asyncio.create_task(consume(http, post(port, body=body, scheme=scheme), []))
            await reached.wait()
            await turns(20)
            start = asyncio.get_running_loop().time()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: bool(gone))
            check_within(gone[0] - start, LIMIT)

    run(loop, test)


@pytest.mark.parametrize("stage", [after_headers, in_body])
def test_aclose_closes_the_socket(loop: str, stage: Handler) -> None:
    """The response is closed while no task reads it."""
    gone: list[float] = []

    async def handler(peer: Peer) -> None:
        await stage(peer)
        gone.append(await peer.gone())

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            response = await http.send(post(port))
            start = asyncio.get_running_loop().time()
            await response.aclose()
            await until(lambda: bool(gone))
            check_within(gone[0] - start, LIMIT)

    run(loop, test)


def test_closing_the_transport_closes_everything(loop: str) -> None:
    """Connections in use end too: a drained server leaves none open."""
    gone: list[float] = []

    async def handler(peer: Peer) -> None:
        await in_body(peer)
        gone.append(await peer.gone())

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            await http.send(post(port))
            await http.send(post(port))
            await http.aclose()
            await until(lambda: len(gone) == 2)

    run(loop, test)


def test_cancelled_while_connecting(loop: str) -> None:
    """The listener's backlog is full: our SYN is repeated until the socket is closed."""

    async def test() -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            port = listener.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port)):
                async with transport() as http:
                    task = asyncio.create_task(http.send(post(port)))
                    await until(lambda: connecting(port))
                    start, files = asyncio.get_running_loop().time(), open_files()
                    task.cancel()
                    await until(lambda: open_files() < files)
                    check_within(asyncio.get_running_loop().time() - start, LIMIT)

    run(loop, test)


def open_files() -> int:
    """Return the open files, sockets among them. The table of all the machine's sockets would take too long to read."""
    return len(list(Path("/proc/self/fd").iterdir()))


def connecting(port: int) -> bool:
    """Return whether some socket of this machine is connecting to this port (SYN_SENT)."""
    table = Path("/proc/net/tcp")
    if not table.exists():
        pytest.skip("needs Linux's table of TCP sockets")
    rows = [line.split() for line in table.read_text("ascii").splitlines()[1:]]
    return any(row[2].endswith(f":{port:04X}") and row[3] == "02" for row in rows)


def test_cancelled_tls_stream(loop: str, tmp_path: Path) -> None:
    """The same in the middle of a body over TLS."""
    authority = Authority(tmp_path)
    gone: list[float] = []

    async def handler(peer: Peer) -> None:
        await in_body(peer)
        gone.append(await peer.gone())

    async def test() -> None:
        got: list[UpstreamResponse] = []
        async with (
            serving(handler, authority.server()) as port,
            transport(ca_file=str(authority.file)) as http,
        ):
            task = asyncio.create_task(consume(http, post(port, scheme="https"), got))
            await until(lambda: bool(got))
            start = asyncio.get_running_loop().time()
            task.cancel()
            await until(lambda: bool(gone))
            check_within(gone[0] - start, LIMIT)

    run(loop, test)
