"""Egress proxies: HTTP, HTTPS and SOCKS5, and which side is at fault when they fail."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from tests.upstream.certificates import Authority
from tests.upstream.raw import LOOPS, OK, Peer, post, run, serving, transport
from trilogue.errors import InternalError, UpstreamConnect
from trilogue.net.client.interface import UpstreamRequest
from trilogue.net.client.origin import parse_proxy, split_url

pytestmark = pytest.mark.parametrize("loop", LOOPS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def tunnel(peer: Peer, host: str, port: int) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        await asyncio.gather(pipe(peer.reader, writer), pipe(reader, peer.writer))
    finally:
        writer.close()


class HttpProxy:
    """A proxy for CONNECT and for plain requests in absolute form, which requires `user:password`."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []

    async def __call__(self, peer: Peer) -> None:
        head, _ = await peer.request()
        self.heads.append(head)
        if b"proxy-authorization: Basic dXNlcjpwQHNz\r\n" not in head:
            await peer.send(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
        elif head.startswith(b"CONNECT "):
            host, _, port = head.split()[1].decode().rpartition(":")
            await peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await tunnel(peer, host, int(port))
        else:
            await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nproxy")


async def socks(peer: Peer) -> None:
    """Serve SOCKS5 by RFC 1928 and 1929, with names only."""
    assert await peer.reader.readexactly(3) == b"\x05\x01\x02"
    await peer.send(b"\x05\x02")
    assert await peer.reader.readexactly(11) == b"\x01\x04user\x04p@ss"
    await peer.send(b"\x01\x00")
    assert await peer.reader.readexactly(4) == b"\x05\x01\x00\x03"
    host = (await peer.reader.readexactly((await peer.reader.readexactly(1))[0])).decode()
    port = int.from_bytes(await peer.reader.readexactly(2), "big")
    await peer.send(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50")
    await tunnel(peer, host, port)


async def origin(peer: Peer) -> None:
    while True:
        head, _ = await peer.request()
        assert b"proxy-authorization" not in head.lower()
        await peer.send(OK)


@pytest.mark.parametrize("kind", ["http", "https", "socks5", "socks5h"])
def test_tls_origin_through_a_proxy(loop: str, kind: str, authority: Authority) -> None:
    """The proxy sees a host and a port; request and response stay private, and the connection is kept alive."""

    async def test() -> None:
        handler = socks if kind.startswith("socks") else HttpProxy()
        async with (
            serving(origin, authority.server()) as port,
            serving(handler, authority.server() if kind == "https" else None) as gate,
            transport(proxy=f"{kind}://user:p%40ss@127.0.0.1:{gate}", ca_file=str(authority.file)) as http,
        ):
            for _ in range(2):
                assert await (await http.send(post(port, scheme="https"))).read(2) == b"ok"

    run(loop, test)


def test_plain_origin_through_an_http_proxy(loop: str) -> None:
    """No tunnel: the proxy gets the whole URL, as proxies that forbid CONNECT to port 80 expect."""
    proxy = HttpProxy()

    async def test() -> None:
        async with serving(proxy) as gate, transport(proxy=f"http://user:p%40ss@127.0.0.1:{gate}") as http:
            assert await (await http.send(post(9, "/v1/x?a=b"))).read(5) == b"proxy"
        assert proxy.heads[0].startswith(b"POST http://127.0.0.1:9/v1/x?a=b HTTP/1.1\r\nhost: 127.0.0.1:9\r\n")

    run(loop, test)


def test_plain_origin_through_socks(loop: str) -> None:
    """SOCKS also carries plain HTTP."""

    async def test() -> None:
        async with (
            serving(origin) as port,
            serving(socks) as gate,
            transport(proxy=f"socks5://user:p%40ss@127.0.0.1:{gate}") as http,
        ):
            assert await (await http.send(post(port))).read(2) == b"ok"

    run(loop, test)


@pytest.mark.parametrize(
    ("login", "sent"),
    [
        ("user:p%40ss@", b"\x01\x04user\x04p@ss"),
        ("account-7@", b"\x01\x09account-7\x00"),
        ("user:p%C3%A4ss@", b"\x01\x04user\x05p\xc3\xa4ss"),
    ],
)
def test_a_login_is_never_left_out(loop: str, login: str, sent: bytes) -> None:
    """Proxies choose the way out by the user (Tor its circuit): with "no login" on offer they may skip it."""
    heard: list[bytes] = []

    async def proxy(peer: Peer) -> None:
        heard.append(await peer.reader.readexactly(3))
        await peer.send(b"\x05\x02")
        heard.append(await peer.reader.readexactly(len(sent)))
        await peer.send(b"\x01\x01")

    async def test() -> None:
        async with serving(proxy) as gate, transport(proxy=f"socks5h://{login}127.0.0.1:{gate}") as http:
            with pytest.raises(UpstreamConnect, match="rejected the login"):
                await http.send(post(9))
        assert heard == [b"\x05\x01\x02", sent]

    run(loop, test)


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_names_are_resolved_by_the_proxy(loop: str, scheme: str) -> None:
    """Our own resolver may not know them, and must not leak them."""
    heard: list[bytes] = []

    async def proxy(peer: Peer) -> None:
        await peer.reader.readexactly(3)
        await peer.send(b"\x05\x00")
        heard.append(await peer.reader.read(100))
        await peer.send(b"\x05\x04\x00\x01")

    async def test() -> None:
        async with serving(proxy) as gate, transport(proxy=f"{scheme}://127.0.0.1:{gate}") as http:
            with pytest.raises(UpstreamConnect, match=r"^the upstream cannot be reached$"):
                await http.send(UpstreamRequest("POST", "https://llm.invalid/v1", (), b""))
        assert heard == [b"\x05\x01\x00\x03\x0bllm.invalid\x01\xbb"]

    run(loop, test)


@pytest.mark.parametrize("login", ["u" * 300, "user:" + "p" * 300])
def test_logins_that_socks_cannot_carry(loop: str, login: str) -> None:
    """SOCKS has one byte for the length of a login."""

    async def test() -> None:
        async with (
            serving(saying(b"\x05\x02")) as gate,
            transport(proxy=f"socks5://{login}@127.0.0.1:{gate}") as http,
        ):
            with pytest.raises(UpstreamConnect, match="too long") as caught:
                await http.send(post(9))
            assert "ppp" not in repr(caught.value)

    run(loop, test)


def saying(*replies: bytes) -> Callable[[Peer], Awaitable[None]]:
    """Return a proxy that replies to each read with the next of these bytes."""

    async def handler(peer: Peer) -> None:
        for reply in replies:
            await peer.reader.read(1000)
            await peer.send(reply)
        await peer.reader.read(1000)

    return handler


@pytest.mark.parametrize(
    ("kind", "handler", "text", "blame"),
    [
        ("http", saying(b"HTTP/1.1 407 No\r\n\r\n"), "responded with status 407", True),
        ("http", saying(b"HTTP/1.1 502 Bad\r\n\r\n"), "responded with status 502", False),
        ("http", saying(b"junk\r\n\r\n"), "responded with status 0", True),
        ("http", saying(b"x" * 20_000), "is not HTTP", True),
        ("http", saying(), "closed the connection", True),
        ("http", saying(b"HTTP/1.1 200 OK\r\n\r\nextra"), "did not keep the tunnel", True),
        ("socks5", saying(b"\x05\xff"), "supports none of our login methods", True),
        ("socks5", saying(b"\x05\x02", b"\x01\x01"), "rejected the login", True),
        ("socks5", saying(b"\x05\x02", b"\x01\x00", b"\x05\x02\x00\x01"), "does not allow", True),
        ("socks5", saying(b"\x05\x02", b"\x01\x00", b"\x05\x05\x00\x01"), "upstream refused", False),
    ],
)
def test_failing_proxy(
    loop: str, kind: str, handler: Callable[[Peer], Awaitable[None]], text: str, blame: bool
) -> None:
    """`proxy` says whether another egress proxy could help."""

    async def test() -> None:
        async with serving(handler) as gate, transport(proxy=f"{kind}://user:p%40ss@127.0.0.1:{gate}") as http:
            with pytest.raises(UpstreamConnect, match=text) as caught:
                await http.send(post(9, scheme="https"))
            assert caught.value.proxy is blame
            assert "p@ss" not in str(caught.value)

    run(loop, test)


def test_proxy_that_refuses_a_plain_request(loop: str) -> None:
    """A 407 is about our proxy, not about the upstream."""

    async def test() -> None:
        async with serving(HttpProxy()) as gate, transport(proxy=f"http://127.0.0.1:{gate}") as http:
            with pytest.raises(UpstreamConnect, match="rejected the login") as caught:
                await http.send(post(9))
            assert caught.value.proxy

    run(loop, test)


def test_unreachable_proxy(loop: str) -> None:
    """The upstream got no request."""

    async def test() -> None:
        async with transport(proxy="http://127.0.0.1:1") as http:
            with pytest.raises(UpstreamConnect, match=r"^the egress proxy refused the connection$") as caught:
                await http.send(post(9, scheme="https"))
            assert caught.value.proxy

    run(loop, test)


def test_environment_is_not_followed(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that some other program needs must not redirect our traffic."""
    proxy = HttpProxy()

    async def test() -> None:
        async with serving(origin) as port, serving(proxy) as gate:
            monkeypatch.setenv("http_proxy", f"http://user:p%40ss@127.0.0.1:{gate}")
            monkeypatch.delenv("no_proxy", raising=False)
            async with transport() as http:
                assert await (await http.send(post(port))).read(5) == b"ok"

    run(loop, test)


@pytest.mark.parametrize("url", ["ftp://h", "http://", "h:80", "http://[::1", "http://h:99999"])
def test_bad_urls(loop: str, url: str) -> None:
    """They are refused without repeating them, because they may hold credentials."""
    for parse in (split_url, parse_proxy):
        with pytest.raises(InternalError, match=r"^a URL for an upstream or proxy"):
            parse(url)


def test_ipv6_and_default_ports(loop: str) -> None:
    """How an origin is written in a request and to a proxy."""
    v6, _ = split_url("https://[::1]/x")
    named, target = split_url("http://h.example:8080?q=1")
    assert (v6.authority, v6.host_header) == ("[::1]:443", "[::1]")
    assert (named.authority, named.host_header, target) == ("h.example:8080", "h.example:8080", "/?q=1")
    assert "p" not in repr(parse_proxy("socks5://u:pw@h")).removeprefix("Proxy(").replace("http", "")
