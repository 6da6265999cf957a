"""The transport against raw sockets: what it sends, what it returns, what it keeps alive."""

import asyncio
import resource
from collections import Counter

import pytest

from tests.timing import check_within, pause_for, settled, turns
from tests.upstream.raw import CHUNKED, CLOSE, LOOPS, OK, Peer, chunk, post, run, serving, transport, until
from trilogue.errors import InternalError, UpstreamConnect, UpstreamProtocolError
from trilogue.net.client.connection import Connection
from trilogue.net.client.dial import dial
from trilogue.net.client.exchange import HIGH_WATER
from trilogue.net.client.interface import UpstreamRequest
from trilogue.net.client.transport import AT_ONCE, Idle

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def test_request_is_written_as_given(loop: str) -> None:
    """The headers of the caller arrive in order; the transport writes framing, host and encoding."""
    seen: list[tuple[bytes, bytes]] = []

    async def handler(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.send(OK)

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            request = post(port, "/v1/x?beta=true&q=\u00e9", body=b"hello")
            request.headers = (("X-Api-Key", "k"), ("accept", "a"), ("Connection", "close"), ("Accept-Encoding", "br"))
            response = await http.send(request)
            assert (response.status, await response.read(10)) == (200, b"ok")
            assert response.headers == [("content-length", "2")]
        head, body = seen[0]
        assert head.split(b"\r\n") == [
            b"POST /v1/x?beta=true&q=%C3%A9 HTTP/1.1",
            b"host: 127.0.0.1:%d" % port,
            b"accept-encoding: identity",
            b"X-Api-Key: k",
            b"accept: a",
            b"user-agent: trilogue",
            b"content-length: 5",
            b"",
            b"",
        ]
        assert body == b"hello"

    run(loop, test)


def test_headers_that_the_response_names_as_those_of_the_connection_are_left_out(loop: str) -> None:
    """They are for the next hop only (RFC 9110 §7.6.1), also if the connection is named later or several times."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        named = b"x-one: 1\r\nconnection: X-One , keep-alive\r\nconnection: x-two\r\nx-two: 2\r\nx-three: 3\r\n"
        await peer.send(OK.replace(b"content-length", named + b"content-length"))

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            response = await http.send(post(port))
            assert await response.read(10) == b"ok"
            assert [name for name, _ in response.headers] == ["connection", "connection", "x-three", "content-length"]

    run(loop, test)


@pytest.mark.parametrize(
    ("name", "value"),
    [("a", "b\r\nc: d"), ("a", "b\nc"), ("a", "\0"), ("a b", "c"), ("", "c"), ("a:", "c"), ("a", "€")],
)
def test_header_that_could_inject_is_refused(loop: str, name: str, value: str) -> None:
    """A secret with a line break must not become a second header, nor show in the error."""

    async def test() -> None:
        async with transport() as http:
            request = post(1)
            request.headers = ((name, value),)
            with pytest.raises(InternalError, match=r"illegal header$"):
                await http.send(request)

    run(loop, test)


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK,
        CHUNKED + chunk(b"o") + chunk(b"k") + b"0\r\nx-trailer: y\r\n\r\n",
        CLOSE + b"ok",
        b"HTTP/1.0 200 OK\r\n\r\nok",
    ],
)
def test_every_framing_gives_the_same_body(loop: str, answer: bytes) -> None:
    """Callers see nothing of lengths, chunks, closed connections, interim heads and trailers."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        for byte in answer:
            await peer.send(bytes([byte]))

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            response = await http.send(post(port))
            assert (response.status, await response.read(2), await response.chunk()) == (200, b"ok", b"")
            assert "x-trailer" not in dict(response.headers)

    run(loop, test)


def test_redirects_and_cookies_are_not_followed(loop: str) -> None:
    """A redirect would carry the key to another host; a cookie would join two tenants."""
    heads: list[bytes] = []

    async def handler(peer: Peer) -> None:
        for _ in range(2):
            heads.append((await peer.request())[0])
            await peer.send(
                b"HTTP/1.1 307 Temporary\r\nlocation: /else\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n"
            )

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            for _ in range(2):
                response = await http.send(post(port))
                assert (response.status, await response.read(0)) == (307, b"")
        assert len(heads) == 2
        assert not any(b"cookie" in head.lower() for head in heads)

    run(loop, test)


def test_events_arrive_one_by_one(loop: str) -> None:
    """Nothing is held back: events 20 ms apart arrive as one chunk each, when they are sent."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        for number in range(50):
            await peer.send(chunk(b"data: %d %f\n\n" % (number, asyncio.get_running_loop().time())))
            await pause_for(0.02)
        await peer.send(b"0\r\n\r\n")

    async def test() -> None:
        chunks = 0
        late = []
        async with serving(handler) as port, transport() as http:
            response = await http.send(post(port))
            while data := await response.chunk():
                chunks += 1
                now = asyncio.get_running_loop().time()
                late += [now - float(event.split()[2]) for event in data.split(b"\n\n") if event]
        assert len(late) == 50
        assert chunks >= 47  # a busy machine may let two pile up
        assert sorted(late)[25] < 0.01

    run(loop, test)


def test_large_bodies_pass_both_ways(loop: str) -> None:
    """Megabytes are sent and received, byte for byte."""
    body = bytes(range(256)) * 40_000

    async def handler(peer: Peer) -> None:
        _, received = await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(received) + received)

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            response = await http.send(post(port, body=body))
            assert await response.read(len(body)) == body

    run(loop, test)


def test_body_beyond_the_limit_is_an_error(loop: str) -> None:
    """One response must not fill the memory; the rest of it is not even read."""
    closed = asyncio.Event()

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CLOSE + b"x" * 1001)
        await peer.gone()
        closed.set()

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            response = await http.send(post(port))
            with pytest.raises(UpstreamProtocolError, match="larger than 1000 bytes"):
                await response.read(1000)
            await asyncio.wait_for(closed.wait(), 0.1)

    run(loop, test)


def test_slow_reader_stops_the_upstream(loop: str) -> None:
    """While no task reads, the upstream's writes block and our memory does not grow."""
    written = 0

    async def handler(peer: Peer) -> None:
        nonlocal written
        await peer.request()
        peer.writer.transport.set_write_buffer_limits(0)
        await peer.send(CLOSE)
        while written < 200 * 1024 * 1024:
            await peer.send(b"x" * 65536)
            written += 65536

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            response = await http.send(post(port))
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            held = await settled(lambda: written)
            assert held < 16 * 1024 * 1024  # the kernel's socket buffers
            for _ in range(20):
                assert len(await response.chunk()) <= HIGH_WATER + 256 * 1024
            assert await settled(lambda: written) - held < 16 * 1024 * 1024
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * 1024  # KiB
            await response.aclose()

    run(loop, test)


def test_connections_are_used_again(loop: str) -> None:
    """Ten requests one after the other share one connection; two at once need two."""
    numbers: list[int] = []

    async def handler(peer: Peer) -> None:
        while True:
            await peer.request()
            numbers.append(peer.number)
            await peer.send(OK)

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            for _ in range(10):
                await (await http.send(post(port))).read(2)
            assert set(numbers) == {1}
            await asyncio.gather(http.send(post(port)), http.send(post(port)))
            assert set(numbers) == {1, 2}

    run(loop, test)


def test_old_connections_are_closed_a_few_at_a_time(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams that run meanwhile are not delayed by a hundred connections that expire together."""
    many, gone = 3 * AT_ONCE + 1, []
    closed: Counter[float] = Counter()
    abort = Connection.abort

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        gone.append(await peer.gone())

    def counted(connection: Connection) -> None:
        # uvloop's clock stands still within one round of its loop; asyncio's goes on.
        closed[round(connection.loop.time(), 2)] += 1
        abort(connection)

    async def test() -> None:
        async with serving(handler) as port, transport(idle=Idle(seconds=0.2)) as http:
            await asyncio.gather(*(http.send(post(port)) for _ in range(many)))
            monkeypatch.setattr(Connection, "abort", counted)
            await until(lambda: len(gone) == many)

    run(loop, test)
    assert len(closed) >= 4
    assert max(closed.values()) <= AT_ONCE
    assert closed.total() == many


@pytest.mark.parametrize(
    "extra",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsmuggled",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nthe beginning",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"H",
        OK,
        b"junk\r\n\r\n",
    ],
)
def test_unrequested_response_is_never_taken_for_the_next(loop: str, extra: bytes) -> None:
    """An upstream that sends more than was requested must not respond to another request with it."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirst" + extra)
        await peer.request()
        await peer.send(OK)

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            assert await (await http.send(post(port))).read(5) == b"first"
        async with serving(handler) as port, transport() as http:
            await http.send(post(port))
            assert await (await http.send(post(port))).read(5) == b"first"

    run(loop, test)


def test_repr_has_no_secrets(loop: str) -> None:
    """A request in a log line shows where it went, without headers and body."""
    request = UpstreamRequest("POST", "https://user:pw@h.example/v1?key=secret", (("x-api-key", "secret"),), b"secret")
    assert repr(request) == "UpstreamRequest(POST https://h.example/v1, 6 bytes)"


def test_the_callback_that_takes_the_bytes_may_fail(loop: str) -> None:
    """An error of the callback reaches the task that waits for the end of the stream, and the connection is closed."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(b"data: 1\n\n"))
        await peer.gone()

    def take(data: bytes) -> bool:
        raise ZeroDivisionError(data)

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            response = await http.send(post(port))
            with pytest.raises(ZeroDivisionError):
                await response.pour(take)

    run(loop, test)


def test_a_released_response_leaves_its_connection(loop: str) -> None:
    """The rest of a released response is read and dropped, and the connection is used again."""
    connections: list[int] = []
    released = asyncio.Event()

    async def handler(peer: Peer) -> None:
        connections.append(1)
        for _ in range(2):
            await peer.request()
            await peer.send(CHUNKED + chunk(b"data: 1\n\n"))
            await released.wait()
            await peer.send(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            for _ in range(2):
                response = await http.send(post(port))
                await response.pour(lambda data: True)
                response.release(1.0)
                await response.aclose()
                released.set()
                await until(lambda: http.connections()[0] == 0)
                released.clear()
            assert len(connections) == 1

    run(loop, test)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 103 Early Hints\r\ncontent-encoding: gzip\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\ncontent-encoding: Identity\r\ncontent-length: 2\r\n\r\nok",
        CHUNKED + chunk(b"ok") + b"0\r\ncontent-encoding: gzip\r\n\r\n",
    ],
)
def test_only_the_head_of_the_response_says_how_it_is_compressed(loop: str, answer: bytes) -> None:
    """An interim head or a trailer does not count, and `identity` means no compression."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer)

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            assert await (await http.send(post(port))).read(2) == b"ok"

    run(loop, test)


def test_the_rest_of_a_released_response_may_be_late_only_for_so_long(loop: str) -> None:
    """After that the connection is closed, without a task that waits for it."""
    gone: list[float] = []

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(b"data: 1\n\n"))
        gone.append(await peer.gone())

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            response = await http.send(post(port))
            await response.pour(lambda data: True)
            start = asyncio.get_running_loop().time()
            response.release(0.2)
            await response.aclose()
            await pause_for(0.15)
            assert not gone
            await until(lambda: bool(gone))
            assert gone[0] - start > 0.19
            check_within(gone[0] - start, 0.25)

    run(loop, test)


def test_a_connection_that_is_lost_at_once(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed after it was opened and before anything was sent: an error at once, not at the time limit."""

    async def handler(peer: Peer) -> None:
        await peer.request()

    async def lose(*how: object) -> Connection:
        connection = await dial(*how)  # type: ignore[arg-type]
        connection.abort()
        await turns(3)
        return connection

    monkeypatch.setattr("trilogue.net.client.transport.dial", lose)

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            with pytest.raises(UpstreamConnect, match="before it responded"):
                await asyncio.wait_for(http.send(post(port)), 5)

    run(loop, test)
