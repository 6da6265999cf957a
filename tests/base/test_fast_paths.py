"""Without fast paths, Trilogue sends the same bytes: for recordings, cases written by hand, and through a gateway."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import trilogue
from benchmarks.core import STREAMS
from tests.corpus import load
from tests.corpus.cases import NEWEST, asked
from tests.corpus.load import Recording
from tests.each import each
from tests.gateway.process import QUICK, started
from tests.gateway.wire import address, parse, payload, post
from tests.mapping.cases import request as request_body
from tests.scripted import thread
from tests.scripted.ask import PATHS, body
from tests.scripted.http import json_answer, sse_answer
from tests.scripted.scenario import TEXT
from tests.scripted.server import ScriptedUpstream
from tests.scripted.tokens import Ids
from tests.scripted.wire import WIRES
from tests.shapes import made
from tests.shapes.add_field import covered, with_field
from tests.shapes.lists import Entry, entries
from trilogue import Protocol, StreamTranslator, Target, TrilogueError
from trilogue.base.fast_paths import FAST_PATHS, without_fast_paths
from trilogue.gateway.response.pass_through import PassThrough
from trilogue.net.server.request import Head, KnownHeads
from trilogue.protocols.stream.response_context import Reply
from trilogue.translate.responses import summarize_response

SWITCHED_OFF = "from trilogue.base.fast_paths import FAST_PATHS\nFAST_PATHS.on = False"
OWN_VALUES = re.compile(rb"trl2?\.[\w-]+|\b(resp|msg|chatcmpl|rs|fc|call|req|item)[-_]\w+|\"(created|\w+_at)\":\s?\d+")
"""sealed values, ids that follow from the request's id, and times"""
PAIRS = list(product(Protocol, Protocol))


def named(value: Any) -> str:
    """Return the name of a case."""
    return f"{value[0].short}: {value[1]}" if isinstance(value, tuple) else str(value)


def result(make: Callable[[], object]) -> object:
    """Return what this returns, or the error that it raises."""
    try:
        return make()
    except TrilogueError as error:
        return type(error), str(error)


def check(make: Callable[[], object]) -> None:
    """Fail if the result depends on the fast paths."""
    fast = result(make)
    with without_fast_paths():
        plain = result(make)
    assert fast == plain


def events_of(stream: bytes) -> list[bytes]:
    """Return the events of a stream, as they arrive one at a time; with other line ends it stays in one piece."""
    if b"\r" in stream:
        return [stream]
    *events, rest = stream.split(b"\n\n")
    return [*(event + b"\n\n" for event in events), rest]


def translated(recording: Recording, target: Protocol) -> object:
    """Return everything that a stream leads to, with each event arriving alone."""
    assert recording.stream is not None
    exchange = asked(recording, target)
    translator = StreamTranslator(source=recording.protocol, target=target, exchange=exchange)
    out = [translator.feed(event) for event in events_of(recording.stream)]
    return out, translator.close(), translator.losses, translator.usage, translator.snapshot


def passed_through(recording: Recording) -> object:
    """Return what a stream leads to if both sides have its protocol."""
    assert recording.stream is not None
    through = PassThrough(recording.protocol, Reply(source=recording.protocol))
    out = [through.feed(event) for event in events_of(recording.stream)]
    return out, through.close(), through.usage, through.has_content, through.failed


def check_stream(recording: Recording) -> None:
    check(partial(passed_through, recording))
    for target in Protocol:
        check(partial(translated, recording, target))


def check_response(recording: Recording) -> None:
    data = trilogue.dump(recording.body or {})
    source = recording.protocol
    for target in Protocol:
        check(partial(trilogue.translate_response, data, source=source, target=target))
    check(partial(shown, data, source))


def shown(data: bytes, source: Protocol) -> object:
    """Return what the gateway shows of a response that it passes through. Details of usage are shown nowhere."""
    summary = summarize_response(data, source=source)
    usage = summary.usage
    return summary.id, summary.empty, usage and (usage.input, usage.cache_read or 0, usage.output)


def check_request(body: dict[str, Any], source: Protocol) -> None:
    for target in Protocol:
        check(partial(request_to, body, source, Target.of(target, NEWEST[target])))


def request_to(body: dict[str, Any], source: Protocol, target: Target) -> object:
    made_one = trilogue.translate_request(body, source=source, target=target)
    return trilogue.dump(made_one.body), made_one.losses


@each("name", load.streams())
def test_recorded_stream(name: str) -> None:
    """Streamed to clients of all protocols, and passed through."""
    check_stream(load.load(name))


@each("name", load.bodies())
def test_recorded_response(name: str) -> None:
    """Translated for clients of all protocols, and passed through."""
    check_response(load.load(name))


@each("name", load.requests())
def test_recorded_request(name: str) -> None:
    """Translated for upstreams of all protocols."""
    recording = load.load(name)
    check_request(recording.request or {}, recording.protocol)


@each("entry", entries("streams"), ids=named)
def test_stream(entry: Entry) -> None:
    """A stream of every shape."""
    check_stream(made.streamed(entry[0], made.stream(*entry)))


@each("entry", entries("responses"), ids=named)
def test_response(entry: Entry) -> None:
    """A response of every shape."""
    check_response(made.responded(*entry))


@each("entry", [entry for entry in entries("fields") if entry[1] not in covered(entry[0])], ids=named)
def test_field(entry: Entry) -> None:
    """A stream or response with every field that those above do not have."""
    recording = with_field(*entry)
    (check_stream if recording.stream else check_response)(recording)


@each(
    ("protocol", "name"), [(protocol, name) for protocol, cases in made.REQUESTS.items() for name in cases], ids=named
)
def test_request(protocol: Protocol, name: str) -> None:
    """A request with every feature."""
    check_request(request_body(protocol, **made.REQUESTS[protocol][name]), protocol)


@pytest.mark.parametrize("source", Protocol, ids=lambda protocol: protocol.short)
def test_long_stream(source: Protocol) -> None:
    """Most events of it are recognised, if they may be."""
    check_stream(made.streamed(source, b"".join(STREAMS[source](200))))


def test_the_switch() -> None:
    """It is on, off inside the context, and on again after an error."""
    assert FAST_PATHS.on
    seen = []

    def fail() -> None:
        with without_fast_paths():
            seen.append(FAST_PATHS.on)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen == [False]
    assert FAST_PATHS.on


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    """Every response of two gateways, with fast paths and without, to the same requests; each is sent twice."""
    found: dict[str, list[bytes]] = {}
    with thread.running() as up, ExitStack() as stack:
        for name, patch in {"fast": "", "plain": SWITCHED_OFF}.items():
            folder: Path = tmp_path_factory.mktemp(name)
            gateway = stack.enter_context(started(folder, QUICK, up.url, patch=patch))
            found[name] = asyncio.run(ask_all(gateway.url, up))
    return found


async def ask_all(url: str, up: ScriptedUpstream) -> list[bytes]:
    """Return the bodies of a gateway's responses to all pairs, streamed and not, without values of its own."""
    found = []
    reader, writer = await asyncio.open_connection(*address(url))
    for (client, upstream), stream, _ in product(PAIRS, (False, True), range(2)):
        wire = WIRES[PATHS[upstream]]
        read = wire.read(body(upstream, "text", stream=stream, tools=False))
        if stream:
            up.say(*sse_answer(wire.stream(TEXT, read, Ids(1))))
        else:
            up.say(json_answer(200, [], wire.whole(TEXT, read, Ids(1))))
        writer.write(post(PATHS[client], payload(client, f"{upstream.short}/text", stream=stream), {}))
        found.append(OWN_VALUES.sub(b"", await response(reader)))
    writer.close()
    return found


async def response(reader: asyncio.StreamReader) -> bytes:
    """Return status and body of the next response on a connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    content = await (reader.readexactly(int(length[1])) if length else reader.readuntil(b"\r\n0\r\n\r\n"))
    return b"%b %b" % (head.split(b"\r\n")[0], parse(head + content).body)


def test_the_requests_are_recognised() -> None:
    """The requests to the gateways are of the kind whose headers are recognised."""
    known = KnownHeads()
    data = post(PATHS[Protocol.CHAT], payload(Protocol.CHAT, "chat/text", stream=True), {})
    key, first = known.find(data)
    assert first is None
    assert key is not None
    known.keep(key, Head("POST", PATHS[Protocol.CHAT], b"", {}))
    assert known.find(data)[1] is not None


def test_through_a_gateway(bodies: dict[str, list[bytes]]) -> None:
    """All pairs, streamed and not; the second request has headers that are known by then."""
    assert bodies["fast"] == bodies["plain"]
    assert len(bodies["fast"]) == 4 * len(PAIRS)
    assert all(reply.startswith(b"HTTP/1.1 200 OK") for reply in bodies["fast"])
