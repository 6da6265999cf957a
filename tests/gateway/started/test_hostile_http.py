"""HTTP and JSON that nobody sends by accident: refused in good form, quickly, and without taking memory."""

from __future__ import annotations

import asyncio
import gzip
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.gateway.process import PATIENT, Started, started, until
from tests.gateway.running import CLIENT_KEY
from tests.gateway.wire import Answer, address, exchange, outcome, parse, payload, post, read_all
from tests.scripted.ask import PATHS
from tests.scripted.server import ScriptedUpstream
from tests.timing import check_within, pause_for
from trilogue.model import Protocol

MIB = 1024 * 1024
CHAT = "/v1/chat/completions"
BODY = payload(Protocol.CHAT, "chat/text", stream=False)
AUTH = f"authorization: Bearer {CLIENT_KEY}\r\ncontent-type: application/json\r\n"
CLOCKS = {"guard.HEAD_SECONDS": 0.5, "http.BODY_SECONDS": 0.5, "guard.LINGER_SECONDS": 3}
SMALL = PATIENT.replace("server:\n", f"server:\n  max_body_bytes: {MIB}\n")


@pytest.fixture(scope="module")
def gateway(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A gateway with half a second of patience and a limit of 1 MiB for bodies."""
    with started(tmp_path_factory.mktemp("hostile"), SMALL, up.url, patch=CLOCKS) as running:
        yield running
        check_still_well(running)


def check_still_well(gateway: Started) -> None:
    """After all that: it responds, and its log is JSON without errors. Only refused requests are warnings."""
    assert parse(talk(gateway, raw(good("connection: close"), BODY), 30)).json["object"] == "chat.completion"
    assert [line for line in gateway.lines if line["level"] not in ("info", "debug", "warning")] == []
    assert {line["event"] for line in gateway.lines if line["level"] == "warning"} <= {"request"}


def raw(head: str, body: bytes = b"") -> bytes:
    return head.encode("latin-1") + body


def talk(gateway: Started, data: bytes, seconds: float = 3) -> bytes:
    """Everything that comes back on one connection, until the gateway closes it or time is up."""

    async def main() -> bytes:
        reader, writer = await asyncio.open_connection(*address(gateway.url))
        with suppress(ConnectionError):
            writer.write(data)
            await writer.drain()
        found = b""
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(seconds):
                while piece := await reader.read(65536):
                    found += piece
        writer.close()
        return found

    return asyncio.run(main())


def good(*more: str, length: int = len(BODY)) -> str:
    """The head of a request that is right, and what makes it wrong."""
    lines = [f"POST {CHAT} HTTP/1.1", "host: 127.0.0.1", f"content-length: {length}", *more]
    return "\r\n".join(lines) + "\r\n" + AUTH + "\r\n"


SMUGGLED = f"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n{AUTH}\r\n"
HOSTILE = {
    "length and chunks": raw(good("transfer-encoding: chunked"), b"0\r\n\r\n" + SMUGGLED.encode()),
    "two lengths": raw(good("content-length: 5"), BODY),
    "two equal lengths": raw(good(f"content-length: {len(BODY)}"), BODY),
    "signed length": raw(good().replace("content-length: ", "content-length: +"), BODY),
    "length with underscore": raw(good().replace("content-length: ", "content-length: 1_"), BODY),
    "unknown transfer coding": raw(good("transfer-encoding: xchunked"), BODY),
    "packed chunks": raw(
        f"POST {CHAT} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n{AUTH}\r\n", b"0\r\n\r\n"
    ),
    "space before colon": raw(good("x-a : b"), BODY),
    "obs-fold": raw(good("x-a: b\r\n c"), BODY),
    "bare LF": raw(good().replace("\r\n", "\n"), BODY),
    "bare CR": raw(good("x-a: b\rc: d"), BODY),
    "NUL in a value": raw(good("x-a: b\x00c"), BODY),
    "NUL in a name": raw(good("x\x00a: b"), BODY),
    "no host": raw(good().replace("host: 127.0.0.1\r\n", ""), BODY),
    "two hosts": raw(good("host: evil.example"), BODY),
    "host with a path": raw(good().replace("host: 127.0.0.1", "host: a/b?c"), BODY),
    "host with a user": raw(good().replace("host: 127.0.0.1", "host: localhost@evil.example"), BODY),
    "bad chunk size": raw(f"POST {CHAT} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n{AUTH}\r\n", b"zz\r\nabc"),
    "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
    "another version": raw(good().replace("HTTP/1.1", "HTTP/9.9"), BODY),
    "no version": raw(good().replace(" HTTP/1.1", ""), BODY),
    "HTTP/2 in words": raw(good().replace("HTTP/1.1", "HTTP/2.0"), BODY),
    "an unknown method": raw(good().replace("POST", "BREW"), BODY),
    "a path that is not ASCII": raw(good().replace(CHAT, "/v1/\xe9"), BODY),
    "a target that is no URL": raw(good().replace(CHAT, f"http://a:b{CHAT}"), BODY),
    "CONNECT": raw(good().replace(f"POST {CHAT}", "CONNECT evil.example:443"), BODY),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_malformed_requests_are_refused_once(gateway: Started, up: ScriptedUpstream, case: str) -> None:
    """Table 1.1: one answer, 400, and the connection is over; nothing of it reaches an upstream."""
    before = len(up.requests)
    begun = time.monotonic()
    data = talk(gateway, HOSTILE[case])
    assert data.count(b"HTTP/1.1 ") == 1
    answer = parse(data)
    assert answer.status in ((400, 404, 408) if case == "bad chunk size" else (400,))
    assert answer.whole
    assert answer.json["error"]["message"]
    check_within(time.monotonic() - begun, 1.5)
    assert len(up.requests) == before


def test_old_clients_need_no_host(gateway: Started) -> None:
    """HTTP/1.0 probes have none."""
    assert parse(talk(gateway, b"GET /health HTTP/1.0\r\n\r\n")).status == 200


HEADS = {
    "a line of 1 MiB": b"x-a: " + b"a" * MIB + b"\r\n",
    "a line of 80 KiB": b"x-a: " + b"a" * 80 * 1024 + b"\r\n",
    "5,000 headers": b"".join(b"x-%d: 1\r\n" % number for number in range(5000)),
    "101 headers": b"".join(b"x-%d: 1\r\n" % number for number in range(101)),
    "a long path": b"",
}


@pytest.mark.parametrize("case", HEADS)
def test_large_heads_are_refused(gateway: Started, case: str) -> None:
    """431, in the shape that the path belongs to."""
    path = b"/v1/messages" + (b"?" + b"q" * MIB if case == "a long path" else b"")
    data = b"POST " + path + b" HTTP/1.1\r\nhost: a\r\n" + HEADS[case] + b"content-length: 0\r\n\r\n"
    answer = parse(talk(gateway, data))
    assert answer.status == 431
    if case != "a long path":
        assert answer.json["type"] == "error"


def test_an_endless_head_takes_no_memory(gateway: Started) -> None:
    """60 MiB of one header: the gateway stops listening long before."""
    before = gateway.rss()
    with socket.create_connection(address(gateway.url), 5) as sock, suppress(OSError):
        sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nx: ")
        for _ in range(60):
            sock.sendall(b"a" * MIB)
    assert gateway.rss() - before < 8 * MIB


@pytest.mark.parametrize("junk", [b"\r\n" * 100_000, b"GET /" + b"a" * 200_000])
def test_endless_beginnings(gateway: Started, junk: bytes) -> None:
    """Blank lines, and a request line without end."""
    assert parse(talk(gateway, junk)).status in (400, 431)


def test_a_dripping_head(gateway: Started) -> None:
    """Row 29: slow loris. The clock runs on the whole head, not on the pause between bytes."""

    async def main() -> tuple[Answer, float]:
        reader, writer = await asyncio.open_connection(*address(gateway.url))
        begun = time.monotonic()

        async def drip() -> None:
            with suppress(ConnectionError):
                for byte in good():
                    writer.write(byte.encode())
                    await pause_for(0.05)

        dripping = asyncio.create_task(drip())
        answer = parse(await read_all(reader, 5))
        dripping.cancel()
        writer.close()
        return answer, time.monotonic() - begun

    answer, seconds = asyncio.run(main())
    assert answer.status == 408
    check_within(seconds, 1.2)


def test_a_connection_without_a_word_is_closed(gateway: Started) -> None:
    """Nothing was asked, so nothing is answered."""
    begun = time.monotonic()
    assert talk(gateway, b"") == b""
    check_within(time.monotonic() - begun, 1.2)


ATTEMPTS = 3


@pytest.mark.parametrize("client", Protocol, ids=lambda protocol: protocol.short)
@pytest.mark.parametrize("drip", [True, False])
def test_a_body_that_does_not_come(gateway: Started, client: Protocol, drip: bool) -> None:
    """Row 29: a body that stops, or comes a byte at a time, is a 408 in the client's words."""

    async def main() -> tuple[Answer, float]:
        reader, writer = await asyncio.open_connection(*address(gateway.url))
        data = post(PATHS[client], payload(client, "chat/text", stream=True))
        writer.write(data[:-40])
        begun = time.monotonic()

        async def send() -> None:
            with suppress(ConnectionError):
                for byte in data[-40:] if drip else b"":
                    writer.write(bytes([byte]))
                    await pause_for(0.1)

        sending = asyncio.create_task(send())
        answer = parse(await read_all(reader, 5))
        sending.cancel()
        writer.close()
        return answer, time.monotonic() - begun

    for _ in range(ATTEMPTS):
        answer, seconds = asyncio.run(main())
        # A client that is held up for longer than the gateway waits before it closes gets a reset, and loses the 408.
        if answer.raw:
            break
    assert outcome(answer, client).status == 408
    check_within(seconds, 1.5)


def chunked(data: bytes, size: int = 7) -> bytes:
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def test_chunked_bodies_are_bodies(gateway: Started) -> None:
    """Some clients do not know their length."""
    head = f"POST {CHAT} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nconnection: close\r\n{AUTH}\r\n"
    assert outcome(parse(talk(gateway, raw(head, chunked(BODY)))), Protocol.CHAT).how == "complete"


def test_trailers_are_no_headers(gateway: Started) -> None:
    """A key that comes behind the body does not open the door."""
    head = f"POST {CHAT} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    data = chunked(BODY).removesuffix(b"\r\n") + f"authorization: Bearer {CLIENT_KEY}\r\n\r\n".encode()
    assert parse(talk(gateway, raw(head, data))).status == 401


def test_a_length_that_promises_too_little(gateway: Started) -> None:
    """What follows is no second request, and does not disturb the answer to the first."""
    data = talk(gateway, raw(good(length=20), b'{"model": "chat/text"}'), 3)
    assert data.count(b"HTTP/1.1 ") == 1
    assert parse(data).status == 400


def test_a_second_request_in_a_row_waits_or_is_dropped(gateway: Started) -> None:
    """Pipelining: the first is answered as a whole, and the connection says that it is the last."""
    data = talk(gateway, raw(good(), BODY) + SMUGGLED.encode(), 3)
    answer = parse(data)
    assert outcome(answer, Protocol.CHAT).how == "complete"
    assert data.count(b"HTTP/1.1 ") == 1
    assert answer.headers["connection"] == "close"


def test_one_connection_many_requests(gateway: Started) -> None:
    """Keep-alive works, also for clients that offer HTTP/2 with every request."""
    upgrade = "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA"

    async def main() -> None:
        reader, writer = await asyncio.open_connection(*address(gateway.url))
        for more in ((), (), (upgrade,), (upgrade,), ()):
            writer.write(raw(good(*more), BODY))
            answer = parse(await read_all(reader, 3))
            assert outcome(answer, Protocol.CHAT).how == "complete"
        writer.close()

    asyncio.run(main())


@pytest.mark.parametrize("client", Protocol, ids=lambda protocol: protocol.short)
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_large_bodies_are_refused_without_being_kept(gateway: Started, client: Protocol, framing: str) -> None:
    """Row 30: 413 for 40 MiB, told to a client that is still sending."""
    before = gateway.rss()
    data = b"[" + b" " * (40 * MIB)
    if framing == "length":
        asked = post(PATHS[client], data)
    else:
        asked = post(PATHS[client], b"", {"transfer-encoding": "chunked"}).replace(b"content-length: 0\r\n", b"")
        asked += chunked(data, 64 * 1024)
    answer = asyncio.run(exchange(gateway.url, asked))
    found = outcome(answer, client)
    assert (found.status, found.kind if client is Protocol.MESSAGES else found.code) == (413, "request_too_large")
    assert gateway.rss() - before < 8 * MIB


@pytest.mark.parametrize("key", [CLIENT_KEY, "wrong"])
def test_trailers_without_end_take_no_memory(gateway: Started, key: str) -> None:
    """Whoever sends them, with a key or without: 40 MiB of one are refused, or of no interest."""
    before = gateway.rss()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\ntransfer-encoding: chunked\r\n\r\n"
    data = talk(gateway, raw(head, b"2\r\n{}\r\n0\r\nx: " + b"y" * 40 * MIB), 1)
    assert data.count(b"HTTP/1.1 ") <= 1  # a reset may overtake it
    assert gateway.rss() - before < 8 * MIB


def test_a_length_beyond_all_measure(gateway: Started) -> None:
    """Refused for what it says, or as no number."""
    assert parse(talk(gateway, raw(good(length=10**17)))).status in (400, 413)
    assert parse(talk(gateway, raw(good(length=10**30)))).status in (400, 413)


@pytest.mark.parametrize("client", Protocol, ids=lambda protocol: protocol.short)
@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "gzip, gzip"])
def test_compressed_bodies_are_not_taken(gateway: Started, client: Protocol, encoding: str) -> None:
    """415 that says what to do; a bomb is never unpacked."""
    data = gzip.compress(b" " * MIB)
    answer = asyncio.run(exchange(gateway.url, post(PATHS[client], data, {"content-encoding": encoding})))
    assert outcome(answer, client).status == 415
    assert "content-encoding" in outcome(answer, client).message


JSONS: dict[str, bytes] = {
    "empty": b"",
    "white space": b"  \n",
    "not JSON": b"model=gpt",
    "an array": b"[1]",
    "a string": b'"gpt"',
    "null": b"null",
    "cut": BODY[:-1],
    "followed by more": BODY + b"{}",
    "not UTF-8": BODY.replace(b"Hi", b"\xff\xfe"),
    "UTF-16": BODY.decode().encode("utf-16"),
    "a lone surrogate": BODY.replace(b"Hi", b"\\ud800"),
    "deep": b'{"model":"chat/text","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"model":"chat/text","x":' + b'{"a":' * 90_000 + b"1" + b"}" * 90_000 + b"}",
    "unclosed depth": b"[" * 500_000,
    "NaN": BODY[:-1] + b',"temperature":NaN}',
    "infinite": BODY[:-1] + b',"temperature":1e400}',
    "a number of 5,000 digits": BODY[:-1] + b',"max_tokens":' + b"9" * 5000 + b"}",
    "model is a number": b'{"model":5,"messages":[]}',
    "model is null": b'{"model":null,"messages":[]}',
    "no model": b'{"messages":[]}',
    "stream is a word": BODY.replace(b"false", b'"yes"'),
    "messages is a number": b'{"model":"chat/text","messages":7,"input":7,"max_tokens":1}',
}
PASSES = {"infinite", "a number of 5,000 digits", "a lone surrogate", "messages is a number"}
"""well-formed, or too close to it to be looked at in bytes that pass through: the upstream is the judge"""
if sys.version_info >= (3, 12):
    # How deep a parser may go is no longer the limit of Python's own calls: that of what passes is the stack's.
    PASSES |= {"deep", "deep objects"}


@pytest.mark.parametrize("client", Protocol, ids=lambda protocol: protocol.short)
@pytest.mark.parametrize("case", JSONS)
def test_hostile_json_is_the_clients_mistake(gateway: Started, client: Protocol, case: str) -> None:
    """400 in the client's words, in less than 50 ms, whatever the target."""
    other = next(protocol for protocol in Protocol if protocol is not client)
    data = JSONS[case].replace(b"chat/text", f"{other.short}/text".encode())
    seconds, answer = asyncio.run(timed(gateway.url, post(PATHS[client], data)))
    found = outcome(answer, client)
    assert (found.how, found.status, found.kind) == ("http", 400, "invalid_request_error")
    check_within(seconds, 0.05)


@pytest.mark.parametrize("case", sorted(set(JSONS) - PASSES))
def test_hostile_json_does_not_pass_through(gateway: Started, up: ScriptedUpstream, case: str) -> None:
    """The same protocol on both sides is no way around it."""
    before = len(up.requests)
    answer = asyncio.run(exchange(gateway.url, post(CHAT, JSONS[case])))
    assert outcome(answer, Protocol.CHAT).status == 400
    assert len(up.requests) == before


async def timed(url: str, data: bytes) -> tuple[float, Answer]:
    """How long the best of three takes: the machine is shared."""
    best, answer = 9.0, Answer()
    for _ in range(3):
        begun = time.monotonic()
        answer = await exchange(url, data)
        best = min(best, time.monotonic() - begun)
    return best, answer


def test_a_refused_request_is_a_warning(gateway: Started) -> None:
    answer = asyncio.run(exchange(gateway.url, post(CHAT, b"{")))
    assert answer.status == 400
    refused = answer.headers["x-request-id"]
    until(lambda: any(line.get("request_id") == refused for line in gateway.lines))
    line = next(line for line in gateway.lines if line.get("request_id") == refused)
    assert (line["event"], line["level"]) == ("request", "warning")
