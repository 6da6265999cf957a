"""Observers of requests: which moments they see, in which order, with what, and what they cost when there are none."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.running import CLIENT_KEY
from tests.gateway.wire import address, exchange, outcome, parse, payload, post, reached, request
from tests.scripted.ask import PATHS
from tests.scripted.http import Do, chunk, stream_head
from tests.scripted.server import ScriptedUpstream
from tests.timing import eventually_async
from trilogue import Sealer
from trilogue.app.worker import Worker
from trilogue.capture import Sent
from trilogue.config.load import load
from trilogue.gateway.endpoints.app import GatewayApp, not_http
from trilogue.gateway.observer import ByteObserver, Observer, Observers
from trilogue.gateway.record import RequestRecord
from trilogue.model import Failure, Protocol
from trilogue.net.client.transport import HttpTransport
from trilogue.net.server.listener import Listener
from trilogue.net.server.request import Head
from trilogue.net.server.responder import Headers
from trilogue.routing.pool.decision import Attempt

C, M = Protocol.CHAT, Protocol.MESSAGES
FIRST_KEY, SECOND_KEY = "up-key-of-first", "up-key-of-second"
CONFIG = """\
keys: [CLIENT_KEY]
pool: {persist: false}
server: {keepalive_seconds: 5, timeouts: {first_event: 0.5, between_events: 0.5}}
providers:
  chat:
    protocol: openai_chat_completions
    base_url: UPSTREAM/v1
    accounts: [{name: first, key: FIRST, priority: 1}, {name: second, key: SECOND, priority: 2}]
"""
RESPONDED = ["planned", "attempt", "response", "answered", "end"]
"""the moments of an ordinary request after it began"""


@dataclass
class Bytes(ByteObserver):
    """Keeps all bytes of one request."""

    head: Head
    inbound: bytes = b""
    sent: list[tuple[str, str, bytes]] = field(default_factory=list)
    """account, URL and body of each attempt"""
    heads: list[tuple[str, int]] = field(default_factory=list)
    received: list[tuple[str, bytes]] = field(default_factory=list)
    status: int = 0
    written: list[bytes] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def inbound_request(self, body: bytes) -> None:
        self.inbound = body

    def provider_request(self, attempt: Attempt, sent: Sent) -> None:
        self.sent.append((attempt.account, sent.url, sent.body))

    def upstream_head(self, attempt: Attempt, status: int, headers: Sequence[tuple[str, str]]) -> None:
        assert dict(headers)["content-type"]
        self.heads.append((attempt.account, status))

    def upstream_response(self, attempt: Attempt, data: bytes, at: float) -> None:
        self.received.append((attempt.account, data))
        self.times.append(at)

    def outbound_head(self, status: int, headers: Headers) -> None:
        assert dict(headers)[b"content-type"]
        self.status = status

    def outbound_response(self, data: bytes, at: float) -> None:
        self.written.append(data)
        self.times.append(at)


class Seen(Observer):
    """Keeps all moments of all requests."""

    def __init__(self) -> None:
        self.moments: list[str] = []
        self.failures: list[tuple[str, str, int]] = []
        """account, what the failure meant, and its status"""
        self.records: list[RequestRecord] = []
        self.bytes: list[Bytes] = []

    def request_began(self, record: RequestRecord) -> None:
        assert record.request_id
        assert not record.model
        self.moments.append("began")

    def bytes_observer(self, record: RequestRecord, head: Head) -> ByteObserver:
        assert self.moments[-1] == "began"
        self.bytes.append(Bytes(head))
        return self.bytes[-1]

    def request_planned(self, record: RequestRecord) -> None:
        assert record.model
        assert record.decision is not None
        self.moments.append("planned")

    def attempt_began(self, record: RequestRecord, attempt: Attempt) -> None:
        assert record.account == attempt.account
        self.moments.append("attempt")

    def response_began(self, record: RequestRecord) -> None:
        self.moments.append("response")

    def attempt_ended(self, record: RequestRecord, attempt: Attempt, failure: Failure | None) -> None:
        self.moments.append(attempt.action)
        if failure is not None:
            self.failures.append((attempt.account, attempt.why, failure.status or attempt.status))

    def request_ended(self, record: RequestRecord) -> None:
        assert record.ended_at >= record.began_at
        self.moments.append("end")
        self.records.append(record)


class Settled(Observer):
    """Keeps what is known when a request is settled, and the bytes that its client has got by then."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[bool, str | None]] = []
        """whether usage is known, and the error"""
        self.got: list[bytes] = []
        self._bytes: Bytes | None = None

    def bytes_observer(self, record: RequestRecord, head: Head) -> ByteObserver:
        self._bytes = Bytes(head)
        return self._bytes

    def request_settled(self, record: RequestRecord) -> None:
        assert self._bytes is not None
        self.outcomes.append((record.usage is not None, record.error))
        self.got.append(b"".join(self._bytes.written))


@dataclass
class Observed:
    """A gateway in this process, its upstream and what an observer has seen."""

    url: str
    app: GatewayApp
    worker: Worker
    up: ScriptedUpstream
    seen: Seen

    async def ask(self, client: Protocol, model: str, *, stream: bool, **more: Any) -> str:
        """Send a request; return how it ended for the client. The moments must begin as they should."""
        answer = await exchange(self.url, request(client, f"chat/{model}", stream=stream, **more))
        await self.ended()
        assert self.seen.moments.pop(0) == "began"
        return outcome(answer, client).how

    async def ended(self) -> None:
        await eventually_async(lambda: "end" in self.seen.moments)

    @property
    def record(self) -> RequestRecord:
        return self.seen.records[-1]

    @property
    def bytes(self) -> Bytes:
        return self.seen.bytes[-1]


@asynccontextmanager
async def observed(folder: Path, *further: Observer) -> AsyncIterator[Observed]:
    seen = Seen()
    async with ScriptedUpstream(keys=[FIRST_KEY, SECOND_KEY]) as up:
        text = CONFIG.replace("CLIENT_KEY", CLIENT_KEY).replace("UPSTREAM", up.url)
        file = folder / "trilogue.yaml"
        file.write_text(text.replace("FIRST", FIRST_KEY).replace("SECOND", SECOND_KEY))
        worker = Worker(
            folder / "pool.db",
            lambda: lambda _, proxy: HttpTransport(proxy=proxy),
            Sealer.ephemeral(),
            observers=[*further, seen],
        )
        app = GatewayApp(worker.gateway(load(file, {})))
        listener = Listener(app, not_http)
        with socket.create_server(("127.0.0.1", 0)) as sock:
            await listener.open(sock)
            try:
                yield Observed(f"http://127.0.0.1:{sock.getsockname()[1]}", app, worker, up, seen)
            finally:
                await listener.drain(0)
                await app.gateway.upstreams.aclose()
                await worker.aclose()


@pytest.mark.parametrize("client", [C, M], ids=["passed through", "translated"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_ordinary_requests(tmp_path: Path, client: Protocol, stream: bool) -> None:
    """All moments come once, and the record has everything that is known in the end."""

    async def main() -> None:
        async with observed(tmp_path) as run:
            assert await run.ask(client, "text", stream=stream) == "complete"
            assert run.seen.moments == RESPONDED
            record = run.record
            assert (record.status, record.error, record.failure) == (200, None, None)
            assert (record.client, record.upstream, record.stream) == (client.short, "chat", stream)
            assert (record.provider, record.account, record.upstream_model) == ("chat", "first", "text")
            assert record.usage is not None
            assert record.usage.output > 0
            assert record.decision is not None
            assert record.decision.outcome == "answered"
            assert next(iter(run.worker.history)) is record
            (attempt,) = record.decision.attempts
            assert attempt.protocol == "chat"
            assert attempt.connect is not None
            assert attempt.first_byte is not None
            assert attempt.ended is not None
            assert 0 <= attempt.started < attempt.started + attempt.connect <= attempt.first_byte <= attempt.ended
            assert (record.content_at is not None) is stream

    asyncio.run(main())


@pytest.mark.parametrize("client", [C, M], ids=["passed through", "translated"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_bytes(tmp_path: Path, client: Protocol, stream: bool) -> None:
    """The four sides of a request: what the client sent and got, what the upstream got and sent."""

    async def main() -> None:
        async with observed(tmp_path) as run:
            data = request(client, "chat/text", stream=stream)
            answer = await exchange(run.url, data)
            await run.ended()
            found = run.bytes
            assert (found.head.method, found.head.path) == ("POST", PATHS[client])
            assert found.head.headers["authorization"] == f"Bearer {CLIENT_KEY}"
            assert found.inbound == data.partition(b"\r\n\r\n")[2]
            assert found.sent == [("first", f"{run.up.url}/v1/chat/completions", run.up.last().body)]
            assert found.heads == [("first", 200)]
            assert (found.status, b"".join(found.written)) == (200, answer.body)
            upstream = b"".join(piece for _, piece in found.received)
            assert (upstream == answer.body) is (client is C)
            assert b"chatcmpl" in upstream
            assert found.times == sorted(found.times)
            assert (len(found.received) > 1) is stream

    asyncio.run(main())


@pytest.mark.parametrize("client", [C, M], ids=lambda client: client.short)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", ["text", "error-400", "reset-mid", "unknown"])
def test_requests_are_settled_before_they_end(tmp_path: Path, client: Protocol, stream: bool, model: str) -> None:
    """Each once, before the client has the last bytes, with usage or an error."""

    async def main() -> None:
        settled = Settled()
        async with observed(tmp_path, settled) as run:
            await run.ask(client, model, stream=stream)
            ((has_usage, error),) = settled.outcomes
            assert (has_usage, error is None) == (model == "text", model == "text")
            assert len(settled.got[0]) < len(b"".join(run.bytes.written))
            assert run.record.settled

    asyncio.run(main())


def test_losses_have_paths(tmp_path: Path) -> None:
    async def main() -> None:
        async with observed(tmp_path) as run:
            assert await run.ask(M, "text", stream=False, top_k=5) == "complete"
            assert ("param.dropped", "top_k") in [(loss.code, loss.path) for loss in run.record.losses]

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_failed_request(tmp_path: Path, stream: bool) -> None:
    """There is no response, and the record has the error that the client got."""

    async def main() -> None:
        async with observed(tmp_path) as run:
            assert await run.ask(C, "error-400", stream=stream) == "http"
            assert run.seen.moments == ["planned", "attempt", "client", "end"]
            assert [(account, status) for account, _, status in run.seen.failures] == [("first", 400)]
            assert run.record.status == 400
            assert run.record.failure is not None
            assert run.record.failure.status == 400
            assert run.record.error

    asyncio.run(main())


def test_a_request_that_is_refused_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with observed(tmp_path) as run:
            data = post(PATHS[C], payload(C, "chat/text", stream=False), {"connection": "close"}, key="another-key")
            assert (await exchange(run.url, data)).status == 401
            await run.ended()
            assert run.seen.moments == ["began", "end"]
            assert (run.record.status, run.record.error) == (401, "invalid_api_key")

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_retry_on_a_second_account(tmp_path: Path, stream: bool) -> None:
    """Both attempts are seen, and what the failure of the first one meant."""

    async def main() -> None:
        async with observed(tmp_path) as run:
            run.up.by_key[FIRST_KEY] = "error-429"
            assert await run.ask(C, "text", stream=stream) == "complete"
            assert run.seen.moments == ["planned", "attempt", "cooldown", *RESPONDED[1:]]
            assert run.seen.failures == [("first", "rate_limited", 429)]
            assert run.record.account == "second"
            assert [account for account, _, _ in run.bytes.sent] == ["first", "second"]
            assert run.bytes.heads == [("first", 429), ("second", 200)]

    asyncio.run(main())


def test_a_stream_that_breaks(tmp_path: Path) -> None:
    """The client has content already: there is no second attempt."""

    async def main() -> None:
        async with observed(tmp_path) as run:
            assert await run.ask(C, "reset-mid", stream=True) == "stream"
            assert run.seen.moments == ["planned", "attempt", "response", "next", "end"]
            assert run.record.status == 200
            assert run.record.failure is not None

    asyncio.run(main())


def test_a_stream_without_events_is_tried_elsewhere(tmp_path: Path) -> None:
    """The time limit of one attempt cancels that attempt, not the request."""

    async def main() -> None:
        async with observed(tmp_path) as run:
            run.up.say(stream_head([]), chunk(b": nothing\n\n"), Do.HANG)
            assert await run.ask(C, "text", stream=True) == "complete"
            assert run.seen.moments == ["planned", "attempt", "next", *RESPONDED[1:]]
            assert run.seen.failures[0][:2] == ("first", "timeout")

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_disconnects(tmp_path: Path, stream: bool) -> None:
    """The attempt is released: it says nothing about the account."""

    async def main() -> None:
        settled = Settled()
        async with observed(tmp_path, settled) as run:
            run.up.say(Do.HANG)
            _, writer = await asyncio.open_connection(*address(run.url))
            writer.write(request(C, "chat/text", stream=stream))
            await reached(run.up, 1)
            writer.close()
            await run.ended()
            assert settled.outcomes == [(False, "client_gone")]
            assert run.seen.moments == ["began", "planned", "attempt", "released", "end"]
            assert (run.record.status, run.record.error, run.seen.failures) == (499, "client_gone", [])

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_gateway_that_drains(tmp_path: Path, stream: bool) -> None:
    """The request ends with an error in the client's protocol."""

    async def main() -> None:
        async with observed(tmp_path) as run:
            run.up.say(Do.HANG)
            reader, writer = await asyncio.open_connection(*address(run.url))
            writer.write(request(C, "chat/text", stream=stream))
            await reached(run.up, 1)
            run.app.running.stop_all()
            data = b""
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    while not parse(data).whole:
                        data += await reader.read(65536)
            writer.close()
            assert parse(data).status == 503
            await run.ended()
            assert run.seen.moments == ["began", "planned", "attempt", "released", "end"]
            assert (run.record.status, run.record.error) == (503, "unavailable")
            assert json.loads(b"".join(run.bytes.written)) == parse(data).json

    asyncio.run(main())


class Broken(Observer):
    """Raises at every moment."""

    def request_began(self, record: RequestRecord) -> None:
        raise OSError("the disk is full")

    def bytes_observer(self, record: RequestRecord, head: Head) -> ByteObserver:
        raise OSError("the disk is full")

    def request_ended(self, record: RequestRecord) -> None:
        raise OSError("the disk is full")


def test_an_observer_that_raises_changes_nothing(tmp_path: Path) -> None:
    """Neither the request nor the other observers."""

    async def main() -> None:
        async with observed(tmp_path, Broken()) as run:
            assert await run.ask(C, "text", stream=True) == "complete"
            assert run.seen.moments == RESPONDED
            assert run.bytes.written

    asyncio.run(main())


class Ends(Observer):
    """Wants nothing but the end."""

    def request_ended(self, record: RequestRecord) -> None:
        """Do nothing."""


def test_moments_without_observers_cost_no_call() -> None:
    """Callers find None there. Only a byte observer makes them look at bytes."""
    found = Observers([Ends()])
    assert found.request_ended is not None
    names = ["request_began", "request_planned", "attempt_began", "response_began", "attempt_ended", "observe_bytes"]
    assert [getattr(found, name) for name in names] == [None] * len(names)


def test_every_moment_is_dispatched() -> None:
    """A method that is added to the interface must be called."""
    moments = {name for name, value in vars(Observer).items() if callable(value) and not name.startswith("_")}
    assert {name.replace("observe_bytes", "bytes_observer") for name in vars(Observers([]))} - {
        "_byte_factories"
    } == moments
