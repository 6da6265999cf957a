"""Signs of life in silence, and patience with clients that read slowly."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product
from typing import Any

import anthropic
import openai
import pytest

from tests.gateway.process import Started, started
from tests.gateway.running import CLIENT_KEY, CONFIG
from tests.gateway.wire import Answer, address, exchange, outcome, parse, request
from tests.scripted.ask import PATHS, body
from tests.scripted.http import LAST_CHUNK, Step, chunk, json_answer, stream_head
from tests.scripted.scenario import TEXT
from tests.scripted.server import ScriptedUpstream
from tests.scripted.tokens import Ids
from tests.scripted.wire import WIRES
from tests.timing import check_within, eventually_async, pause_for
from trilogue.model import Protocol

INTERVAL = 0.2
LIVELY = (
    "server: {keepalive_seconds: 0.2, timeouts: {connect: 1, first_byte: 1, first_event: 1, between_events: 1}}\n"
    + CONFIG
)
PAIRS = list(product(Protocol, Protocol))
"""client and upstream; they wait at the same time, as waiting is all that most of these tests do"""
EVERY_UPSTREAM = pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: protocol.short)


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


def test_silence_before_the_headers(lively: Started) -> None:
    """From the first moment, and the error that comes after it is told inside the stream."""

    async def main() -> list[list[tuple[float, bytes]]]:
        asked = [request(client, f"{upstream.short}/hang-before-headers", stream=True) for client, upstream in PAIRS]
        return await asyncio.gather(*(arrivals(lively.url, data) for data in asked))

    for pair, found in zip(PAIRS, asyncio.run(main()), strict=True):
        times = [0.0, *(when for when, _ in found)]
        check_within(max(later - earlier for earlier, later in pairwise(times)), INTERVAL + 0.15)
        assert len(found) >= 4, pair
        result = outcome(parse(b"".join(piece for _, piece in found)), pair[0])
        assert result.how == "stream", pair
        assert "first byte" in result.message, pair


async def answers(url: str, upstream: Protocol) -> list[Answer]:
    """What clients of all protocols get, who ask at the same time."""
    asked = [request(client, f"{upstream.short}/text", stream=True) for client in Protocol]
    return await asyncio.gather(*(exchange(url, data) for data in asked))


@EVERY_UPSTREAM
def test_silence_in_the_stream(lively: Started, up: ScriptedUpstream, upstream: Protocol) -> None:
    """A ping that belongs to the message on Messages, a comment elsewhere; then the answer goes on."""
    events = [*map(chunk, frames(upstream))]
    for _ in Protocol:
        up.say(stream_head([]), *events[:5], 0.7, *events[5:], LAST_CHUNK)
    for client, answer in zip(Protocol, asyncio.run(answers(lively.url, upstream)), strict=True):
        assert outcome(answer, client).how == "complete", client
        if client is Protocol.MESSAGES:
            assert answer.body.count(b"event: ping") >= 3
        else:
            assert answer.body.count(b": keepalive\n\n") >= 2, client
            assert b"ping" not in answer.body, client


@EVERY_UPSTREAM
def test_an_error_after_a_keepalive(lively: Started, up: ScriptedUpstream, upstream: Protocol) -> None:
    """The status is gone by then, the error is not."""
    for _ in Protocol:
        up.say(0.5, json_answer(500, [], {"error": {"message": "It broke.", "type": "server_error"}}))
    for client, answer in zip(Protocol, asyncio.run(answers(lively.url, upstream)), strict=True):
        result = outcome(answer, client)
        assert result.how == "stream", client
        assert result.message.removesuffix(f" (provider {upstream.short})") == "Provider returned error: It broke.", (
            client
        )


@EVERY_UPSTREAM
def test_official_clients_do_not_notice(lively: Started, up: ScriptedUpstream, upstream: Protocol) -> None:
    """Comments and pings before, in and after the first event."""
    events = [*map(chunk, frames(upstream))]
    steps: tuple[Step, ...] = (0.3, stream_head([]), 0.3, *events[:5], 0.3, *events[5:], LAST_CHUNK)
    model = f"{upstream.short}/text"
    ours = openai.OpenAI(api_key=CLIENT_KEY, base_url=f"{lively.url}/v1", max_retries=0)
    theirs = anthropic.Anthropic(api_key=CLIENT_KEY, base_url=lively.url, max_retries=0)
    hi: Any = [{"role": "user", "content": "Hi"}]

    def chat() -> str:
        with ours.chat.completions.create(model=model, messages=hi, stream=True) as chunks:
            return "".join(choice.delta.content or "" for one in chunks for choice in one.choices)

    def responses() -> str:
        with ours.responses.stream(model=model, input="Hi") as stream:
            return stream.get_final_response().output_text

    def messages() -> str:
        with theirs.messages.stream(model=model, max_tokens=9, messages=hi) as stream:
            return stream.get_final_text()

    with ours, theirs, ThreadPoolExecutor() as threads:
        clients = (chat, responses, messages)
        for _ in clients:
            up.say(*steps)
        for asked in [threads.submit(client) for client in clients]:
            assert asked.result().startswith("Hello from the scripted")


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
            await pause_for(0.1)
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
        await eventually_async(lambda: len(up.requests) > before and up.requests[-1].closed is not None)
        writer.transport.abort()

    asyncio.run(main())
    assert not up.requests[-1].complete


@EVERY_UPSTREAM
def test_a_slow_upload_is_no_silence(lively: Started, up: ScriptedUpstream, upstream: Protocol) -> None:
    """The interval begins when the request is here: a refusal that comes soon after is still an HTTP error."""
    head, _, asked = request(upstream, f"{upstream.short}/text", stream=True).partition(b"\r\n\r\n")
    up.say(0.05, json_answer(400, [], {"error": {"type": "invalid_request_error", "message": "no"}}))

    async def main() -> bytes:
        reader, writer = await asyncio.open_connection(*address(lively.url))
        writer.write(head + b"\r\n\r\n")
        await pause_for(2 * INTERVAL)
        writer.write(asked)
        async with asyncio.timeout(8):
            line = await reader.readline()
        writer.close()
        return line

    assert asyncio.run(main()).startswith(b"HTTP/1.1 400 ")
