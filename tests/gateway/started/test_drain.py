"""Stopping: no stream is cut, nobody waits for ever."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from tests.gateway.process import PATIENT, Started, started, until
from tests.gateway.wire import (
    Answer,
    address,
    exchange,
    is_refused,
    outcome,
    parse,
    payload,
    post,
    reached,
    read_all,
    request,
)
from tests.scripted.ask import PATHS
from tests.scripted.server import ScriptedUpstream
from tests.timing import check_within, eventually_async, pause_for
from trilogue.model import Protocol

STREAMS = 24


async def asked_by_all(url: str, up: ScriptedUpstream, scenario: str) -> list[tuple[Protocol, asyncio.Task[Answer]]]:
    """Many streams of every client, all of them under way."""
    before = len(up.requests)
    clients = [list(Protocol)[number % 3] for number in range(STREAMS)]
    data = [request(client, f"messages/{scenario}", stream=True) for client in clients]
    tasks = [asyncio.create_task(exchange(url, one)) for one in data]
    await reached(up, before + STREAMS)
    return list(zip(clients, tasks, strict=True))


async def refuses(gateway: Started) -> None:
    """Wait until the gateway has begun to stop: it takes no new connections."""
    await eventually_async(lambda: is_refused(address(gateway.url)))


@pytest.mark.parametrize(
    ("scenario", "drain_seconds", "how"), [("slow-8-50", 60, "complete"), ("slow-200-50", 2, "stream")]
)
def test_running_streams_finish_or_get_an_error(
    tmp_path: Path, up: ScriptedUpstream, scenario: str, drain_seconds: int, how: str
) -> None:
    """On SIGTERM, streams that can finish in time do, the rest ends with an error, none is cut off; exit code 0."""
    config = PATIENT.replace("drain_seconds: 2", f"drain_seconds: {drain_seconds}")
    with started(tmp_path, config, up.url) as gateway:

        async def main() -> list[str]:
            running = await asked_by_all(gateway.url, up, scenario)
            gateway.signal(signal.SIGTERM)
            found = [(client, outcome(await task, client)) for client, task in running]
            for client, result in found:
                if result.how == "stream":
                    assert "shutting down" in result.message
                    assert client is not Protocol.MESSAGES or result.kind == "overloaded_error"
            return [result.how for _, result in found]

        assert set(asyncio.run(main())) == {how}
        assert gateway.process.wait(30) == 0
        assert "Traceback" not in gateway.log


def test_whole_responses_get_an_error_too(tmp_path: Path, up: ScriptedUpstream) -> None:
    """An answer that is not streamed and does not come in time: 503 instead of a cut connection."""
    with started(tmp_path, PATIENT, up.url) as gateway:

        async def main() -> None:
            before = len(up.requests)
            data = request(Protocol.CHAT, "messages/hang-before-headers", stream=False)
            task = asyncio.create_task(exchange(gateway.url, data))
            await reached(up, before + 1)
            gateway.signal(signal.SIGTERM)
            result = outcome(await task, Protocol.CHAT)
            assert (result.status, result.code) == (503, "unavailable")

        asyncio.run(main())
        assert gateway.process.wait(30) == 0


def test_a_request_that_is_still_being_sent_gets_a_response(tmp_path: Path, up: ScriptedUpstream) -> None:
    """SIGTERM while a body arrives: it is let in, as the drain allows."""
    with started(tmp_path, PATIENT, up.url) as gateway:

        async def main() -> Answer:
            reader, writer = await asyncio.open_connection(*address(gateway.url))
            body = payload(Protocol.CHAT, "chat/text", stream=False)
            data = post(PATHS[Protocol.CHAT], body, {"expect": "100-continue"})
            writer.write(data[:-10])
            # It waits for the rest.
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            gateway.signal(signal.SIGTERM)
            await refuses(gateway)
            writer.write(data[-10:])
            answer = parse(await read_all(reader, 3))
            writer.close()
            return answer

        assert outcome(asyncio.run(main()), Protocol.CHAT).how == "complete"
        assert gateway.process.wait(30) == 0


def test_an_idle_gateway_stops_at_once(tmp_path: Path) -> None:
    """Also with connections that are open and idle, and with Ctrl-C; no traceback."""
    with started(tmp_path, "server: {drain_seconds: 20}\n") as gateway:

        async def main() -> None:
            reader, writer = await asyncio.open_connection(*address(gateway.url))
            writer.write(b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            begun = time.monotonic()
            gateway.signal(signal.SIGINT)
            assert await asyncio.to_thread(gateway.process.wait, 30) == 0
            check_within(time.monotonic() - begun, 5)
            writer.close()

        asyncio.run(main())
        assert "Traceback" not in gateway.log


def test_it_is_not_ready_while_it_drains(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Whoever still reaches it is told so; new connections are not taken."""
    with started(tmp_path, PATIENT, up.url) as gateway:

        async def main() -> None:
            before = len(up.requests)
            stream = asyncio.create_task(exchange(gateway.url, request(Protocol.CHAT, "chat/slow-10-50", stream=True)))
            await reached(up, before + 1)
            reader, writer = await asyncio.open_connection(*address(gateway.url))
            gateway.signal(signal.SIGTERM)
            await refuses(gateway)
            writer.write(b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n")
            data = await read_all(reader, 2)
            assert not data or data.startswith(b"HTTP/1.1 503")
            writer.close()
            await refuses(gateway)
            assert outcome(await stream, Protocol.CHAT).how == "complete"

        asyncio.run(main())


def test_no_worker_leaves_connections_that_none_accepts(tmp_path: Path, up: ScriptedUpstream) -> None:
    """While workers drain, whoever connects is refused at once, and not by a reset when the last of them has gone."""
    with started(tmp_path, PATIENT, up.url, options=("--workers", "2")) as gateway:

        async def main() -> None:
            before = len(up.requests)
            stream = asyncio.create_task(exchange(gateway.url, request(Protocol.CHAT, "chat/slow-12-50", stream=True)))
            await reached(up, before + 1)
            gateway.signal(signal.SIGTERM)
            await refuses(gateway)
            await pause_for(0.2)  # it stays so: a worker that accepts no longer leaves nothing in the queue
            assert is_refused(address(gateway.url))
            assert outcome(await stream, Protocol.CHAT).how == "complete"

        asyncio.run(main())
        assert gateway.process.wait(30) == 0
        assert "Traceback" not in gateway.log


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_twice_means_at_once(tmp_path: Path, up: ScriptedUpstream, second: int, workers: str) -> None:
    """Row 38: the second signal does not wait for anybody, and leaves no process behind."""
    config = PATIENT.replace("drain_seconds: 2", "drain_seconds: 30")
    with started(tmp_path, config, up.url, options=("--workers", workers)) as gateway:

        async def main() -> None:
            before = len(up.requests)
            data = request(Protocol.CHAT, "messages/slow-200-50", stream=True)
            task = asyncio.create_task(exchange(gateway.url, data))
            await reached(up, before + 1)
            children = gateway.children()
            gateway.signal(signal.SIGTERM)
            await refuses(gateway)
            assert gateway.process.poll() is None
            begun = time.monotonic()
            gateway.signal(second)
            assert await asyncio.to_thread(gateway.process.wait, 30) == 128 + second
            check_within(time.monotonic() - begun, 5)
            await task
            until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))

        asyncio.run(main())
        assert "Traceback" not in gateway.log


def test_a_gateway_without_streams_logs_nothing_about_itself(tmp_path: Path) -> None:
    """A clean life leaves a log without a line above info, every line of it JSON."""
    with started(tmp_path, "server: {drain_seconds: 1}\n") as gateway:
        asyncio.run(exchange(gateway.url, b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
        gateway.signal(signal.SIGTERM)
        assert gateway.process.wait(30) == 0
        assert [line for line in gateway.lines if line["level"] != "info"] == []
