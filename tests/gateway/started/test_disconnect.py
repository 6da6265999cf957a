"""A client that leaves, at whatever stage: the upstream is let go within 100 ms. One that only stops sending stays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.gateway.process import SHORT, Started, started, until
from tests.gateway.running import CONFIG
from tests.gateway.wire import CASES, address, exchange, name, outcome, parse, payload, post, reached, read_all, request
from tests.scripted.ask import PATHS
from tests.scripted.server import ScriptedUpstream
from tests.timing import check_within
from trilogue.model import Protocol

SECONDS = 0.1
PATIENT = SHORT.replace("0.6", "30").replace("2.5", "60") + CONFIG
"""Clocks so long that nothing but the client's leaving can end a request."""

EVERY_CASE = pytest.mark.parametrize(("client", "upstream", "stream"), CASES, ids=map(name, CASES))
EVERY_CLIENT = pytest.mark.parametrize("client", Protocol, ids=lambda protocol: protocol.short)


@pytest.fixture(scope="module")
def patient(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A gateway that waits for ever."""
    with started(tmp_path_factory.mktemp("patient"), PATIENT, up.url) as gateway:
        yield gateway


async def leave(url: str, data: bytes, ready: Callable[[asyncio.StreamReader], Awaitable[None]]) -> float:
    """Ask, wait until the stage is reached, close; when that was."""
    reader, writer = await asyncio.open_connection(*address(url))
    writer.write(data)
    await ready(reader)
    left = time.monotonic()
    writer.close()
    return left


def check_let_go(up: ScriptedUpstream, before: int, left: float) -> None:
    """The upstream has seen the end of its connection in time."""
    assert len(up.requests) == before + 1
    asked = up.requests[-1]
    until(lambda: asked.closed is not None)
    assert asked.closed is not None
    check_within(asked.closed - left, SECONDS)
    assert not asked.complete


def asked(up: ScriptedUpstream, before: int) -> Callable[[asyncio.StreamReader], Awaitable[None]]:
    """Until the request has reached the upstream."""

    async def ready(_: asyncio.StreamReader) -> None:
        await reached(up, before + 1)

    return ready


def received(text: bytes) -> Callable[[asyncio.StreamReader], Awaitable[None]]:
    """Until the client has this."""

    async def ready(reader: asyncio.StreamReader) -> None:
        await asyncio.wait_for(reader.readuntil(text), 5)

    return ready


@EVERY_CASE
@pytest.mark.parametrize("scenario", ["hang-before-headers", "hang-after-headers"])
def test_while_waiting(
    patient: Started, up: ScriptedUpstream, client: Protocol, upstream: Protocol, stream: bool, scenario: str
) -> None:
    """Before the upstream's headers, and between them and the first event."""
    before = len(up.requests)
    data = request(client, f"{upstream.short}/{scenario}", stream=stream)
    check_let_go(up, before, asyncio.run(leave(patient.url, data, asked(up, before))))


@pytest.mark.parametrize("upstream", Protocol, ids=lambda protocol: protocol.short)
@EVERY_CLIENT
@pytest.mark.parametrize(("scenario", "text"), [("slow-50-50", b"word0"), ("slow-50-50", b"word5"), ("hang-mid", b"o")])
def test_in_the_stream(
    patient: Started, up: ScriptedUpstream, client: Protocol, upstream: Protocol, scenario: str, text: bytes
) -> None:
    """At the first token, in the middle, and in a silence in the middle."""
    before = len(up.requests)
    data = request(client, f"{upstream.short}/{scenario}", stream=True)
    check_let_go(up, before, asyncio.run(leave(patient.url, data, received(text))))


@EVERY_CLIENT
def test_while_sending(patient: Started, up: ScriptedUpstream, client: Protocol) -> None:
    """Half a body: nothing was sent upstream, nothing is logged as a failure of ours."""
    before = len(up.requests)
    data = post(PATHS[client], payload(client, "chat/text", stream=True), {"expect": "100-continue"})
    asyncio.run(leave(patient.url, data[:-20], received(b"100 Continue\r\n\r\n")))
    until(lambda: patient.lines[-1].get("error") == "client_gone")
    assert len(up.requests) == before
    assert {line["level"] for line in patient.lines} == {"info"}


def test_the_connection_is_reset(patient: Started, up: ScriptedUpstream) -> None:
    """A client that dies without a farewell."""
    before = len(up.requests)

    async def main() -> float:
        reader, writer = await asyncio.open_connection(*address(patient.url))
        writer.write(request(Protocol.CHAT, "messages/slow-50-50", stream=True))
        await reader.readuntil(b"word1")
        left = time.monotonic()
        writer.transport.abort()
        return left

    check_let_go(up, before, asyncio.run(main()))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@EVERY_CLIENT
def test_half_closed_clients_get_their_response(patient: Started, client: Protocol, stream: bool) -> None:
    """Row 33: who only stops sending is still there to read, and asks to be told of the end by a close."""

    async def main() -> bytes:
        reader, writer = await asyncio.open_connection(*address(patient.url))
        writer.write(post(PATHS[client], payload(client, "chat/slow-10-50", stream=stream)))
        writer.write_eof()
        data = await read_all(reader, 5)
        writer.close()
        return data

    answer = parse(asyncio.run(main()))
    assert outcome(answer, client).how == "complete"
    assert b"word9" in answer.body


def test_a_client_that_leaves_is_logged_in_one_line(patient: Started, up: ScriptedUpstream) -> None:
    """With what is known of it, and not as an error."""
    before = len(up.requests)
    data = request(Protocol.MESSAGES, "chat/slow-50-50", stream=True)
    asyncio.run(leave(patient.url, data, received(b"word1")))
    until(lambda: up.requests[-1].closed is not None and len(up.requests) > before)
    until(lambda: patient.lines[-1].get("model") == "chat/slow-50-50")
    assert patient.lines[-1]["error"] == "client_gone"
    assert patient.lines[-1]["level"] == "info"


def test_others_do_not_notice(patient: Started) -> None:
    """A hundred clients that leave take nothing away from one that stays."""

    async def main() -> str:
        staying = asyncio.create_task(
            exchange(patient.url, request(Protocol.CHAT, "responses/slow-20-20", stream=True))
        )
        for _ in range(100):
            await leave(patient.url, request(Protocol.CHAT, "messages/hang-mid", stream=True), received(b"o"))
        return outcome(await staying, Protocol.CHAT).how

    assert asyncio.run(main()) == "complete"
