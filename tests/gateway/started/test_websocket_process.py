"""WebSocket connections and the life of the gateway's process: drain, reload, settings, and what is left on disk."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.gateway.process import PATIENT, Started, started
from tests.gateway.running import CLIENT_KEY
from tests.gateway.sockets import KEY, Socket, socket_to, text_of
from tests.gateway.wire import address
from tests.scripted.server import ScriptedUpstream
from tests.serving.raw_websocket import OFFER, PING, TEXT, connected, request
from trilogue.model import Protocol

UPSTREAMS = [protocol.short for protocol in Protocol]


def close_code(socket: Socket) -> int:
    """Return the code with which the gateway closes a connection after the current response."""
    with pytest.raises(ConnectionClosed) as error:
        socket.event()
    assert error.value.rcvd is not None
    return error.value.rcvd.code


@pytest.mark.parametrize(("model", "seconds", "end"), [
    ("slow-8-50", 60, "response.completed"), ("slow-200-50", 2, "response.failed"),
])  # fmt: skip
def test_drain(tmp_path: Path, up: ScriptedUpstream, model: str, seconds: int, end: str) -> None:
    """A running response finishes or gets an error. What waits is not started. Idle connections are closed at once."""
    config = PATIENT.replace("drain_seconds: 2", f"drain_seconds: {seconds}")
    with started(tmp_path, config, up.url) as gateway:
        with socket_to(gateway.url) as busy, socket_to(gateway.url) as idle:
            busy.create(f"chat/{model}")
            assert busy.event()["type"] == "response.created"
            busy.create("messages/text")
            before = len(up.requests)
            gateway.signal(signal.SIGTERM)
            assert close_code(idle) == 1012
            assert busy.events()[-1]["type"] == end
            assert close_code(busy) == 1012
            assert len(up.requests) == before
        assert gateway.process.wait(30) == 0


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_without_state(tmp_path: Path, up: ScriptedUpstream, upstream: str) -> None:
    """The connection remembers, even if the gateway keeps nothing."""
    with started(tmp_path, PATIENT + "state: none\n", up.url) as gateway, socket_to(gateway.url) as socket:
        previous = None
        for turn in range(3):
            end = socket.ask(f"{upstream}/text", f"This is turn {turn}.", previous_response_id=previous)
            assert end["type"] == "response.completed"
            previous = end["response"]["id"]
        history = up.last().body.decode()
        assert all(f"This is turn {turn}." in history for turn in range(3))


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_nothing_is_written_without_store(tmp_path: Path, up: ScriptedUpstream, upstream: str) -> None:
    with started(tmp_path, PATIENT, up.url) as gateway, socket_to(gateway.url) as socket:
        kept = socket.ask(f"{upstream}/text", "canary of a stored request")["response"]["id"]
        gone = socket.ask(f"{upstream}/text", "canary of an unstored request", store=False)["response"]["id"]
        socket.ask(f"{upstream}/text", "more", store=False, previous_response_id=gone)
        files = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        assert kept.encode() in files
        assert gone.encode() not in files
        assert b"canary of an unstored" not in files


def test_a_key_that_is_taken_away(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Every request is checked with the current configuration."""
    with started(tmp_path, PATIENT, up.url) as gateway, socket_to(gateway.url) as socket:
        assert socket.ask("chat/text")["type"] == "response.completed"
        text = gateway.config_file.read_text()
        gateway.config_file.write_text(text.replace("env:TRILOGUE_KEY", "another-key-canary"))
        gateway.signal(signal.SIGHUP)
        gateway.wait_for_log("reloaded")
        error = socket.ask("chat/text")
        assert (error["status"], error["error"]["code"]) == (401, "invalid_api_key")
        assert CLIENT_KEY not in json.dumps(error)


def test_lifetime(tmp_path: Path, up: ScriptedUpstream) -> None:
    """After an hour the connection is closed with the code of the API, but not during a response."""
    patch = "import trilogue.gateway.endpoints.websocket as endpoint; endpoint.LIFETIME_SECONDS = 0.5"
    with started(tmp_path, PATIENT, up.url, patch=patch) as gateway, socket_to(gateway.url) as socket:
        began = time.monotonic()
        assert socket.ask("chat/slow-20-50")["type"] == "response.completed"
        assert time.monotonic() - began > 0.5
        error = socket.event()
        assert (error["status"], error["error"]["code"]) == (400, "websocket_connection_limit_reached")
        assert close_code(socket) == 1001


@pytest.mark.parametrize(("headers", "status"), [
    ((("origin", "https://evil.example"),), 403), ((("origin", "http://localhost:3000"),), 101), ((), 101),
])  # fmt: skip
def test_web_pages_and_a_gateway_without_keys(local: Started, headers: Any, status: int) -> None:
    """Browsers let any page open a WebSocket to this machine; only the Origin shows which page it is."""
    if status == 101:
        with socket_to(local.url, headers) as socket:
            assert socket.ask("chat/text")["type"] == "response.completed"
        return
    with pytest.raises(InvalidStatus) as error, socket_to(local.url, headers):
        pass
    assert error.value.response.status_code == status


def test_pings_during_a_long_silence(tmp_path: Path, up: ScriptedUpstream) -> None:
    """They keep the connection open in proxies, and are no events of the response."""
    create = json.dumps({"type": "response.create", "model": "chat/hang-mid", "input": "Hi"}).encode()

    async def frames(url: str) -> list[int]:
        headers = f"{OFFER}authorization: Bearer {CLIENT_KEY}\r\n"
        raw = await connected(*address(url), request("/v1/responses", headers))
        async with asyncio.timeout(10):
            await raw.head()
            raw.send(TEXT, create)
            found: list[int] = []
            while found[-3:] != [PING] * 3:
                received = await raw.receive()
                found.append(received.opcode)
                assert received.opcode == PING or b'"type":"response.' in received.data
        raw.writer.close()
        return found

    config = PATIENT.replace("keepalive_seconds: 5", "keepalive_seconds: 0.1")
    with started(tmp_path, config, up.url) as gateway:
        assert TEXT in asyncio.run(frames(gateway.url))


def test_workers(tmp_path: Path, up: ScriptedUpstream) -> None:
    """A connection belongs to one worker; what is stored can be continued through any."""
    config = PATIENT.replace("server:\n", "server:\n  workers: 2\n")
    with started(tmp_path, config, up.url) as gateway:
        previous = None
        for turn in range(6):
            with socket_to(gateway.url, KEY) as socket:
                end = socket.ask("messages/text", f"This is turn {turn}.", previous_response_id=previous)
                assert text_of(end)
                previous = end["response"]["id"]
        assert "This is turn 0." in up.last().body.decode()
