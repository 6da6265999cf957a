"""A conversation is taken by one request at a time, and given back whatever becomes of that request."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.process import Started, started
from tests.gateway.running import CLIENT_KEY
from tests.gateway.sockets import socket_to
from tests.gateway.wire import Answer, address, exchange, post, reached
from tests.scripted.server import ScriptedUpstream
from trilogue.base.json_text import dump

CONFIG = """\
server:
  drain_seconds: 1
  timeouts: {connect: 5, first_byte: 5, first_event: 5, between_events: 5, total: 20}
keys:
  - {name: plain, key: env:TRILOGUE_KEY}
  - {name: judged, key: key-of-judged, policies: [words, asks], owner: plain}
pool:
  rules: [{status: 500, action: client}, {status: 429, action: next}]
policies:
  words: {use: block_phrases, phrases: [forbidden words]}
  asks: {use: judge, model: chat/error-500, look_at: [text], on_error: closed}
providers:
  chat: {protocol: openai_chat_completions, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]}
  responses: {protocol: openai_responses, base_url: UPSTREAM/v1, accounts: [{key: env:UP_KEY}]}
  native:
    protocol: openai_responses
    base_url: UPSTREAM/v1
    accounts: [{key: env:UP_KEY}]
    profile: {compacts: true}
"""
PATCH = """\
import os
import trilogue.gateway.endpoints.background as background
import trilogue.gateway.conversations.store.conversations as conversations
from trilogue.storage.database import StoreUnavailable
def failing(original, text, error):
    def replaced(*args):
        if os.path.exists(os.environ["FAULTS"] + "/" + text):
            raise error
        return original(*args)
    return replaced
background._opening = failing(background._opening, "opening", RuntimeError("no opening"))
stored = conversations.Conversations
stored.all_items = failing(stored.all_items, "reading", StoreUnavailable("cannot be read"))
"""
"""Faults of the gateway itself that a test switches on with a file."""
JUDGED = "key-of-judged"
SOON = 4.0
"""Seconds after which a conversation is free. Requests wait five seconds for one; a lost lease lasts a minute."""
COMPACT = "/v1/responses/compact"
RESPONSES = "/v1/responses"
TRIGGER: Any = [{"role": "user", "content": "Hi"}, {"type": "compaction_trigger"}]

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "whole": (RESPONSES, {}),
    "stream": (RESPONSES, {"stream": True}),
    "unstored": (RESPONSES, {"store": False}),
    "background": (RESPONSES, {"background": True}),
    "background stream": (RESPONSES, {"background": True, "stream": True}),
    "compact": (COMPACT, {}),
    "trigger": (RESPONSES, {"input": TRIGGER}),
}
"""the requests that take a conversation, but for those over a WebSocket"""
EVERY_WAY = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a file switches a fault on."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def serving(_upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory, faults: Path) -> Iterator[Started]:
    folder, environ = tmp_path_factory.mktemp("leases"), {"FAULTS": str(faults)}
    with started(folder, CONFIG, _upstream.url, patch=PATCH, environ=environ) as gateway:
        yield gateway


def sent(way: str, model: str, conversation: str, key: str = CLIENT_KEY, **more: Any) -> bytes:
    """Return the bytes of a request."""
    path, fields = WAYS[way]
    body = dump({"model": model, "input": "Hi", "conversation": conversation, **fields, **more})
    return post(path, body, {"connection": "close"}, key=key)


def ask(gateway: Started, data: bytes) -> Answer:
    return asyncio.run(exchange(gateway.url, data))


def made(gateway: Started) -> str:
    """Return a new conversation."""
    answer = ask(gateway, post("/v1/conversations", b"{}", {"connection": "close"}))
    return str(answer.json["id"])


def check_free(gateway: Started, conversation: str) -> None:
    """Fail if the next request with a conversation is not served soon."""
    began = time.monotonic()
    answer = ask(gateway, sent("whole", "chat/text", conversation))
    assert (answer.status, answer.json.get("error")) == (200, None)
    assert time.monotonic() - began < SOON


@EVERY_WAY
@pytest.mark.parametrize("model", ["chat/text", "responses/text", "native/text"])
def test_after_a_response(serving: Started, up: ScriptedUpstream, way: str, model: str) -> None:
    conversation = made(serving)
    if model == "native/text" and way in ("compact", "trigger"):
        up.say(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
    assert ask(serving, sent(way, model, conversation)).status in (200, 502)
    check_free(serving, conversation)


@EVERY_WAY
@pytest.mark.parametrize(
    "model",
    ["chat/error-500", "responses/error-429", "chat/reset-mid", "chat/reset-before-headers", "nowhere/text"],
)
def test_after_a_failure(serving: Started, up: ScriptedUpstream, way: str, model: str) -> None:
    """The upstream fails before or in its response, or there is none for the model."""
    conversation = made(serving)
    ask(serving, sent(way, model, conversation))
    check_free(serving, conversation)


@EVERY_WAY
@pytest.mark.parametrize("scenario", ["hang-before-headers", "hang-after-headers", "slow-200-50"])
def test_after_the_client_has_gone(serving: Started, up: ScriptedUpstream, way: str, scenario: str) -> None:
    """The client leaves while the upstream thinks or responds. A job goes on; it is cancelled."""
    conversation = made(serving)

    async def main() -> str:
        reader, writer = await asyncio.open_connection(*address(serving.url))
        writer.write(sent(way, f"chat/{scenario}", conversation))
        await reached(up, 1)
        head = await reader.readuntil(b"\r\n\r\n") if way.startswith("background") else b""
        body = await reader.read(65536) if head else b""
        writer.close()
        await writer.wait_closed()
        return body.partition(b'"id":"')[2].partition(b'"')[0].decode()

    job = asyncio.run(main())
    if job:
        cancelled = ask(serving, post(f"{RESPONSES}/{job}/cancel", b"", {"connection": "close"}))
        assert cancelled.json["status"] == "cancelled"
    check_free(serving, conversation)


@EVERY_WAY
@pytest.mark.parametrize("fault", ["opening", "reading"])
def test_after_a_fault_of_the_gateway(
    serving: Started, up: ScriptedUpstream, faults: Path, way: str, fault: str
) -> None:
    """The conversation is taken, and then its items cannot be read or the job cannot be made."""
    conversation, switch = made(serving), faults / fault
    switch.touch()
    try:
        status = ask(serving, sent(way, "chat/text", conversation)).status
    finally:
        switch.unlink()
    assert status >= 500 or (fault == "opening" and not way.startswith("background"))
    check_free(serving, conversation)


@EVERY_WAY
@pytest.mark.parametrize("words", ["forbidden words", "Hi"])
def test_after_a_verdict(serving: Started, up: ScriptedUpstream, way: str, words: str) -> None:
    """A policy stops the request, or fails while it is judged."""
    conversation = made(serving)
    given: Any = [{"role": "user", "content": words}, *(TRIGGER[1:] if way == "trigger" else ())]
    ask(serving, sent(way, "chat/text", conversation, JUDGED, input=given))
    check_free(serving, conversation)


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("chat/text", {}),
        ("chat/error-500", {}),
        ("nowhere/text", {}),
        ("chat/text", {"generate": False}),
        ("nowhere/text", {"generate": False}),
    ],
)
def test_after_a_message(serving: Started, up: ScriptedUpstream, model: str, fields: dict[str, Any]) -> None:
    """The same over a WebSocket."""
    conversation = made(serving)
    with socket_to(serving.url) as socket:
        socket.ask(model, conversation=conversation, **fields)
        check_free(serving, conversation)


def test_after_a_socket_was_closed(serving: Started, up: ScriptedUpstream) -> None:
    conversation = made(serving)
    with socket_to(serving.url) as socket:
        socket.create("chat/slow-200-50", conversation=conversation)
        socket.event()
    check_free(serving, conversation)


def test_while_another_request_waits(serving: Started, up: ScriptedUpstream) -> None:
    """A client that leaves while it waits for a conversation does not get it later."""
    conversation = made(serving)

    async def main() -> None:
        first = asyncio.create_task(exchange(serving.url, sent("whole", "chat/slow-20-50", conversation)))
        await reached(up, 1)
        others = [await asyncio.open_connection(*address(serving.url)) for _ in range(20)]
        for _, writer in others:
            writer.write(sent("whole", "chat/text", conversation))
        await first
        for _, writer in others:
            writer.close()

    asyncio.run(main())
    check_free(serving, conversation)


@EVERY_WAY
def test_after_a_stop(up: ScriptedUpstream, tmp_path: Path, way: str) -> None:
    """A gateway that is stopped gives back what its requests have: the next one with the same state can use it."""
    with started(tmp_path, CONFIG, up.url) as gateway:
        conversation = made(gateway)

        async def main() -> None:
            asking = asyncio.create_task(exchange(gateway.url, sent(way, "chat/hang-before-headers", conversation)))
            await reached(up, 1)
            gateway.signal(signal.SIGTERM)
            await asking

        asyncio.run(main())
        assert gateway.process.wait(30) == 0
    with started(tmp_path, CONFIG, up.url) as gateway:
        check_free(gateway, conversation)
        assert "Traceback" not in gateway.log
