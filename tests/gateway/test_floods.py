"""Floods: a peer that sends as fast as it can, in tiny pieces, does not make other clients wait."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tests.gateway.running import CLIENT_KEY, Gateway, running
from tests.gateway.wire import address
from tests.timing import check_within, with_tries

CONFIG = """\
keys:
  - {name: plain, key: env:TRILOGUE_KEY}
  - {name: judged, key: key-of-judged, policies: [words, never]}
server: {max_body_bytes: 200_000_000}
policies:
  words: {use: block_phrases, phrases: [never said]}
  never: {use: tools, deny: [never]}
providers:
  chat: {protocol: openai_chat_completions, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]}
  messages: {protocol: anthropic_messages, base_url: UPSTREAM, accounts: [{key: env:UP_KEY}]}
"""
pytestmark = pytest.mark.slow

LIMIT = 0.05
"""seconds within which another client has its response; it was up to seconds. A busy machine may miss it at times"""
MOST_SECONDS = 1.0
"""A flood is watched for that long."""
JUDGED = "key-of-judged"


def chunks(*data: bytes) -> bytes:
    return b"".join([b"%x\r\n%b\r\n" % (len(one), one) for one in data])


def chat_event(delta: dict[str, Any]) -> bytes:
    body = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    return b"data: %b\n\n" % json.dumps(body).encode()


def named(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


MESSAGE: dict[str, Any] = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
STARTS = {
    "/v1/chat/completions": chat_event({"role": "assistant", "content": "Hi"}),
    "/v1/messages": named("message_start", message=MESSAGE)
    + named("content_block_start", index=0, content_block={"type": "text", "text": ""}),
}
PIECE = chat_event({"content": "x"})
BYTES = chunks(*[PIECE[at : at + 1] for at in range(len(PIECE))])
DELTA = chunks(named("content_block_delta", index=0, delta={"type": "text_delta", "text": "x"}))
FLOODS = {
    "events": (chunks(PIECE), 400_000),
    "bytes": (BYTES, 2_000_000 // len(PIECE)),
    "comments": (chunks(b":\n\n"), 2_000_000),
    "empty": (chunks(b"data: {}\n\n"), 400_000),
    "deltas": (DELTA, 400_000),
}
"""what is repeated, and how often; a model's name is a flood"""


class Flooder:
    """An upstream that floods whoever asks."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(connection,))
                thread.start()
                self._threads.append(thread)

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            reader = connection.makefile("rb")
            with reader:
                path = reader.readline().split(b" ")[1].decode()
                headers = http.client.parse_headers(reader)
                body = json.loads(reader.read(int(headers["content-length"])))
            unit, count = FLOODS[body["model"]]
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            connection.sendall(head + chunks(STARTS.get(path, b"data: {}\n\n")))
            at_once = max(1, 200_000 // len(unit))
            block = unit * at_once
            for _ in range(max(1, count // at_once)):
                connection.sendall(block)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in (self._accepting, *self._threads):
            thread.join()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    upstream = Flooder()
    try:
        with running(tmp_path_factory.mktemp("floods"), CONFIG, upstream.url) as gateway:
            yield gateway
    finally:
        upstream.close()


@contextmanager
def connected(gateway: Gateway) -> Iterator[socket.socket]:
    connection = socket.create_connection(address(gateway.url))
    try:
        yield connection
    finally:
        connection.close()


def check_others(gateway: Gateway, flood: Callable[[socket.socket], None]) -> None:
    """Run a flood over a connection, and fail if another client has to wait."""
    times: list[float] = []
    with connected(gateway) as flooding:
        running_flood = threading.Thread(target=_quietly, args=(flood, flooding))
        other = http.client.HTTPConnection(*address(gateway.url), timeout=30)
        other.request("GET", "/health")
        other.getresponse().read()
        running_flood.start()
        until = time.monotonic() + MOST_SECONDS
        while running_flood.is_alive() and time.monotonic() < until:
            began = time.monotonic()
            other.request("GET", "/health")
            assert other.getresponse().read() == b'{"status":"ok"}'
            times.append(time.monotonic() - began)
        other.close()
        with suppress(OSError):
            flooding.shutdown(socket.SHUT_RDWR)
        running_flood.join(30)
    # The time that was spent in slow requests, not their number: a long flood leaves room for few.
    check_within(sum(one for one in times if one > LIMIT), sum(times) / 2)


def _quietly(flood: Callable[[socket.socket], None], connection: socket.socket) -> None:
    with suppress(OSError):
        flood(connection)


def asking(path: str, body: dict[str, Any], key: str = CLIENT_KEY) -> Callable[[socket.socket], None]:
    """Return a flood that comes from the upstream: a request whose response is read to its end."""
    data = json.dumps(body).encode()

    def flood(connection: socket.socket) -> None:
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-length: {len(data)}\r\n\r\n"
        connection.sendall(head.encode() + data)
        while piece := connection.recv(1 << 20):
            if piece.endswith(b"0\r\n\r\n"):
                break

    return flood


def body_of(path: str, model: str, *, stream: bool) -> dict[str, Any]:
    common = {"model": model, "stream": stream, "max_tokens": 100}
    turns = [{"role": "user", "content": "Hi"}]
    if path == "/v1/responses":
        return {"model": model, "stream": stream, "input": "Hi"}
    return common | ({"prompt": "Hi"} if path == "/v1/completions" else {"messages": turns})


@pytest.mark.parametrize("key", [CLIENT_KEY, JUDGED], ids=["plain", "judged"])
@pytest.mark.parametrize(
    ("path", "model"),
    [
        pytest.param("/v1/chat/completions", "chat/events", marks=pytest.mark.smoke),
        ("/v1/messages", "chat/events"),
        ("/v1/messages", "chat/bytes"),
        ("/v1/messages", "chat/comments"),
        ("/v1/chat/completions", "chat/comments"),
        ("/v1/chat/completions", "chat/empty"),
        ("/v1/messages", "messages/deltas"),
        ("/v1/responses", "messages/deltas"),
    ],
)
@with_tries
def test_a_stream(serving: Gateway, path: str, model: str, key: str) -> None:
    """Translated, passed through and judged."""
    check_others(serving, asking(path, body_of(path, model, stream=True), key))


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/completions"])
@with_tries
def test_a_whole_body(serving: Gateway, path: str) -> None:
    """What is not streamed to the client, and what is not translated at all."""
    check_others(serving, asking(path, body_of(path, "chat/events", stream=False)))


@pytest.mark.smoke
@with_tries
def test_an_upload(serving: Gateway) -> None:
    """A client sends its request in tiny chunks, as many as fit into the limit."""
    block = chunks(b"     ") * 20_000

    def flood(connection: socket.socket) -> None:
        head = "POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n"
        connection.sendall(f"{head}authorization: Bearer {CLIENT_KEY}\r\n\r\n".encode())
        for _ in range(1_000):
            connection.sendall(block)

    check_others(serving, flood)


@pytest.mark.parametrize(
    "frame", [b"\x89\x80\0\0\0\0", b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 99, b"\x8a\x80abcd"]
)
@with_tries
def test_a_websocket(serving: Gateway, frame: bytes) -> None:
    """A client sends the smallest frames that there are: pings, fragments of a message that never ends, pongs."""
    block = frame[:6] + frame[6:] * 300 if frame[0] == 1 else frame * 30_000

    def flood(connection: socket.socket) -> None:
        head = "GET /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        head += "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        connection.sendall(f"{head}authorization: Bearer {CLIENT_KEY}\r\n\r\n".encode())
        for _ in range(100):
            connection.sendall(block)

    check_others(serving, flood)


@with_tries
def test_pipelined_requests(serving: Gateway) -> None:
    """They are refused, and cost nothing."""
    block = f"GET /health HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {CLIENT_KEY}\r\n\r\n".encode() * 3_000

    def flood(connection: socket.socket) -> None:
        for _ in range(100):
            connection.sendall(block)

    check_others(serving, flood)
