"""Large bodies: nobody else waits while one is read and translated, and none holds more than it may."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.gateway.process import PATIENT, Started, started
from tests.gateway.wire import address, exchange, outcome, payload, post, request
from tests.scripted.server import ScriptedUpstream
from tests.timing import check_within, eventually_async, with_tries
from trilogue.base.json_text import LARGE_BYTES, MOST_FIELDS
from trilogue.model import Protocol

SLOW_SECONDS = 1.0
SLOWED = f"""
import sys, threading
import trilogue.gateway.request.call as call, trilogue.gateway.request.request as watch
import trilogue.gateway.request.outbound as outbound, trilogue.gateway.response.whole as whole
import trilogue.gateway.endpoints.generate as complete, trilogue.gateway.endpoints.count_tokens as tokens

def slowed(module, name):
    real = getattr(module, name)
    def slow(*args, **options):
        print("step begins", file=sys.stderr, flush=True)
        threading.Event().wait({SLOW_SECONDS})
        print("step ends", file=sys.stderr, flush=True)
        return real(*args, **options)
    setattr(module, name, slow)

"""
"""for a gateway in which one step takes a second, as if the body were as large as that"""
STEPS = {
    "look": "slowed(watch, 'read_asked'); slowed(complete, 'read_asked')",
    "translate": "slowed(outbound, 'translate_request_with')",
    "pass on": "slowed(outbound, 'with_model')",
    "answer": "slowed(whole, 'translate_response')",
    "estimate": "slowed(tokens, 'estimate')",
}
HEALTH = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
LONG = "many words " * (LARGE_BYTES // 10)


async def meanwhile(gateway: Started, data: bytes) -> float:
    """How long others wait for their answer while this request is being answered."""
    asked = asyncio.create_task(exchange(gateway.url, data))
    await eventually_async(lambda: "step begins" in gateway.log)
    start = time.monotonic()
    assert (await exchange(gateway.url, HEALTH)).status == 200
    seconds = time.monotonic() - start
    assert not asked.done()
    assert (await asked).status == 200
    return seconds


def long_answer() -> bytes:
    """A whole Chat answer of some hundred kilobytes."""
    body = b'{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",'
    body += b'"message":{"role":"assistant","content":"%b"}}]}' % LONG.encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize("step", STEPS)
@with_tries
def test_others_get_a_response_meanwhile(tmp_path: Path, up: ScriptedUpstream, step: str) -> None:
    """Every step that takes as long as the body is large is done beside the event loop."""
    data = request(Protocol.MESSAGES, "chat/text", stream=False, system=LONG)
    if step == "pass on":
        data = request(Protocol.CHAT, "chat/text", stream=False, user=LONG)
    elif step == "answer":
        data = request(Protocol.MESSAGES, "chat/text", stream=False)
        up.say(long_answer())
    elif step == "estimate":
        body = payload(Protocol.MESSAGES, "chat/text", stream=False, system=LONG)
        data = post("/v1/messages/count_tokens", body)
    with started(tmp_path, PATIENT, up.url, patch=SLOWED + STEPS[step]) as gateway:
        check_within(asyncio.run(meanwhile(gateway, data)), SLOW_SECONDS / 2)


def test_a_client_that_leaves_meanwhile_leaves_no_trace(tmp_path: Path, up: ScriptedUpstream) -> None:
    """Nothing is sent upstream for a client that has gone while its body was looked at."""
    with started(tmp_path, PATIENT, up.url, patch=SLOWED + STEPS["look"]) as gateway:

        async def main() -> None:
            before = len(up.requests)
            _, writer = await asyncio.open_connection(*address(gateway.url))
            writer.write(request(Protocol.MESSAGES, "chat/text", stream=False, system=LONG))
            await writer.drain()
            await eventually_async(lambda: "step begins" in gateway.log)
            writer.transport.abort()
            await eventually_async(lambda: "step ends" in gateway.log and "client_gone" in gateway.log)
            assert len(up.requests) == before

        asyncio.run(main())


@pytest.mark.parametrize("client", Protocol, ids=lambda protocol: protocol.short)
def test_more_fields_than_any_request_has(tmp_path: Path, up: ScriptedUpstream, client: Protocol) -> None:
    """Translated: refused, in the client's own shape, before it is parsed. Passed through: it is the upstream's, but
    for the Chat provider here, whose profile says what requests are made to fit.
    """
    other = "chat" if client is not Protocol.CHAT else "messages"
    crowd = {f"x{number}": 1 for number in range(MOST_FIELDS)}
    with started(tmp_path, PATIENT, up.url) as gateway:
        refused = asyncio.run(exchange(gateway.url, request(client, f"{other}/text", stream=True, metadata=crowd)))
        found = outcome(refused, client)
        assert (found.status, found.kind if client is Protocol.MESSAGES else found.code) == (413, "request_too_large")
        assert str(MOST_FIELDS) in found.message
        if client is Protocol.CHAT:
            return
        asked = request(client, f"{client.short}/text", stream=False, metadata=crowd)
        assert outcome(asyncio.run(exchange(gateway.url, asked)), client).how == "complete"
        assert len(up.last().body) > 10 * MOST_FIELDS


def test_long_texts_are_no_crowd(tmp_path: Path, up: ScriptedUpstream) -> None:
    """However many signs of JSON stand in a text."""
    text = '{"a":[1,2,"b\\"]}' * MOST_FIELDS
    asked = request(Protocol.MESSAGES, "chat/text", stream=False, system=text)
    with started(tmp_path, PATIENT, up.url) as gateway:
        assert outcome(asyncio.run(exchange(gateway.url, asked)), Protocol.MESSAGES).how == "complete"
