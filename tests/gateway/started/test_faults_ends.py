"""Faults at the ends of answers: errors whose words do not come, beginnings that never end, noise behind the end."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator

import pytest

from tests.gateway.process import QUICK, Started, started
from tests.gateway.test_faults_wire import frames, one
from tests.gateway.wire import exchange, outcome, payload, post, request
from tests.scripted.http import LAST_CHUNK, Do, Step, chunk, head, stream_head
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
EVERY_UPSTREAM = pytest.mark.parametrize("protocol", Protocol, ids=lambda protocol: protocol.short)
PATCH = """
from trilogue.gateway.request import failures
from trilogue.gateway.response import first_bytes
first_bytes.MAX_HELD_BYTES, failures.ERROR_SECONDS = 1_000_000, 0.3
"""

ERRORS = {
    Protocol.CHAT: b'data: {"error":{"message":"It broke.","type":"server_error","param":null,"code":"x"}}\n\n',
    Protocol.MESSAGES: b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"It broke."}}\n\n',
    Protocol.RESPONSES: b'event: response.failed\ndata: {"type":"response.failed","sequence_number":4,"response":{"id":'
    b'"resp_1","object":"response","created_at":1,"model":"m","output":[],"status":"failed","error":{"code":'
    b'"server_error","message":"It broke."}}}\n\n',
}
"""how each protocol tells of an error inside a stream"""
NOISE = {
    Protocol.CHAT: b": still here\n\n",
    Protocol.MESSAGES: b": still here\n\n",
    Protocol.RESPONSES: b'event: novelty\ndata: {"type":"novelty"}\n\n',
}


@pytest.fixture(scope="module")
def quick(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A gateway with short clocks, and one of a third of a second for the words of errors."""
    with started(tmp_path_factory.mktemp("quick"), QUICK, up.url, patch=PATCH) as gateway:
        yield gateway


def refusal(status: int, *rest: Step, length: int = 999, **headers: str) -> list[Step]:
    """An error whose head is in order."""
    fields = {"content-type": "application/json", "content-length": str(length), "retry-after": "7", **headers}
    return [head(status, [(name.replace("_", "-"), value) for name, value in fields.items()]), *rest]


WORDS = json.dumps({"error": {"type": "api_error", "message": "Slow down."}}).encode()
WORDLESS: dict[str, tuple[int, str, list[Step]]] = {
    "cut": (999, "", [WORDS[:20], 0.02, Do.CLOSE]),
    "reset": (999, "", [WORDS[:20], 0.02, Do.RESET]),
    "silent": (999, "", [WORDS[:20], Do.HANG]),
    "endless": (4_000_000, "", [b"x" * 4_000_000]),
    "packed": (len(gzip.compress(WORDS)), "gzip", [gzip.compress(WORDS)]),
}
"""length, encoding, and what comes of the body"""


@BOTH
@pytest.mark.parametrize("case", WORDLESS)
@pytest.mark.parametrize(("status", "seen"), [(429, 429), (401, 503), (400, 400), (500, 500)])
def test_an_error_counts_without_its_words(
    quick: Started, up: ScriptedUpstream, stream: bool, case: str, status: int, seen: int
) -> None:
    """The status is known, and decides what becomes of the request and of the account."""
    length, encoding, rest = WORDLESS[case]
    up.say(*refusal(status, *rest, length=length, **({"content_encoding": encoding} if encoding else {})))
    asked = request(Protocol.CHAT, "messages/text", stream=stream)
    answer = asyncio.run(exchange(quick.url, asked))
    found = outcome(answer, Protocol.CHAT)
    assert (found.how, found.status) == ("http", seen)
    assert answer.headers.get("retry-after") == ("7" if seen in (429, 500) else None)


def test_the_same_for_a_count_of_tokens(quick: Started, up: ScriptedUpstream) -> None:
    """Which is no answer of a model, but has the same errors."""
    up.say(*refusal(429, WORDS[:20], 0.02, Do.CLOSE))
    asked = post("/v1/messages/count_tokens", payload(Protocol.MESSAGES, "messages/text", stream=False))
    answer = asyncio.run(exchange(quick.url, asked))
    assert outcome(answer, Protocol.MESSAGES).status == 429


@EVERY_UPSTREAM
def test_a_wrong_name_in_halves(quick: Started, up: ScriptedUpstream, protocol: Protocol) -> None:
    """A stream that calls itself JSON is known for what it is, however its first bytes come."""
    named = stream_head([]).replace(b"text/event-stream", b"application/json")
    data = b"".join(frames(protocol))
    for client in Protocol:
        up.say(named, chunk(data[:1]), 0.02, chunk(data[1:3]), 0.02, chunk(data[3:]), LAST_CHUNK)
        assert one(quick.url, client, f"{protocol.short}/text", stream=True).how == "complete"


@EVERY_UPSTREAM
def test_a_beginning_that_never_ends(quick: Started, up: ScriptedUpstream, protocol: Protocol) -> None:
    """What comes before content is kept, so there is a limit to it. Somebody else may answer then."""
    before = quick.rss()
    noise = chunk(NOISE[protocol] * 20_000)
    up.say(stream_head([]), chunk(frames(protocol)[0]), *[noise] * 40, Do.HANG)
    found = one(quick.url, protocol, f"{protocol.short}/text", stream=True)
    assert (found.how, found.status) == ("http", 502)
    assert "without any content" in found.message
    assert quick.rss() - before < 16 * 1024 * 1024


@EVERY_UPSTREAM
@pytest.mark.parametrize("after", ["cut", "reset", "silent", "noise"])
def test_an_error_is_reported_once(quick: Started, up: ScriptedUpstream, protocol: Protocol, after: str) -> None:
    """An upstream that says in its stream what went wrong has said it, however it hangs up: nothing is added."""
    noise: list[Step] = [chunk(b": still here\n\n"), 0.1] * 20
    rests: dict[str, list[Step]] = {
        "cut": [Do.CLOSE],
        "reset": [0.02, Do.RESET],
        "silent": [Do.HANG],
        "noise": [*noise, Do.HANG],
    }
    for client in Protocol:
        up.say(stream_head([]), *map(chunk, frames(protocol)[:4]), chunk(ERRORS[protocol]), *rests[after])
        found = one(quick.url, client, f"{protocol.short}/text", stream=True)
        assert (found.how, found.message.removeprefix("Provider returned error: ")) == ("stream", "It broke."), client


@EVERY_UPSTREAM
def test_noise_behind_the_end(quick: Started, up: ScriptedUpstream, protocol: Protocol) -> None:
    """The answer was complete: signs of life for ever after do not make an error of it."""
    noise: list[Step] = [chunk(b": still here\n\n"), 0.1] * 20
    for client in Protocol:
        up.say(stream_head([]), *map(chunk, frames(protocol)), *noise, Do.HANG)
        assert one(quick.url, client, f"{protocol.short}/text", stream=True).how == "complete"


@EVERY_UPSTREAM
def test_a_flood_behind_the_end(quick: Started, up: ScriptedUpstream, protocol: Protocol) -> None:
    """A line without end after the answer is of no interest, and takes no memory."""
    before = quick.rss()
    flood = chunk(b"x" * 1_000_000)
    up.say(stream_head([]), *map(chunk, frames(protocol)), 0.02, *[flood] * 100, Do.HANG)
    assert one(quick.url, protocol, f"{protocol.short}/text", stream=True).how == "complete"
    assert quick.rss() - before < 16 * 1024 * 1024
