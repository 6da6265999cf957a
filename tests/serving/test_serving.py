"""The server alone, over sockets: framing for every kind of client, bodies in pieces, failing applications."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from tests.timing import pause_for, turns
from trilogue.errors import InternalError
from trilogue.net.server import connection
from trilogue.net.server.listener import Listener
from trilogue.net.server.request import BodyBroken, BodyTooLarge, ClientGone, HttpRequest, Problem
from trilogue.net.server.responder import Headers, Responder, response_head

Answer = Callable[[HttpRequest, Responder], Awaitable[None]]
GET = b"GET /path%20x?q=1 HTTP/1.1\r\nhost: a\r\n\r\n"


def refusal(problem: Problem, path: str) -> tuple[Headers, bytes]:
    return [], f"{problem[2]} {path}".encode()


SILENT_SECONDS = 0.3


def talk(answer: Answer, *pieces: bytes) -> bytes:
    """Return everything that the server sends for these pieces, until it closes or is silent."""

    async def app(request: HttpRequest, responder: Responder) -> None:
        await answer(request, responder)

    async def main() -> bytes:
        listener = Listener(app, refusal)
        with socket.create_server(("127.0.0.1", 0)) as sock:
            await listener.open(sock)
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            for piece in pieces:
                writer.write(piece)
                await turns(10)
            received = b""
            with suppress(TimeoutError, ConnectionError):
                while data := await asyncio.wait_for(reader.read(65536), SILENT_SECONDS):
                    received += data
            writer.close()
            await listener.drain(1)
        return received

    return asyncio.run(main())


async def hello(request: HttpRequest, responder: Responder) -> None:
    responder.reply(200, [(b"x-path", request.path.encode())], b"hello")


async def stream(request: HttpRequest, responder: Responder) -> None:
    responder.start(200, [(b"connection", b"keep-alive")])
    for _ in range(3):
        await responder.write(b"abc")
    responder.end(b"d")


async def echo(request: HttpRequest, responder: Responder) -> None:
    try:
        body = await request.body(1_000_000)
    except (BodyBroken, BodyTooLarge, ClientGone) as error:
        body = type(error).__name__.encode()
    responder.reply(200, [], body)


def test_one_request_after_the_other() -> None:
    """Requests follow each other on one connection. The path is decoded and does not contain the query."""
    data = talk(hello, GET, GET)
    assert data.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert data.count(b"x-path: /path x\r\n") == 2
    assert b"connection" not in data
    assert b"date: " in data


def test_streams() -> None:
    """HTTP/1.1 gets chunks. HTTP/1.0 does not know them and gets data until the connection ends."""
    assert talk(stream, GET).endswith(b"\r\n\r\n3\r\nabc\r\n3\r\nabc\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n")
    old = talk(stream, GET.replace(b"1.1", b"1.0"))
    assert old.endswith(b"\r\n\r\nabcabcabcd")
    assert b"chunked" not in old
    assert old.count(b"connection: ") == old.count(b"connection: close\r\n") == 1


@pytest.mark.parametrize("answer", [hello, stream])
def test_head_has_no_body(answer: Answer) -> None:
    """HEAD gets the same head as GET without a body, and the connection stays usable."""
    data = talk(answer, GET.replace(b"GET", b"HEAD"), GET)
    first, _, rest = data.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200 OK")
    assert rest.startswith(b"HTTP/1.1 200 OK")


def test_head_again() -> None:
    """The same holds with a length, by which heads of other methods are recognized."""
    head = b"HEAD / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"
    data = talk(hello, head, head, head)
    assert data.count(b"HTTP/1.1 200 OK\r\n") == 3
    assert b"hello" not in data


def test_old_clients_get_one_response() -> None:
    """HTTP/1.0 clients get one response, and the connection is closed, because they may read until it ends."""
    asked = b"POST / HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello"
    data = talk(echo, asked, asked)
    assert data.count(b"HTTP/1.1 200 OK\r\n") == 1
    assert b"connection: close\r\n" in data
    assert data.endswith(b"\r\n\r\nhello")


def test_old_clients_do_not_get_100_continue() -> None:
    """HTTP/1.0 does not know 100 Continue."""
    head = b"POST / HTTP/1.0\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n"
    assert talk(echo, head, b"hello").startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("close", [b"", b", close"])
def test_an_upgrade_is_declined(version: bytes, close: bytes) -> None:
    """The upgrade is ignored, and the rest of the head still counts."""
    offer = b"connection: Upgrade, HTTP2-Settings%b\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n" % close
    head = b"POST / HTTP/%b\r\nhost: a\r\n%bcontent-length: 5\r\n\r\n" % (version, offer)
    assert talk(echo, head + b"hello").endswith(b"\r\n\r\nhello")
    data = talk(stream, head + b"hello")
    assert (b"transfer-encoding: chunked\r\n" in data) == (version == b"1.1")
    assert (b"connection: close\r\n" in data) == (version == b"1.0" or close != b"")


def test_empty_lines_are_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some old clients send an empty line after a body, while they wait or before the next request."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.05)

    async def slowly(request: HttpRequest, responder: Responder) -> None:
        await pause_for(0.15)
        responder.reply(200, [], b"late")

    data = talk(slowly, GET, b"\r\n", b"\n")
    assert data.count(b"HTTP/1.1 ") == 1
    assert data.endswith(b"\r\n\r\nlate")
    again = talk(hello, GET, b"\r\n", b"\r\n", GET)
    assert again.count(b"HTTP/1.1 200 OK\r\n") == 2


def test_bodies() -> None:
    """Bodies may come in one piece, in many, in chunks or after 100 Continue, be too large, or be cut off."""
    head = b"POST / HTTP/1.1\r\nhost: a\r\n"
    assert talk(echo, head + b"content-length: 5\r\n\r\nhello").endswith(b"\r\n\r\nhello")
    assert talk(echo, head + b"content-length: 5\r\n\r\n", b"he", b"llo").endswith(b"\r\n\r\nhello")
    chunked = head + b"transfer-encoding: chunked\r\n\r\n"
    assert talk(echo, chunked, b"2\r\nhe\r\n", b"3\r\nllo\r\n0\r\n\r\n").endswith(b"\r\n\r\nhello")
    expecting = talk(echo, head + b"content-length: 5\r\nexpect: 100-continue\r\n\r\n", b"hello")
    assert expecting.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    large = b"x" * 900_000
    assert talk(echo, head + b"content-length: 900000\r\n\r\n" + large).endswith(large[:1000])
    assert talk(echo, head + b"content-length: 2000000\r\n\r\n").endswith(b"BodyTooLarge")
    assert talk(echo, chunked, b"100000\r\n" + b"x" * 0x100000 + b"\r\n").endswith(b"BodyTooLarge")
    assert talk(echo, chunked, b"2\r\nhe\r\n", b"nonsense\r\n").endswith(b"BodyBroken")


def test_framing_is_bounded() -> None:
    """Trailers without end and empty chunks are refused: framing must not be much larger than the body."""
    chunked = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    trailer = b"0\r\nx: " + b"y" * 70_000
    assert talk(echo, chunked, b"2\r\nhe\r\n", trailer).endswith(b"BodyBroken")
    assert talk(echo, chunked, b"2\r\nhe\r\n" * 30_000).endswith(b"BodyBroken")
    assert talk(echo, chunked, b"2;%b\r\n" % (b"x" * 70_000)).endswith(b"BodyBroken")
    small = b"6\r\nlittle\r\n" * 30_000
    assert talk(echo, chunked, small, small, b"0\r\nx: y\r\n\r\n").endswith(b"little" * 1000)


def test_one_response_to_a_request_that_breaks_off_later() -> None:
    """The request was answered before all of it had arrived. What arrives then is not another request."""
    head = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    for rest in (b"nonsense\r\n", b"0\r\nx: " + b"y" * 70_000):
        data = talk(hello, head, b"2\r\nhe\r\n", rest, GET)
        assert data.count(b"HTTP/1.1 ") == 1
        assert data.endswith(b"\r\n\r\nhello")


def test_what_is_no_request() -> None:
    """Anything that is not a request gets one response, made by the owner of the path."""
    assert talk(hello, b"GET /v1 HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n").endswith(b"bad_host /v1")
    assert talk(hello, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_an_application_that_leaves_in_the_middle() -> None:
    """The connection is cut off without an end, so that the client does not take the part for the whole."""

    async def half(request: HttpRequest, responder: Responder) -> None:
        responder.start(200, [])
        await responder.write(b"half")

    data = talk(half, GET)
    assert b"0\r\n\r\n" not in data


def test_a_header_cannot_end_its_line() -> None:
    """A header value cannot contain a line break, whatever its type."""
    for header in ((b"a", b"b\r\nc: d"), (b"a\n", b"b"), (b"a", b"b\n")):
        with pytest.raises(InternalError):
            response_head(200, [header], b"", keep_alive=True)
