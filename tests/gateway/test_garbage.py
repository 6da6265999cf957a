"""Nothing of a request outlives it, however it ends: what holds itself would wait for the collector, body and all."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gateway.process import QUICK, Started, started, until
from tests.gateway.running import CONFIG
from tests.gateway.wire import CASES, address, exchange, post, reached, request
from tests.scripted import thread
from tests.scripted.ask import PATHS, body
from tests.scripted.http import Do, Step, chunk, head, stream_head
from tests.scripted.server import ScriptedUpstream
from tests.timing import eventually_async
from trilogue.model import Protocol

WATCHED = """
import atexit, collections, gc

def tell():
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    found = collections.Counter(type(one).__name__ for one in gc.garbage)
    print("garbage", __import__("json").dumps(found), file=sys.stderr)

gc.disable()
gc.enable = lambda: None
atexit.register(tell)
"""
OURS = {
    "RequestContext",
    "RequestAttempts",
    "UpstreamAttempt",
    "ClientResponse",
    "StreamRelay",
    "Cancellation",
    "TimeLimits",
    "AttemptPlan",
    "HttpRequest",
    "HttpExchange",
    "ClientConnection",
    "Connection",
    "frame",
}
TIMES = 3

Ending = Callable[[Started, ScriptedUpstream, bool], None]


def after(*steps: Step) -> Ending:
    """The upstream does this, and the client waits for its answer."""

    def end(gateway: Started, up: ScriptedUpstream, stream: bool) -> None:
        up.say(*steps)
        asyncio.run(exchange(gateway.url, request(Protocol.CHAT, "messages/text", stream=stream)))

    return end


def answered(gateway: Started, up: ScriptedUpstream, stream: bool) -> None:
    """As it should be."""
    asyncio.run(exchange(gateway.url, request(Protocol.CHAT, "messages/text", stream=stream)))


def refused(gateway: Started, up: ScriptedUpstream, stream: bool) -> None:
    """Not even asked."""
    asked = request(Protocol.CHAT, "messages/text", stream=stream, messages=[{"role": "nobody"}])
    asyncio.run(exchange(gateway.url, asked))


def left(gateway: Started, up: ScriptedUpstream, stream: bool) -> None:
    """The client goes away in the middle."""
    up.say(stream_head([]) if stream else head(200, [("content-length", "1000")]), Do.HANG)

    async def go() -> None:
        before = len(up.requests)
        _, writer = await asyncio.open_connection(*address(gateway.url))
        writer.write(request(Protocol.CHAT, "messages/text", stream=stream))
        await reached(up, before + 1)
        writer.transport.abort()
        await eventually_async(lambda: up.requests[-1].closed is not None)

    asyncio.run(go())


START = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
ENDINGS: dict[str, Ending] = {
    "answered": answered,
    "refused": refused,
    "left": left,
    "error": after(head(500, [("content-length", "2")]), b"{}"),
    "bad request": after(head(400, [("content-length", "2")]), b"{}"),
    "cut": after(stream_head([]), chunk(START + b'"content":[],"model":"m"}}\n\n'), Do.CLOSE),
    "closed": after(Do.CLOSE),
    "silent": after(Do.HANG),
    "silent in the middle": after(stream_head([]), chunk(START[:20]), Do.HANG),
    "not HTTP": after(b"this is not HTTP\r\n\r\n", Do.CLOSE),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_nothing_outlives_its_request(stream: bool, tmp_path: Path) -> None:
    """In all these ways to end, a few times each."""
    with thread.running() as up, started(tmp_path, QUICK, up.url, patch=WATCHED) as gateway:
        for end in list(ENDINGS.values()) * TIMES:
            end(gateway, up, stream)
        gateway.signal(signal.SIGTERM)
        until(lambda: "garbage" in gateway.log)
        found = re.search(r"garbage (\{.*\})", gateway.log)
        assert found is not None
        assert OURS.isdisjoint(json.loads(found[1])), found[1]


JUDGED = (
    CONFIG
    + """
admin: {enabled: false}
server: {policies: [allowing, asking]}
policies:
  allowing: {use: tools, deny: [never]}
  asking: {use: judge, model: messages/score-0.1, cache: 0}
"""
)


def test_nothing_outlives_a_judged_request(tmp_path: Path) -> None:
    """Passed through or translated, streamed or not. The judge's own requests are gone too."""
    with thread.running() as up, started(tmp_path, JUDGED, up.url, patch=WATCHED) as gateway:
        for client, upstream, stream in CASES * TIMES:
            data = json.dumps(body(client, f"{upstream.short}/tools", stream=stream)).encode()
            answer = asyncio.run(exchange(gateway.url, post(PATHS[client], data, {"connection": "close"})))
            assert b"get_weather" in answer.body
        gateway.signal(signal.SIGTERM)
        until(lambda: "garbage" in gateway.log, 10)
        found = re.search(r"garbage (\{.*\})", gateway.log)
        assert found is not None
        assert (OURS | {"PolicyRun", "JudgedPassThrough", "StreamTranslator"}).isdisjoint(json.loads(found[1])), found[
            1
        ]
