"""Signs of life in silence, and patience with clients that read slowly."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import pairwise

import anthropic
import openai
import pytest

from tests.gateway.process import Started, started
from tests.gateway.running import CLIENT_KEY, CONFIG
from tests.gateway.wire import address, exchange, outcome, request
from tests.scripted import thread
from tests.scripted.ask import PATHS, body
from tests.scripted.http import LAST_CHUNK, Step, chunk, json_answer, stream_head
from tests.scripted.scenario import TEXT
from tests.scripted.server import ScriptedUpstream
from tests.scripted.tokens import Ids
from tests.scripted.wire import WIRES
from trilogue.model import Protocol

INTERVAL = 0.2
LIVELY = (
    "server: {keepalive_seconds: 0.2, timeouts: {connect: 1, first_byte: 1, first_event: 1, between_events: 1}}\n"
    + CONFIG
)
EVERY_PAIR = pytest.mark.parametrize(
    ("client", "upstream"), [(client, upstream) for client in Protocol for upstream in Protocol],
)  # fmt: skip


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running() as running:
        yield running


@pytest.fixture(scope="module")
def lively(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A gateway that gives a sign of life five times a second."""
    with started(tmp_path_factory.mktemp("lively"), LIVELY, up.url, patch={"guard.WRITE_SECONDS": 1.0}) as gateway:
        yield gateway


def frames(protocol: Protocol) -> list[bytes]:
    wire = WIRES[PATHS[protocol]]
    return list(wire.stream(TEXT, wire.read(body(protocol, "text", stream=True, tools=False)), Ids(1)))


async def arrivals(url: str, data: bytes) -> list[tuple[float, bytes]]:
    """What came when, in seconds since the question."""
    reader, writer = await asyncio.open_connection(*address(url))
    start = time.monotonic()
    writer.write(data)
    found = []
    async with asyncio.timeout(8):
        while piece := await reader.read(65536):
            found.append((time.monotonic() - start, piece))
    writer.close()
    return found


@EVERY_PAIR
def test_silence_before_the_headers(lively: Started, client: Protocol, upstream: Protocol) -> None:
    """From the first moment, and the error that comes after it is told inside the stream."""
    data = request(client, f"{upstream.short}/hang-before-headers", stream=True)
    found = asyncio.run(arrivals(lively.url, data))
    times = [0.0, *(when for when, _ in found)]
    assert max(later - earlier for earlier, later in pairwise(times)) < INTERVAL + 0.15
    assert len(found) >= 4
    result = outcome(asyncio.run(exchange(lively.url, data)), client)
    assert result.how == "stream"
    assert "first byte" in result.message


@EVERY_PAIR
def test_silence_in_the_stream(lively: Started, up: ScriptedUpstream, client: Protocol, upstream: Protocol) -> None:
    """A ping that belongs to the message on Messages, a comment elsewhere; then the answer goes on."""
    events = [*map(chunk, frames(upstream))]
    up.say(stream_head([]), *events[:5], 0.7, *events[5:], LAST_CHUNK)
    data = request(client, f"{upstream.short}/text", stream=True)
    answer = asyncio.run(exchange(lively.url, data))
    assert outcome(answer, client).how == "complete"
    if client is Protocol.MESSAGES:
        assert answer.body.count(b"event: ping") >= 3
    else:
        assert answer.body.count(b": keepalive\n\n") >= 2
        assert b"ping" not in answer.body


@EVERY_PAIR
def test_an_error_after_a_sign_of_life(
    lively: Started, up: ScriptedUpstream, client: Protocol, upstream: Protocol
) -> None:
    """The status is gone by then, the error is not."""
    up.say(0.5, json_answer(500, [], {"error": {"message": "It broke.", "type": "server_error"}}))
    result = outcome(asyncio.run(exchange(lively.url, request(client, f"{upstream.short}/text", stream=True))), client)
    assert result.how == "stream"
    assert result.message == "It broke."


@pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: protocol.short)
def test_official_clients_do_not_notice(lively: Started, up: ScriptedUpstream, upstream: Protocol) -> None:
    """Comments and pings before, in and after the first event."""
    events = [*map(chunk, frames(upstream))]
    steps: tuple[Step, ...] = (0.3, stream_head([]), 0.3, *events[:5], 0.3, *events[5:], LAST_CHUNK)
    model = f"{upstream.short}/text"
    ours = openai.OpenAI(api_key=CLIENT_KEY, base_url=f"{lively.url}/v1", max_retries=0)
    theirs = anthropic.Anthropic(api_key=CLIENT_KEY, base_url=lively.url, max_retries=0)
    up.say(*steps)
    with ours.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hi"}], stream=True) as chunks:
        words = [choice.delta.content or "" for one in chunks for choice in one.choices]
    assert "".join(words).startswith("Hello from the scripted")
    up.say(*steps)
    with ours.responses.stream(model=model, input="Hi") as stream:
        assert stream.get_final_response().output_text.startswith("Hello from the scripted")
    up.say(*steps)
    with theirs.messages.stream(model=model, max_tokens=9, messages=[{"role": "user", "content": "Hi"}]) as messages:
        assert messages.get_final_text().startswith("Hello from the scripted")
    ours.close()
    theirs.close()


def flood(protocol: Protocol, mebibytes: int) -> list[bytes]:
    """A stream with a very long answer."""
    events = frames(protocol)
    word = next(event for event in events if b'" scripted"' in event)
    block = chunk(word.replace(b" scripted", b"x" * 16_000) * 4)
    return [stream_head([]), *map(chunk, events[: events.index(word)]), *[block] * (mebibytes * 16)]


@pytest.mark.parametrize(("client", "upstream"), [(Protocol.CHAT, Protocol.CHAT), (Protocol.MESSAGES, Protocol.CHAT)])
def test_a_slow_reader_slows_the_upstream(
    lively: Started, up: ScriptedUpstream, client: Protocol, upstream: Protocol
) -> None:
    """Row 32: 50 MiB for a client that hardly reads stay in the upstream. The silence is not the upstream's."""
    up.say(*flood(upstream, 50), LAST_CHUNK)
    before = lively.rss()

    async def main() -> int:
        reader, writer = await asyncio.open_connection(*address(lively.url), limit=1024)
        writer.write(request(client, f"{upstream.short}/text", stream=True))
        most = 0
        for _ in range(15):
            await reader.read(64 * 1024)
            await asyncio.sleep(0.1)
            most = max(most, lively.rss())
        writer.transport.abort()
        return most

    assert asyncio.run(main()) - before < 4 * 1024 * 1024
    assert not up.requests[-1].complete


def test_a_client_that_never_reads_is_given_up(lively: Started, up: ScriptedUpstream) -> None:
    """It must not hold its upstream for ever; the clock for writing is one second here."""
    up.say(*flood(Protocol.CHAT, 20), LAST_CHUNK)
    before = len(up.requests)

    async def main() -> None:
        _, writer = await asyncio.open_connection(*address(lively.url), limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(request(Protocol.CHAT, "chat/text", stream=True))
        async with asyncio.timeout(5):
            while len(up.requests) == before or up.requests[-1].closed is None:
                await asyncio.sleep(0.02)
        writer.transport.abort()

    asyncio.run(main())
    assert not up.requests[-1].complete
