"""Faults below the protocols: connections that do not come about, streams cut anywhere, bytes that make no sense."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.gateway.process import QUICK, SHORT, Started, started
from tests.gateway.wire import Answer, Outcome, exchange, outcome, request
from tests.scripted import thread
from tests.scripted.ask import PATHS, body
from tests.scripted.http import LAST_CHUNK, Do, Step, chunk, head, json_answer, stream_head, whole
from tests.scripted.scenario import REASONED, TEXT
from tests.scripted.server import ScriptedUpstream
from tests.scripted.tokens import Ids
from tests.scripted.wire import WIRES
from tests.upstream.certificates import Authority
from tests.upstream.raw import Peer, serving
from trilogue.lint import lint_stream
from trilogue.model import Protocol

PATIENT = SHORT.replace("0.5", "5").replace("2.5", "20")
"""TLS takes its time where many tests run at once."""
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
EVERY_UPSTREAM = pytest.mark.parametrize("protocol", Protocol, ids=lambda protocol: protocol.short)
CLOSED = head(200, [("content-type", "text/event-stream"), ("connection", "close")])


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    with thread.running() as running:
        yield running


@pytest.fixture(scope="module")
def quick(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A gateway with short clocks."""
    with started(tmp_path_factory.mktemp("quick"), QUICK, upstream.url) as gateway:
        yield gateway


def one(url: str, client: Protocol, model: str, *, stream: bool) -> Outcome:
    """What one request comes to."""
    return outcome(asyncio.run(exchange(url, request(client, model, stream=stream))), client)


def frames(protocol: Protocol, *, reasoning: bool = False) -> list[bytes]:
    """The events of an answer as this protocol's upstream sends them."""
    wire = WIRES[PATHS[protocol]]
    asked = wire.read(body(protocol, "text", stream=True, tools=False))
    return list(wire.stream(REASONED if reasoning else TEXT, asked, Ids(1)))


def cuts(events: list[bytes]) -> list[int]:
    """Every boundary between events, and places before, at and behind the middle of each."""
    found, position = [], 0
    for event in events:
        found += [position, position + 1, position + len(event) // 2, position + len(event) - 1]
        position += len(event)
    return found


@contextmanager
def at(directory: Path, base_url: str, clocks: str = SHORT) -> Iterator[Started]:
    """A gateway whose only upstream is at this address."""
    config = f"{clocks}providers: {{gone: {{protocol: openai_responses, base_url: '{base_url}'}}}}\n"
    with started(directory, config) as gateway:
        yield gateway


def check_unreachable(gateway: Started, status: int, code: str, kind: str) -> list[Outcome]:
    """The same for every client, streamed and not."""
    cases = [(client, stream) for client in Protocol for stream in (False, True)]

    async def main() -> list[Answer]:
        asked = (request(client, "gone/model", stream=stream) for client, stream in cases)
        return await asyncio.gather(*(exchange(gateway.url, data) for data in asked))

    found = []
    for (client, _), answer in zip(cases, asyncio.run(main()), strict=True):
        result = outcome(answer, client)
        assert (result.how, result.status) == ("http", status)
        assert (result.code, result.kind) == (("", kind) if client is Protocol.MESSAGES else (code, "server_error"))
        # None of these has ever worked: its user should see that now, and not after ten retries.
        assert answer.headers["x-should-retry"] == "false"
        found.append(result)
    return found


def test_refused(tmp_path: Path) -> None:
    """Row 1: nobody listens, and nobody ever did."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        with at(tmp_path, f"http://127.0.0.1:{sock.getsockname()[1]}") as gateway:
            check_unreachable(gateway, 502, "upstream_unreachable", "api_error")


@pytest.mark.parametrize("status", [200, 500])
def test_refused_after_it_was_there(tmp_path: Path, status: int) -> None:
    """Row 1: it may be restarting, and agents that try again survive that. An error shows that it was there, too."""
    asked = request(Protocol.CHAT, "own/model", stream=False)

    async def main() -> Answer:
        async def handler(peer: Peer) -> None:
            await peer.request()
            await peer.send(json_answer(status, [("connection", "close")], _whole_chat()))

        with ExitStack() as stack:
            async with serving(handler) as port:
                provider = f"{{protocol: openai_chat_completions, base_url: 'http://127.0.0.1:{port}'}}"
                gateway = stack.enter_context(started(tmp_path, f"{PATIENT}providers: {{own: {provider}}}\n"))
                assert (await exchange(gateway.url, asked)).status == status
            return await exchange(gateway.url, asked)

    answer = asyncio.run(main())
    assert outcome(answer, Protocol.CHAT).code == "upstream_connect"
    assert (answer.status, answer.headers["x-should-retry"]) == (502, "true")


def test_black_hole(tmp_path: Path) -> None:
    """Row 2: the connection never comes about; the clock says so."""
    with socket.socket() as sock, socket.socket() as first, socket.socket() as second:
        sock.bind(("127.0.0.1", 0))
        sock.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(sock.getsockname())
        with at(tmp_path, f"http://127.0.0.1:{sock.getsockname()[1]}") as gateway:
            for found in check_unreachable(gateway, 504, "upstream_unreachable", "timeout_error"):
                assert "connection" in found.message
                assert "0.5 s" in found.message


def test_no_such_name(tmp_path: Path) -> None:
    """Row 3: DNS. The name stays inside: it belongs to who runs the gateway."""
    with at(tmp_path, "http://secret-name.invalid") as gateway:
        for found in check_unreachable(gateway, 502, "upstream_unreachable", "api_error"):
            assert "secret-name" not in found.message


NO_ANSWER = """
import socket, threading
look_up = socket.getaddrinfo
def stuck(host, *rest, flags=0, **more):
    if flags & socket.AI_NUMERICHOST == 0:
        threading.Event().wait(120)
    return look_up(host, *rest, flags=flags, **more)
socket.getaddrinfo = stuck
"""


def test_a_name_server_that_does_not_respond(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    """Row 3: the clock runs out for who needs the name, others do not notice, and a shutdown does not wait for it."""
    dead = "  dead: {protocol: openai_chat_completions, base_url: 'http://name.example'}\n"
    config = QUICK.replace("providers:\n", f"providers:\n{dead}")
    with started(tmp_path, config, upstream.url, patch=NO_ANSWER) as gateway:

        async def main() -> list[Answer]:
            asked = [request(Protocol.CHAT, "dead/model", stream=False)] * 8
            waiting = [asyncio.create_task(exchange(gateway.url, data)) for data in asked]
            good = await exchange(gateway.url, request(Protocol.CHAT, "chat/text", stream=False))
            return [good, *await asyncio.gather(*waiting)]

        good, *late = [outcome(answer, Protocol.CHAT) for answer in asyncio.run(main())]
        assert good.how == "complete"
        assert {(found.status, found.code) for found in late} == {(504, "upstream_unreachable")}
        gateway.signal(signal.SIGTERM)
        assert gateway.process.wait(30) == 0


def test_tls_that_cannot_be_trusted(tmp_path: Path) -> None:
    """Row 4: a certificate of a root that nobody knows is refused, and never tried again with less security."""
    context = Authority(tmp_path).server()
    seen = []

    async def main() -> None:
        async def handler(peer: object) -> None:
            seen.append(peer)

        async with serving(handler, context) as port:
            with at(tmp_path, f"https://127.0.0.1:{port}", PATIENT) as gateway:
                await asyncio.to_thread(check_unreachable, gateway, 502, "upstream_tls", "api_error")

    asyncio.run(main())
    assert seen == []


def test_tls_that_need_not_be_trusted(tmp_path: Path) -> None:
    """`verify_tls: false`: the same certificate is taken, because somebody has said so."""
    context = Authority(tmp_path).server()

    async def main() -> Answer:
        async def handler(peer: Peer) -> None:
            await peer.request()
            await peer.send(json_answer(200, [], _whole_chat()))

        async with serving(handler, context) as port:
            provider = f"{{protocol: openai_chat_completions, base_url: 'https://127.0.0.1:{port}', verify_tls: false}}"
            with started(tmp_path, f"{PATIENT}providers: {{own: {provider}}}\n") as gateway:
                return await exchange(gateway.url, request(Protocol.MESSAGES, "own/model", stream=False))

    assert outcome(asyncio.run(main()), Protocol.MESSAGES).how == "complete"


def test_a_kept_connection_that_died_is_replaced(quick: Started, upstream: ScriptedUpstream) -> None:
    """Row 5: the upstream closes a connection between two requests; the client never learns of it."""
    for _ in range(5):
        answer = json_answer(200, [], _whole_chat())
        upstream.say(answer, 0.02, Do.CLOSE)
        assert one(quick.url, Protocol.CHAT, "chat/text", stream=False).how == "complete"


def _whole_chat() -> object:
    return _whole_answer(Protocol.CHAT)


def _whole_answer(protocol: Protocol) -> object:
    wire = WIRES[PATHS[protocol]]
    return wire.whole(TEXT, wire.read(body(protocol, "text", stream=False, tools=False)), Ids(1))


@EVERY_UPSTREAM
def test_pings_are_no_progress(quick: Started, upstream: ScriptedUpstream, protocol: Protocol) -> None:
    """Row 8: an upstream that only pings has stopped, in the middle of an answer or before it."""
    ping = b'event: ping\ndata: {"type":"ping"}\n\n' if protocol is Protocol.MESSAGES else b": ping\n\n"
    pings: list[Step] = [chunk(ping), 0.05] * 40

    async def main(begun: list[bytes]) -> list[Outcome]:
        async def ask(client: Protocol) -> Outcome:
            upstream.say(stream_head([]), *map(chunk, begun), *pings, Do.HANG)
            asked = request(client, f"{protocol.short}/text", stream=True)
            return outcome(await exchange(quick.url, asked), client)

        return await asyncio.gather(*map(ask, Protocol))

    for begun, how in (([], "http"), (frames(protocol)[:4], "stream")):
        for found in asyncio.run(main(begun)):
            assert found.how == how
            assert f"timeouts.{'between_events' if begun else 'first_event'}" in found.message


@EVERY_UPSTREAM
@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_a_stream_cut_anywhere_is_an_error(
    quick: Started, upstream: ScriptedUpstream, protocol: Protocol, framing: str
) -> None:
    """Rows 11 and 12: at every boundary and inside every event; only a cut behind the terminal event is harmless."""
    events = frames(protocol)
    data = b"".join(events)

    async def main() -> None:
        for client in Protocol:
            for cut in cuts(events):
                if framing == "chunked":
                    upstream.say(stream_head([]), chunk(data[:cut]) if cut else b"", LAST_CHUNK)
                else:
                    upstream.say(CLOSED + data[:cut], Do.CLOSE)
                asked = request(client, f"{protocol.short}/text", stream=True)
                found = outcome(await exchange(quick.url, asked), client)
                if found.how == "complete":
                    assert _is_over(data[:cut], protocol), data[:cut][-80:]

    asyncio.run(main())


def _is_over(data: bytes, protocol: Protocol) -> bool:
    """Whether what came holds the whole answer: at most the blank line of the last event is missing."""
    marks = {
        Protocol.CHAT: b'"finish_reason":"stop"',
        Protocol.MESSAGES: b'"stop_reason":"end_turn"',
        Protocol.RESPONSES: b'"status":"completed"',
    }
    return marks[protocol] in data


@EVERY_UPSTREAM
def test_an_error_behind_the_events(quick: Started, upstream: ScriptedUpstream, protocol: Protocol) -> None:
    """Row 13: a bare JSON error at the end of a stream is the upstream's error, not just a truncation."""
    error = {"error": {"type": "server_error", "code": "exploded", "message": "The engine exploded."}}
    for client in Protocol:
        tail = json.dumps(error).encode()
        upstream.say(stream_head([]), *map(chunk, frames(protocol)[:4]), chunk(tail), LAST_CHUNK)
        found = one(quick.url, client, f"{protocol.short}/text", stream=True)
        assert found.how == "stream"
        assert "exploded" in found.message


@EVERY_UPSTREAM
def test_unknown_events_are_no_fault(quick: Started, upstream: ScriptedUpstream, protocol: Protocol) -> None:
    """Row 14: what an upstream invents tomorrow must not break what works today."""
    new = b'event: novelty\ndata: {"type":"novelty","value":[1,{"a":null}]}\n\n'
    if protocol is Protocol.CHAT:
        new = b'data: {"object":"novelty","value":[1,{"a":null}]}\n\n'
    events = frames(protocol)
    for client in Protocol:
        upstream.say(stream_head([]), *map(chunk, [*events[:3], new, *events[3:]]), LAST_CHUNK)
        assert one(quick.url, client, f"{protocol.short}/text", stream=True).how == "complete"


@EVERY_UPSTREAM
def test_code_points_may_be_split_between_reads(quick: Started, upstream: ScriptedUpstream, protocol: Protocol) -> None:
    """Row 15: one byte at a time, every letter arrives."""
    data = b"".join(frames(protocol))
    for client in Protocol:
        upstream.say(stream_head([]), *(chunk(data[n : n + 1]) for n in range(len(data))), LAST_CHUNK)
        answer = asyncio.run(exchange(quick.url, request(client, f"{protocol.short}/text", stream=True)))
        assert outcome(answer, client).how == "complete"
        text = answer.body.decode()
        assert "café" in text or "caf\\u00e9" in text


@EVERY_UPSTREAM
def test_bytes_that_are_no_text_are_an_error(quick: Started, upstream: ScriptedUpstream, protocol: Protocol) -> None:
    """Row 15: invalid UTF-8 in a stream."""
    events = [event.replace(b"scripted", b"scrip\xff\xfeted") for event in frames(protocol)]
    for client in Protocol:
        upstream.say(stream_head([]), *map(chunk, events), LAST_CHUNK)
        assert one(quick.url, client, f"{protocol.short}/text", stream=True).how in ("stream", "http")


@EVERY_UPSTREAM
def test_an_endless_event_is_bounded(quick: Started, upstream: ScriptedUpstream, protocol: Protocol) -> None:
    """Row 16: a line of 64 MiB is an error after 8, and the memory stays where it was."""
    piece = chunk(b"x" * 1024 * 1024)
    before = quick.rss()
    upstream.say(stream_head([]), *map(chunk, frames(protocol)[:4]), chunk(b"data: "), *[piece] * 64, LAST_CHUNK)
    found = one(quick.url, Protocol.CHAT, f"{protocol.short}/text", stream=True)
    assert found.how == "stream"
    assert quick.rss() - before < 40 * 1024 * 1024


@EVERY_UPSTREAM
def test_events_out_of_order(quick: Started, upstream: ScriptedUpstream, protocol: Protocol) -> None:
    """Row 17: a second start, a piece of what was never started: an error, or an answer that keeps every rule."""
    events = frames(protocol)
    orders = [[*events[:3], events[0], *events[3:]], [*events[:1], *events[3:]], [*events[:4], *events[2:]]]
    for order in orders:
        for client in set(Protocol) - {protocol}:
            upstream.say(stream_head([]), *map(chunk, order), LAST_CHUNK)
            answer = asyncio.run(exchange(quick.url, request(client, f"{protocol.short}/text", stream=True)))
            if outcome(answer, client).how == "complete":
                asked = body(client, f"{protocol.short}/text", stream=True, tools=False)
                found = lint_stream(client, answer.body, request=asked)
                assert [str(finding) for finding in found if finding.severity == "error"] == []


@EVERY_UPSTREAM
def test_a_whole_response_that_calls_itself_a_stream(
    quick: Started, upstream: ScriptedUpstream, protocol: Protocol
) -> None:
    """What it is counts, not its name."""
    data = json.dumps(_whole_answer(protocol), ensure_ascii=False).encode()
    for client in Protocol:
        upstream.say(whole(200, [], data, "text/event-stream"))
        asked = request(client, f"{protocol.short}/text", stream=True)
        answer = asyncio.run(exchange(quick.url, asked))
        assert outcome(answer, client).how == "complete"
        assert "café" in answer.body.decode()


@BOTH
@EVERY_UPSTREAM
def test_an_error_in_a_good_status(
    quick: Started, upstream: ScriptedUpstream, protocol: Protocol, stream: bool
) -> None:
    """Row 25: 200 with an error for a body is an error."""
    error = {"type": "overloaded_error", "message": "Overloaded", "code": "server_is_overloaded"}
    for client in Protocol:
        upstream.say(json_answer(200, [], {"type": "error", "error": error}))
        found = one(quick.url, client, f"{protocol.short}/text", stream=stream)
        named = "" if client is protocol else f" (provider {protocol.short})"
        assert (found.how, found.message) == ("http", f"Overloaded{named}")
        assert found.status == (529 if client is Protocol.MESSAGES else 503)
