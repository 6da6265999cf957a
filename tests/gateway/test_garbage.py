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
from tests.scripted.http import Do, Step, chunk, head, json_answer, stream_head
from tests.scripted.server import ScriptedUpstream
from tests.timing import eventually_async
from trilogue.model import Protocol

WATCHED = """
import atexit, collections, gc

def tell():
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    found = collections.Counter(f"{type(one).__module__}.{type(one).__name__}" for one in gc.garbage)
    print("garbage", __import__("json").dumps(found), file=sys.stderr)

gc.disable()
gc.enable = lambda: None
atexit.register(tell)
"""
KNOWN = re.compile(
    r"(?!trilogue\.|builtins\.frame$)"
    # A decoder and the tool call that it is in the middle of hold each other.
    r"|trilogue\.(?:protocols|base|model)\."
    # So do a policy that scans flowing text and its filter, and they hold the request.
    r"|.*\.(?:PolicyScan|ScanFilter|Context|Records)$"
)
"""types that may be found: those of others, and small cycles of our own that no connection, task or frame is part of"""
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


EITHER = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def garbage(gateway: Started) -> set[str]:
    """End the gateway. Return the types of what held itself, but for those that are known."""
    gateway.signal(signal.SIGTERM)
    # The line may be half written.
    until(lambda: re.search(r"garbage \{.*\}", gateway.log) is not None)
    found = re.search(r"garbage (\{.*\})", gateway.log)
    assert found is not None
    return {name for name in json.loads(found[1]) if KNOWN.match(name) is None}


@EITHER
def test_nothing_outlives_its_request(stream: bool, tmp_path: Path) -> None:
    """In all these ways to end, a few times each."""
    with thread.running() as up, started(tmp_path, QUICK, up.url, patch=WATCHED) as gateway:
        for end in list(ENDINGS.values()) * TIMES:
            end(gateway, up, stream)
        assert garbage(gateway) == set()


WATCHING = {
    "captured": "capture: {sample: 1}\n",
    "judged": "policies: {kept: {use: block_phrases, phrases: [never said]}}\n",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "stream"),
    [
        ("captured", False),
        ("captured", True),
        ("judged", False),
        pytest.param("judged", True, marks=pytest.mark.smoke),
    ],
)
def test_nothing_outlives_a_request_that_is_watched(how: str, stream: bool, tmp_path: Path) -> None:
    """A capture or a policy sees the request end in all these ways."""
    config = QUICK + WATCHING[how]
    if how == "judged":
        config = config.replace("server:\n", "server:\n  policies: [kept]\n")
    with thread.running() as up, started(tmp_path, config, up.url, patch=WATCHED) as gateway:
        for end in ENDINGS.values():
            end(gateway, up, stream)
        assert garbage(gateway) == set()


TWO_ACCOUNTS = """\
keys: [env:TRILOGUE_KEY]
providers:
  messages:
    protocol: anthropic_messages
    base_url: UPSTREAM
    accounts: [{name: a, key: env:UP_KEY, priority: 1}, {name: b, key: env:UP_KEY, priority: 2}]
pool: {rules: [{text: for the client, action: client}, {text: "*", action: next}], retry_budget: {floor: 1000}}
"""


def refusal(text: str) -> Step:
    """An error of the upstream."""
    return json_answer(500, [], {"type": "error", "error": {"type": "api_error", "message": text}})


@EITHER
def test_nothing_outlives_a_failed_request(stream: bool, tmp_path: Path) -> None:
    """One account fails and the next responds; both fail; an error is left to the client."""
    with thread.running() as up, started(tmp_path, TWO_ACCOUNTS, up.url, patch=WATCHED) as gateway:
        for failures, status in (
            ([refusal("a")], 200),
            ([refusal("a"), refusal("b")], 500),
            ([refusal("for the client")], 500),
        ):
            for client in Protocol:
                for failure in failures:
                    up.say(failure)
                answer = asyncio.run(exchange(gateway.url, request(client, "messages/text", stream=stream)))
                assert (answer.status, up.waiting) == (status, 0), answer.body
        assert garbage(gateway) == set()


JUDGED = (
    CONFIG
    + """
admin: {enabled: false}
server: {policies: [POLICIES]}
policies:
  allowing: {use: tools, deny: [never]}
  asking: {use: judge, model: messages/score-0.1, cache: 0}
  dropping: {use: tools, deny: [get_weather]}
  stopping: {use: tools, deny: [get_weather], instead: stop, words: Stopped.}
  undecided: {use: judge, model: messages/error-400, cache: 0}
"""
)


@pytest.mark.parametrize("policies", ["allowing, asking", "dropping", "stopping", "undecided"])
def test_nothing_outlives_a_judged_request(policies: str, tmp_path: Path) -> None:
    """Passed through or translated, streamed or not, kept or forbidden. The judge's own requests are gone too."""
    config = JUDGED.replace("POLICIES", policies)
    with thread.running() as up, started(tmp_path, config, up.url, patch=WATCHED) as gateway:
        for client, upstream, stream in CASES * TIMES:
            data = json.dumps(body(client, f"{upstream.short}/tools", stream=stream)).encode()
            answer = asyncio.run(exchange(gateway.url, post(PATHS[client], data, {"connection": "close"})))
            assert answer.whole
            assert policies != "allowing, asking" or b"get_weather" in answer.body
        assert garbage(gateway) == set()
