"""What the hot paths cost, counted in calls of functions, methods and builtins, per event and per request.

The number of calls does not depend on the machine or its load, so an increase of 20 % is noticed without a clock.
Lower a limit when the count has become much smaller. Raising one needs a reason.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest
import uvloop

from benchmarks.core import STREAMS
from tests.timing import turns
from trilogue import Protocol, Sealer, StreamTranslator
from trilogue.app.worker import Worker
from trilogue.config.load import load
from trilogue.gateway.endpoints.app import GatewayApp, not_http
from trilogue.gateway.features.capture.session import MOST_REQUESTS, SessionRequest
from trilogue.gateway.features.capture.settings import CaptureSettings
from trilogue.gateway.features.capture.worker_capture import WorkerCapture
from trilogue.gateway.features.metrics.requests import RequestMetrics
from trilogue.gateway.features.usage.ledger.ledger import UsageLedger
from trilogue.gateway.features.usage.ledger.tables import LedgerTables, UsageQuery
from trilogue.gateway.features.usage.observer import UsageObserver
from trilogue.gateway.gateway import Gateway
from trilogue.gateway.log.lines import journal
from trilogue.gateway.observer import Observer
from trilogue.gateway.record import RequestRecord
from trilogue.gateway.response.pass_through import PassThrough
from trilogue.net.client.connection import Connection
from trilogue.net.client.exchange import HttpExchange
from trilogue.net.client.interface import UpstreamRequest, UpstreamTimeouts
from trilogue.net.server.connection import ClientConnection
from trilogue.net.server.request import KnownHeads
from trilogue.protocols.stream.response_context import Reply
from trilogue.routing.pool.decision import Attempt
from trilogue.storage.sqlite import MemoryDatabase
from trilogue.upstreams.build import router_of

MARGIN = 1.05
EVENTS = 200
REQUESTS = 50

C, M, R = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES
PER_EVENT: dict[tuple[Protocol, Protocol], float] = {
    (C, C): 13,
    (C, M): 17,
    (C, R): 18,
    (M, C): 17,
    (M, M): 12,
    (M, R): 17,
    (R, C): 19,
    (R, M): 18,
    (R, R): 14,
}
"""calls for an ordinary text event that arrives alone, from the bytes of the upstream's socket to those for the
client"""
PER_STREAM: dict[tuple[Protocol, Protocol], float] = {
    (C, C): 207,
    (C, M): 311,
    (C, R): 387,
    (M, C): 341,
    (M, M): 248,
    (M, R): 424,
    (R, C): 490,
    (R, M): 497,
    (R, R): 364,
}
"""calls of decoder and encoder for a stream without its ordinary events: its beginning and its end"""
PER_PLAIN_REQUEST: dict[tuple[Protocol, Protocol], float] = {
    (C, C): 226,
    (C, M): 367,
    (C, R): 351,
    (M, C): 358,
    (M, M): 238,
    (M, R): 376,
    (R, C): 400,
    (R, M): 430,
    (R, R): 252,
}
"""calls by client and upstream protocol, from the bytes of the request to those of the response, without the sockets"""


RELAYED = {C: 18, M: 22}
"""calls for an ordinary event of a Chat upstream that goes through the whole gateway, from socket to socket"""


def calls(run: Callable[[], object]) -> int:
    """Return how many calls this makes."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    # Garbage of other tests must not be collected meanwhile: that would be counted too.
    gc.collect()
    gc.disable()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def check(found: float, expected: float) -> None:
    """Fail if there are more calls than a twentieth above the known number."""
    if found > expected * MARGIN:
        pytest.fail(f"{found:.1f} calls, and {expected} are known")


class Wire:
    """A socket transport that accepts everything."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        """Do what a client does that stops waiting: drop the connection."""

    close = pause_reading = resume_reading = abort


def passage(source: Protocol, target: Protocol) -> PassThrough | StreamTranslator:
    if source is target:
        return PassThrough(source, Reply(source=source))
    return StreamTranslator(source=source, target=target)


@pytest.mark.parametrize("pair", PER_EVENT, ids=lambda pair: f"{pair[0].short}-{pair[1].short}")
def test_calls_per_event(pair: tuple[Protocol, Protocol]) -> None:
    """The first events of a stream cost more; then each costs the same."""
    asyncio.run(_stream(pair))


async def _stream(pair: tuple[Protocol, Protocol]) -> None:
    events = list(STREAMS[pair[0]](EVENTS + 20))[10 : EVENTS + 10]
    head = list(STREAMS[pair[0]](EVENTS + 20))[:10]
    through, wire = passage(*pair), Wire()
    connection = Connection()
    connection.connection_made(cast(asyncio.Transport, Wire()))
    exchange = connection.start(b"", b"", UpstreamTimeouts(between=None))
    connection.data_received(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

    def take(data: bytes) -> bool:
        wire.write(through.feed(data))
        return False

    pouring = asyncio.create_task(exchange.pour(take))
    await turns()
    for event in head:
        connection.data_received(b"%x\r\n%b\r\n" % (len(event), event))
    framed = [b"%x\r\n%b\r\n" % (len(event), event) for event in events]

    def receive() -> None:
        for data in framed:
            connection.data_received(data)

    found = calls(receive) / EVENTS
    pouring.cancel()
    assert len(wire.written) == EVENTS + len(head)
    check(found, PER_EVENT[pair])


@pytest.mark.parametrize("pair", PER_STREAM, ids=lambda pair: f"{pair[0].short}-{pair[1].short}")
def test_calls_per_stream(pair: tuple[Protocol, Protocol]) -> None:
    """This is the cost of a stream without that of its ordinary events, which is the difference to a longer stream."""

    def whole(events: int) -> int:
        pieces = list(STREAMS[pair[0]](events))

        def relay() -> None:
            through = passage(*pair)
            for piece in pieces:
                through.feed(piece)
            through.close()
            assert through.finish is not None

        relay()
        return calls(relay)

    short, long = whole(20), whole(40)
    check(short - (long - short), PER_STREAM[pair])


ANSWERS: dict[Protocol, Any] = {
    C: {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
    },
    M: {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 1},
    },
    R: {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "output": [
            {
                "id": "msg_1",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
            }
        ],
        "usage": {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6},
    },
}


class Upstream:
    """An upstream transport that has its response at once."""

    def __init__(self, protocol: Protocol) -> None:
        body = json.dumps(ANSWERS[protocol]).encode()
        self._data = (
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )

    async def send(self, request: UpstreamRequest) -> HttpExchange:
        connection = Connection()
        connection.connection_made(cast(asyncio.Transport, Wire()))
        exchange = connection.start(b"", request.body, request.timeouts)
        connection.data_received(self._data)
        return exchange

    async def reach(self, url: str, seconds: float) -> None:
        pass

    async def aclose(self) -> None:
        pass


CONFIG = """\
keys: [client-key]
pool: {persist: false}
providers: {up: {protocol: PROTOCOL, base_url: "http://127.0.0.1:1", accounts: [{key: upstream-key}]}}
"""
SAID: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
REQUESTS_OF: dict[Protocol, tuple[str, dict[str, Any]]] = {
    C: ("/v1/chat/completions", {"model": "up/m", "messages": SAID}),
    M: ("/v1/messages", {"model": "up/m", "max_tokens": 100, "messages": SAID}),
    R: ("/v1/responses", {"model": "up/m", "input": SAID, "store": False}),
}


def request_of(client: Protocol, *, stream: bool = False) -> bytes:
    """Return the bytes of a small request."""
    path, asked = REQUESTS_OF[client]
    body = json.dumps({**asked, "stream": True} if stream else asked)
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer client-key\r\n"
        f"content-type: application/json\r\nuser-agent: test\r\naccept: */*\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return f"{head}{body}".encode()


@pytest.mark.parametrize("pair", PER_PLAIN_REQUEST, ids=lambda pair: f"{pair[0].short}-{pair[1].short}")
def test_calls_per_plain_request(tmp_path: Path, pair: tuple[Protocol, Protocol]) -> None:
    """This is the whole gateway without sockets: parser, keys, routes, accounts, translation and records."""
    check(_least(lambda: _plain(tmp_path, pair)), PER_PLAIN_REQUEST[pair])


TIMES = 3


def _least(count: Callable[[], float]) -> float:
    """Return the smallest of several counts: timers of the event loop, which depend on the clock, are counted too."""
    return min(count() for _ in range(TIMES))


OBSERVERS_SHARE = 0.03
"""the part of a plain request that metrics and recent requests may cost, so that they can be on by default"""


@pytest.mark.parametrize("pair", [(C, C), (C, M)], ids=lambda pair: f"{pair[0].short}-{pair[1].short}")
def test_calls_for_metrics_and_recent_requests(tmp_path: Path, pair: tuple[Protocol, Protocol]) -> None:
    without = _least(lambda: _plain(tmp_path, pair, more="admin: {keep_requests: 0}\n"))
    kept = _least(lambda: _plain(tmp_path, pair))
    counted = _least(lambda: _plain(tmp_path, pair, [RequestMetrics()]))
    assert without < kept < counted <= without * (1 + OBSERVERS_SHARE)


@pytest.mark.parametrize("pair", [(C, C), (C, M)], ids=lambda pair: f"{pair[0].short}-{pair[1].short}")
def test_calls_for_metrics_and_usage(tmp_path: Path, pair: tuple[Protocol, Protocol]) -> None:
    priced = CONFIG.replace("accounts:", 'prices: {"*": {input: 1, output: 2}}, accounts:')
    (tmp_path / "priced.yaml").write_text(priced.replace("PROTOCOL", pair[1].value))
    usage = UsageObserver(UsageLedger(LedgerTables(MemoryDatabase()), tmp_path / "usage.live", 30))
    config = load(tmp_path / "priced.yaml", {})
    usage.configure(router_of(config), {name: one.price_book() for name, one in config.providers.items()})
    without = _least(lambda: _plain(tmp_path, pair))
    counted = _least(lambda: _plain(tmp_path, pair, [RequestMetrics(), usage]))
    assert without < counted <= without * (1 + OBSERVERS_SHARE)
    (line,) = usage.read(UsageQuery())
    assert (line.counts.requests, line.counts.unpriced) == (TIMES * (REQUESTS + 10), 0)
    usage.close()


Configure = Callable[[Gateway], None]


def _plain(
    tmp_path: Path,
    pair: tuple[Protocol, Protocol],
    observers: Sequence[Observer] = (),
    more: str = "",
    configure: Configure | None = None,
) -> float:
    """Return the calls per plain request. `more`: further settings."""
    source, upstream = pair
    request = request_of(source)
    file = tmp_path / "trilogue.yaml"
    file.write_text(CONFIG.replace("PROTOCOL", upstream.value) + more)
    config = load(file, {})

    journal.open(BytesIO())

    async def main() -> float:
        state = Worker(
            tmp_path / "pool.db",
            lambda: lambda provider, proxy: Upstream(upstream),
            Sealer.ephemeral(),
            observers=observers,
        )
        gateway = state.gateway(config)
        if configure is not None:
            configure(gateway)
        wire = Wire()
        client = ClientConnection(GatewayApp(gateway), not_http, set(), KnownHeads(), asyncio.get_running_loop())
        client.connection_made(cast(asyncio.Transport, wire))

        async def ask(times: int) -> None:
            for _ in range(times):
                client.data_received(request)
                for _ in range(3):
                    await turns()

        await ask(10)
        journal.flush()
        count = 0

        def note(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        # As in `calls`: garbage of other tests must not be collected meanwhile.
        gc.collect()
        gc.disable()
        sys.setprofile(note)
        try:
            await ask(REQUESTS)
            # Otherwise the number of written log lines would depend on the clock.
            journal.flush()
        finally:
            sys.setprofile(None)
            gc.enable()
        assert len(wire.written) == REQUESTS + 10
        assert all(b" 200 OK" in data for data in wire.written)
        return count / REQUESTS

    try:
        return uvloop.run(main())
    finally:
        journal.open(None)


class Streaming:
    """An upstream transport whose response is a stream that the test feeds."""

    def __init__(self) -> None:
        self.connection = Connection()

    async def send(self, request: UpstreamRequest) -> HttpExchange:
        self.connection.connection_made(cast(asyncio.Transport, Wire()))
        exchange = self.connection.start(b"", request.body, request.timeouts)
        self.connection.data_received(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        return exchange

    async def reach(self, url: str, seconds: float) -> None:
        pass

    async def aclose(self) -> None:
        pass


class OnlyMoments(Observer):
    """Observes every moment of a request, but no bytes."""

    def request_began(self, record: RequestRecord) -> None:
        """Do nothing."""

    def attempt_began(self, record: RequestRecord, attempt: Attempt) -> None:
        """Do nothing."""

    def response_began(self, record: RequestRecord) -> None:
        """Do nothing."""


@pytest.mark.parametrize("client", RELAYED, ids=lambda client: client.short)
def test_calls_per_relayed_event(tmp_path: Path, client: Protocol) -> None:
    """Observers that do not ask for bytes cost no call per event."""
    unobserved, observed = (
        _relayed(tmp_path, client, observers) for observers in ([], [OnlyMoments(), RequestMetrics()])
    )
    assert unobserved == observed
    check(unobserved, RELAYED[client])


def _relayed(
    tmp_path: Path, client: Protocol, observers: Sequence[Observer], configure: Configure | None = None
) -> float:
    """Return the calls per event of a stream that goes through the whole gateway."""
    file = tmp_path / "trilogue.yaml"
    file.write_text(CONFIG.replace("PROTOCOL", C.value))
    events = [b"%x\r\n%b\r\n" % (len(event), event) for event in STREAMS[C](EVENTS + 20)]

    async def main() -> float:
        upstream, wire = Streaming(), Wire()
        state = Worker(
            tmp_path / "pool.db", lambda: lambda provider, proxy: upstream, Sealer.ephemeral(), observers=observers
        )
        gateway = state.gateway(load(file, {}))
        if configure is not None:
            configure(gateway)
        app = GatewayApp(gateway)
        connection = ClientConnection(app, not_http, set(), KnownHeads(), asyncio.get_running_loop())
        connection.connection_made(cast(asyncio.Transport, wire))
        connection.data_received(request_of(client, stream=True))
        for _ in range(5):
            await turns()

        def receive(pieces: list[bytes]) -> None:
            for piece in pieces:
                upstream.connection.data_received(piece)

        receive(events[:10])
        before = len(wire.written)
        found = calls(lambda: receive(events[10 : EVENTS + 10])) / EVENTS
        assert len(wire.written) == before + EVENTS
        app.running.stop_all()
        await turns(5)
        return found

    return asyncio.run(main())


@pytest.mark.parametrize("client", RELAYED, ids=lambda client: client.short)
def test_captures_that_are_off_cost_nothing(tmp_path: Path, client: Protocol) -> None:
    """Neither an event nor a request makes a call for them, also not after a session; while it is on, both do."""
    capture = WorkerCapture(tmp_path / "captures")

    def configure(gateway: Gateway) -> None:
        capture.configure(CaptureSettings(), gateway.observe)

    def counted(configure: Configure | None) -> tuple[float, float]:
        requests = _plain(tmp_path, (client, C), configure=configure)
        return _relayed(tmp_path, client, [], configure), requests

    without, off = counted(None), counted(configure)
    session, _ = capture.start(SessionRequest(requests=MOST_REQUESTS))
    on = counted(configure)
    asyncio.run(capture.aclose())
    assert session is not None
    capture.stop(session.id)
    after = counted(configure)
    assert without[0] == off[0] == after[0] < on[0]
    # Where a buffer is flushed can differ by a call.
    assert max(off[1], after[1]) < without[1] + 1.5 < on[1]
