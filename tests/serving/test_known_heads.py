"""Request heads that are known already give the same result as if the parser had read them."""

from __future__ import annotations

import asyncio
import json
import re
import socket

import pytest

from trilogue.net.server.listener import Listener
from trilogue.net.server.request import (
    MAX_KEPT_BYTES,
    MOST_KNOWN_HEADS,
    BodyBroken,
    BodyEncoded,
    BodyTooLarge,
    ClientGone,
    Head,
    HttpRequest,
    KnownHeads,
    Problem,
)
from trilogue.net.server.responder import Headers, Responder

HEAD = (
    b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: localhost:1\r\nAuthorization: Bearer one\r\n"
    b"Content-Type: application/json\r\nContent-Length: 5\r\nUser-Agent: test\r\n\r\n"
)
ONE = HEAD + b"hello"
OTHERS = {
    "the same": ONE,
    "another length": HEAD.replace(b": 5\r", b": 11\r") + b"hello there",
    "no body": HEAD.replace(b": 5\r", b": 0\r"),
    "zeros before the length": HEAD.replace(b": 5\r", b": 0005\r") + b"hello",
    "a sign before the length": HEAD.replace(b": 5\r", b": +5\r") + b"hello",
    "a length that is none": HEAD.replace(b": 5\r", b": five\r") + b"hello",
    "an empty length": HEAD.replace(b": 5\r", b": \r") + b"hello",
    "a length of a thousand digits": HEAD.replace(b": 5\r", b": " + b"9" * 1000 + b"\r") + b"hello",
    "a list of lengths": HEAD.replace(b": 5\r", b": 5, 5\r") + b"hello",
    "two lengths": HEAD.replace(b"User-Agent: test", b"Content-Length: 50") + b"hello",
    "two lengths, the same": HEAD.replace(b"User-Agent: test", b"Content-Length: 5") + b"hello",
    "a length and chunks": HEAD.replace(b"User-Agent: test", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "chunks": HEAD.replace(b"Content-Length: 5", b"Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n",
    "something else with a length": HEAD.replace(b"User-Agent: ", b"X-Strength: 5\r\nUser-Agent: ") + b"hello",
    "something else with a length before": HEAD.replace(b"Host: ", b"X-Strength: 5\r\nHost: ") + b"hello",
    "another key": HEAD.replace(b"Bearer one", b"Bearer two") + b"hello",
    "another path": HEAD.replace(b"messages", b"responses") + b"hello",
    "other spelling": HEAD.replace(b"Content-Length", b"content-length") + b"hello",
    "no host": HEAD.replace(b"Host: localhost:1\r\n", b"") + b"hello",
    "two hosts": HEAD.replace(b"User-Agent: test", b"Host: localhost:2") + b"hello",
    "a line that is folded": HEAD.replace(b"User-Agent: test", b"User-Agent:\r\n test") + b"hello",
    "an illegal name": HEAD.replace(b"User-Agent", b"User Agent") + b"hello",
    "the last one": HEAD.replace(b"User-Agent: test", b"Connection: close") + b"hello",
    "an old client": HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"hello",
    "an upgrade": HEAD.replace(b"User-Agent: test", b"Connection: upgrade\r\nUpgrade: h2c") + b"hello",
    "asks before it sends": HEAD.replace(b"User-Agent: test", b"Expect: 100-continue") + b"hello",
    "compressed": HEAD.replace(b"User-Agent: test", b"Content-Encoding: gzip") + b"hello",
    "half of the body": ONE[:-3],
    "half of the head": HEAD[:60],
    "too much of a body": ONE + b"?",
    "two at once": ONE + ONE,
    "an empty line first": b"\r\n" + ONE,
    "a large head": HEAD.replace(b": test", b": " + b"x" * MAX_KEPT_BYTES) + b"hello",
}


def refusal(problem: Problem, path: str) -> tuple[Headers, bytes]:
    return [], f"{problem[2]} {path}".encode()


async def tell(request: HttpRequest, responder: Responder) -> None:
    """Return everything that is known of the request."""
    headers = {name: value for name, value in request.headers.items() if name != "content-length"}
    seen = [request.method, request.path, request.query.decode(), headers]
    try:
        body = (await request.body(1000)).decode()
    except (BodyBroken, BodyEncoded, BodyTooLarge, ClientGone) as error:
        body = type(error).__name__
    responder.reply(200, [], json.dumps([*seen, body]).encode())


async def ask(address: tuple[str, int], data: bytes, silence: float) -> bytes:
    """Return all that comes back, until the connection is closed or nothing more comes for a while."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    received = b""
    try:
        async with asyncio.timeout(silence):
            while piece := await reader.read(65536):
                received += piece
    except (TimeoutError, ConnectionError):
        pass
    writer.close()
    return re.sub(rb"date: [^\r]+\r\n", b"", received)


async def answer(silence: float, data: bytes, *before: bytes) -> bytes:
    """Return the server's response to this request after those."""
    listener = Listener(tell, refusal)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        await listener.open(sock)
        for earlier in before:
            await ask(sock.getsockname(), earlier, silence)
        received = await ask(sock.getsockname(), data, silence)
        await listener.drain(1)
    return received


def same_answers(*requests: tuple[bytes, ...]) -> bytes:
    """Return the response that all of these get. On a busy machine it may take long, so wait longer if they differ."""

    async def main(silence: float) -> list[bytes]:
        return await asyncio.gather(*(answer(silence, *one) for one in requests))

    answers: list[bytes] = []
    for silence in (0.1, 1, 5):
        answers = asyncio.run(main(silence))
        if len(set(answers)) == 1:
            break
    assert set(answers) == {answers[0]}
    return answers[0]


@pytest.mark.parametrize("what", OTHERS)
def test_the_same_as_from_the_parser(what: str) -> None:
    """This holds for requests that equal a known head and for those that only look like it, also when repeated."""
    one = OTHERS[what]

    fresh = same_answers((one,), (one, ONE, ONE), (one, one, one))
    if what == "the same":
        assert b'"hello"]' in fresh


def test_no_other_number_is_the_length() -> None:
    """Request smuggling: a number in another header must not be taken for the length of the body."""
    before = HEAD.replace(b"Host: ", b"X-Strength: 5\r\nHost: ") + b"hello"
    now = before.replace(b"gth: 5\r\nHost", b"gth: 11\r\nHost") + b" there"

    fresh = same_answers((now,), (now, before, before))
    assert b"hello there" not in fresh


def test_notes_are_found_again() -> None:
    """Notes are found again with the same head, whatever the length, and with no other head."""
    notes: list[object] = []

    async def note(request: HttpRequest, responder: Responder) -> None:
        notes.append(request.head.note)
        request.head.note = request.headers["authorization"]
        responder.reply(200, [], b"")

    async def main() -> None:
        listener = Listener(note, refusal)
        with socket.create_server(("127.0.0.1", 0)) as sock:
            await listener.open(sock)
            for what in ("the same", "the same", "the same", "another length", "another key", "another key"):
                await ask(sock.getsockname(), OTHERS[what], 0.3)
            await listener.drain(1)

    asyncio.run(main())
    assert notes == [None, "Bearer one", "Bearer one", "Bearer one", None, "Bearer two"]


def test_what_is_kept_is_bounded() -> None:
    """The oldest head is removed first. If the notes are not valid any more, all are removed."""
    known = KnownHeads()
    sent = [ONE.replace(b"Bearer one", b"Bearer %d" % number) for number in range(MOST_KNOWN_HEADS + 10)]
    for data in sent:
        key, request = known.find(data)
        assert key is not None
        assert request is None
        known.keep(key, Head("POST", "/", b"", {}))
    assert [known.find(data)[1] is None for data in sent] == [True] * 10 + [False] * MOST_KNOWN_HEADS
    known.forget()
    assert all(known.find(data)[1] is None for data in sent)
