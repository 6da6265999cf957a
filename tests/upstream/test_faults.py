"""Every way an upstream can fail, with the error for it. Only a dead keep-alive connection is retried."""

import asyncio
import socket
from pathlib import Path

import pytest

from tests.timing import check_within, pause_for
from tests.upstream.certificates import Authority
from tests.upstream.raw import CHUNKED, CLOSE, LOOPS, OK, Handler, Peer, chunk, post, run, serving, transport, until
from trilogue.errors import UpstreamConnect, UpstreamError, UpstreamProtocolError, UpstreamTimeout, UpstreamTruncated
from trilogue.net.client.interface import UpstreamRequest
from trilogue.net.client.transport import HttpTransport

pytestmark = pytest.mark.parametrize("loop", LOOPS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def closed_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_refused(loop: str) -> None:
    """There is no listener, which is known at once."""

    async def test() -> None:
        async with transport() as http:
            with pytest.raises(UpstreamConnect, match=r"^the upstream refused the connection$") as caught:
                await http.send(post(closed_port(), "/?key=secret"))
            assert (caught.value.code, caught.value.proxy) == ("upstream_connect", False)

    run(loop, test)


def test_unknown_name(loop: str) -> None:
    """The name does not exist, and the lookup does not block the loop."""

    async def test() -> None:
        async with transport() as http:
            request = post(1)
            request.url = "http://nowhere.invalid/v1?key=secret"
            with pytest.raises(UpstreamConnect, match=r"^the host name of the upstream cannot be resolved$"):
                await http.send(request)

    run(loop, test)


def test_connect_clock(loop: str) -> None:
    """A listener whose backlog is full neither accepts nor refuses."""

    async def test() -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            port = listener.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port)):
                async with transport() as http:
                    with pytest.raises(UpstreamTimeout, match=r"^no connection to the upstream within 0.2 s$"):
                        await http.send(post(port, connect=0.2))

    run(loop, test)


async def close(peer: Peer) -> None:
    await peer.request()


async def reset(peer: Peer) -> None:
    await peer.request()
    peer.reset()


async def cut_chunks(peer: Peer) -> None:
    await peer.request()
    await peer.send(CHUNKED + chunk(b"data: 1\n\n") + b"9\r\ndata")


async def cut_between_chunks(peer: Peer) -> None:
    await peer.request()
    await peer.send(CHUNKED + chunk(b"data: 1\n\n"))


async def cut_length(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\ndata: 1\n\n")


async def reset_mid(peer: Peer) -> None:
    await peer.request()
    await peer.send(CHUNKED + chunk(b"data: 1\n\n"))
    peer.reset()


async def not_http(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"SSH-2.0-OpenSSH_9.6\r\n")
    await peer.gone()


async def bad_chunk(peer: Peer) -> None:
    await peer.request()
    await peer.send(CHUNKED + chunk(b"data: 1\n\n") + b"zz\r\n")
    await peer.gone()


async def two_lengths(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"ok"))


async def endless_head(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await peer.send(b"x: %b\r\n" % (b"y" * 1000))


async def endless_trailer(peer: Peer) -> None:
    await peer.request()
    await peer.send(CHUNKED + chunk(b"data: 1\n\n") + b"0\r\nx: ")
    while True:
        await peer.send(b"y" * 1000)


async def packed(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nok")


async def switching(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")


async def silent(peer: Peer) -> None:
    await peer.request()
    await peer.gone()


async def silent_mid(peer: Peer) -> None:
    await peer.request()
    await peer.send(CLOSE + b"data: 1\n\n")
    await peer.gone()


async def drip_head(peer: Peer) -> None:
    await peer.request()
    for byte in b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1000:
        await peer.send(bytes([byte]))
        await pause_for(0.02)


BEFORE = "before it responded$"
FAULTS = [
    (close, UpstreamConnect, BEFORE),
    (reset, UpstreamConnect, BEFORE),
    (cut_chunks, UpstreamTruncated, "in the middle of the response$"),
    (cut_between_chunks, UpstreamTruncated, "in the middle of the response$"),
    (cut_length, UpstreamTruncated, "in the middle of the response$"),
    (reset_mid, UpstreamConnect, "broke in the middle of the response$"),
    (not_http, UpstreamProtocolError, "is not HTTP"),
    (bad_chunk, UpstreamProtocolError, "is not HTTP"),
    (two_lengths, UpstreamProtocolError, "is not HTTP"),
    (endless_head, UpstreamProtocolError, "head or trailer is over"),
    (endless_trailer, UpstreamProtocolError, "trailer is over"),
    (packed, UpstreamProtocolError, "compressed .gzip."),
    (switching, UpstreamProtocolError, "another protocol"),
    (silent, UpstreamTimeout, "silent for 0.2 s while we waited for the first byte of the response"),
    (drip_head, UpstreamTimeout, "0.2 s .* for the first byte of the response"),
    (silent_mid, UpstreamTimeout, "silent for 0.3 s while we waited for more of the response"),
]


async def consume(http: HttpTransport, request: UpstreamRequest, body: bytearray) -> None:
    response = await http.send(request)
    while data := await response.chunk():
        body += data


@pytest.mark.parametrize(("handler", "error", "text"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_fault(loop: str, handler: Handler, error: type[UpstreamError], text: str) -> None:
    """The error has the right class and message; what came before it was delivered."""

    async def test() -> None:
        body = bytearray()
        async with serving(handler) as port, transport() as http:
            with pytest.raises(error, match=text) as caught:
                await consume(http, post(port, "/?key=secret", first_byte=0.2, between=0.3), body)
            assert "secret" not in str(caught.value)
            assert "127.0.0.1" not in str(caught.value)
        if any(word in handler.__name__ for word in ("mid", "cut", "chunk")):
            assert body.startswith(b"data: 1\n\n")

    run(loop, test)


def test_silence_while_pouring(loop: str) -> None:
    """One time limit for many pieces: it is reached after one to two times its length from the last piece."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        for _ in range(6):
            await peer.send(chunk(b"data: 1\n\n"))
            await pause_for(0.1)
        await peer.gone()

    async def test() -> None:
        last: list[float] = []
        now = asyncio.get_running_loop().time

        def take(_: bytes) -> bool:
            last.append(now())
            return False

        async with serving(handler) as port, transport() as http:
            response = await http.send(post(port, between=0.3))
            with pytest.raises(UpstreamTimeout, match=r"silent for 0.3 s while we waited for more of the response"):
                await response.pour(take)
            assert len(last) >= 5
            assert now() - last[-1] >= 0.29
            check_within(now() - last[-1], 0.65)

    run(loop, test)


def test_silence_from_the_start_of_pouring(loop: str) -> None:
    """If nothing arrives at all, the time limit is reached after its length."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        await peer.gone()

    async def test() -> None:
        now = asyncio.get_running_loop().time
        async with serving(handler) as port, transport() as http:
            response = await http.send(post(port, between=0.2))
            start = now()
            with pytest.raises(UpstreamTimeout):
                await response.pour(lambda data: False)
            assert now() - start >= 0.19
            check_within(now() - start, 0.25)

    run(loop, test)


def test_an_upstream_that_is_held_back_is_not_silent(loop: str) -> None:
    """The time limit does not run while we leave its bytes in the socket."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        await pause_for(0.05)
        await peer.send(chunk(b"data: 1\n\n") + b"0\r\n\r\n")

    async def test() -> None:
        got: list[bytes] = []

        def take(data: bytes) -> bool:
            got.append(data)
            return False

        async with serving(handler) as port, transport() as http:
            response = await http.send(post(port, between=0.1))
            response.hold(True)
            asyncio.get_running_loop().call_later(0.5, response.hold, False)
            await response.pour(take)
            assert got == [b"data: 1\n\n"]

    run(loop, test)


def test_failed_exchange_keeps_failing(loop: str) -> None:
    """Reading again raises the same error, and does not look like the end of the body."""

    async def test() -> None:
        async with serving(cut_length) as port, transport() as http:
            response = await http.send(post(port))
            assert await response.chunk() == b"data: 1\n\n"
            for _ in range(2):
                with pytest.raises(UpstreamTruncated):
                    await response.chunk()

    run(loop, test)


@pytest.mark.parametrize("end", ["reset", "close"])
def test_dead_keep_alive_connection_is_retried_once(loop: str, end: str) -> None:
    """The upstream closes a pooled connection just as the next request arrives: a new one is opened silently."""
    requests: list[int] = []

    async def handler(peer: Peer) -> None:
        await peer.request()
        requests.append(peer.number)
        await peer.send(OK)
        await peer.request()
        requests.append(peer.number)
        if end == "reset":
            peer.reset()

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            await (await http.send(post(port))).read(2)
            response = await http.send(post(port, body=b"x" * 200_000))
            assert await response.read(2) == b"ok"
            assert requests == [1, 1, 2]

    run(loop, test)


SILENT = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 4\r\n%b\r\nlate"


@pytest.mark.parametrize("closes", [b"connection: close\r\n", b"Connection: Close\r\n"], ids=["small", "capitals"])
@pytest.mark.parametrize("size", [2, 500_000], ids=["little", "much"])
def test_a_connection_that_was_silent_for_too_long(loop: str, closes: bytes, size: int) -> None:
    """The 408 arrives when the next request is already sent: it is sent again on a new connection."""
    requests: list[int] = []

    async def handler(peer: Peer) -> None:
        await peer.request()
        requests.append(peer.number)
        await peer.send(OK)
        await peer.reader.readexactly(1)
        await peer.send(SILENT % closes)

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            for _ in range(3):
                response = await http.send(post(port, body=b"x" * size))
                assert (response.status, await response.read(4)) == (200, b"ok")
            assert requests == [1, 2, 3]

    run(loop, test)


def test_other_timeouts_are_the_callers(loop: str) -> None:
    """A 408 on a new connection, or on one that stays open, is about the request."""

    async def handler(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(SILENT % (b"" if peer.number == 1 else b"connection: close\r\n"))

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            for _ in range(2):
                response = await http.send(post(port))
                assert (response.status, await response.read(4)) == (408, b"late")
        async with serving(handler) as port, transport() as http, transport() as other:
            await (await http.send(post(port))).read(4)
            response = await other.send(post(port))
            assert (response.status, await response.read(4)) == (408, b"late")

    run(loop, test)


def test_fresh_connection_is_not_retried(loop: str) -> None:
    """A reset on a new connection says something about the upstream: the caller decides what to do."""
    seen: list[int] = []

    async def handler(peer: Peer) -> None:
        await peer.request()
        seen.append(peer.number)
        peer.reset()

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            with pytest.raises(UpstreamConnect, match=BEFORE):
                await http.send(post(port))
            assert seen == [1]

    run(loop, test)


def test_half_a_response_is_not_retried(loop: str) -> None:
    """Once a byte of the response has arrived, the upstream has worked on it."""
    seen: list[int] = []

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()
        seen.append(peer.number)
        await peer.send(b"HTTP/1.1 2")

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            await (await http.send(post(port))).read(2)
            with pytest.raises(UpstreamConnect, match=BEFORE):
                await http.send(post(port))
            assert seen == [1]

    run(loop, test)


def test_connection_closed_while_idle_is_noticed(loop: str) -> None:
    """It is removed from the pool before it could be used."""
    seen: list[int] = []

    async def handler(peer: Peer) -> None:
        await peer.request()
        seen.append(peer.number)
        await peer.send(OK)

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            for _ in range(3):
                await (await http.send(post(port))).read(2)
                await until(lambda: http.connections() == (0, 0))
            assert seen == [1, 2, 3]

    run(loop, test)


async def answer(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.send(OK)


def test_tls_with_a_trusted_root(loop: str, authority: Authority) -> None:
    """The extra root makes our own server trusted; connections are kept alive as usual."""

    async def test() -> None:
        options = {"ca_file": str(authority.file)}
        async with serving(answer, authority.server()) as port, transport(**options) as http:
            for _ in range(3):
                assert await (await http.send(post(port, scheme="https"))).read(2) == b"ok"

    run(loop, test)


@pytest.mark.parametrize(
    ("address", "expired", "trusted", "text"),
    [
        ("127.0.0.1", False, False, "issuer is not known"),
        ("127.0.0.1", True, True, "has expired"),
        ("127.0.0.2", False, True, "for another"),
    ],
)
def test_bad_certificate(
    loop: str, authority: Authority, address: str, expired: bool, trusted: bool, text: str
) -> None:
    """It is rejected with a code of its own, and no request is sent."""

    async def test() -> None:
        options = {"ca_file": str(authority.file)} if trusted else {}
        context = authority.server(address=address, expired=expired)
        async with serving(answer, context) as port, transport(**options) as http:
            with pytest.raises(UpstreamConnect, match=text) as caught:
                await http.send(post(port, scheme="https"))
            assert caught.value.code == "upstream_tls"

    run(loop, test)


async def plain_speaker(peer: Peer) -> None:
    await peer.reader.read(100)
    await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def no_handshake(peer: Peer) -> None:
    await peer.gone()


@pytest.mark.parametrize(
    ("handler", "connect", "error", "code"),
    # On a busy machine a handshake takes seconds: only where the limit is to be reached it is short.
    [(plain_speaker, 20.0, UpstreamConnect, "upstream_tls"), (no_handshake, 0.3, UpstreamTimeout, "upstream_timeout")],
)
def test_tls_to_a_server_without(
    loop: str, handler: Handler, connect: float, error: type[UpstreamError], code: str
) -> None:
    """A plain port is a TLS error at once; a silent one reaches the time limit for connecting."""

    async def test() -> None:
        async with serving(handler) as port, transport() as http:
            with pytest.raises(error) as caught:
                await http.send(post(port, scheme="https", connect=connect))
            assert caught.value.code == code

    run(loop, test)


def test_missing_ca_file_is_an_error_at_once(loop: str, tmp_path: Path) -> None:
    """The error comes at the start, not at the first request."""

    async def test() -> None:
        with pytest.raises(FileNotFoundError):
            async with transport(ca_file=str(tmp_path / "none.pem")):
                pass

    run(loop, test)
