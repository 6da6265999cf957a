"""Judges what a live server responded: the linter's rules for the protocol, and those of `live_rules` for the wire."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

from msgspec import Struct

from trilogue.app.cli.live.asks import ProbeRequest, asks
from trilogue.app.cli.live.client import ProbedServer, Received, ask_server
from trilogue.app.cli.live.live_rules import finding
from trilogue.base.json_text import parse_object, parse_upstream
from trilogue.base.sse import SseParser
from trilogue.errors import TrilogueError, UpstreamProtocolError
from trilogue.lint import Finding, lint_error, lint_response, lint_stream
from trilogue.model import Collector, Failed, Json, Protocol, Reasoning, Response, StopReason, ToolCall
from trilogue.net.client.transport import HttpTransport
from trilogue.protocols.registry import CODECS
from trilogue.translate.compare.documents import decoded_events

SILENCE_SECONDS = 15.0
JUDGED_SECONDS = 1.0
"""a stream that takes less time may arrive at once without any buffer"""
JUDGED_EVENTS = 5
BURST_SHARE = 0.02
"""a stream that arrives within this share of its whole time was held back"""

MOST_REASON = 200
"""characters of a server's error message that are shown"""

_STATUSES = {"success": (200,), "refused_key": (401, 403), "bad_request": (400, 422)}
_STREAM, _JSON = "text/event-stream", "application/json"


class ProbeResult(Struct, frozen=True, kw_only=True):
    """One request, what came back, and what is wrong with it."""

    ask: ProbeRequest
    received: Received
    findings: list[Finding]


async def probe_server(server: ProbedServer, *, own: bool = False) -> AsyncIterator[ProbeResult]:
    """Send all requests, one after the other, and yield each with its findings. `own`: see `lint_stream`."""
    transport = HttpTransport()
    try:
        for ask in asks(server.protocol, server.model):
            received = await ask_server(server, ask.body, transport, ask.key)
            yield ProbeResult(ask=ask, received=received, findings=judge(server.protocol, ask, received, own=own))
    finally:
        await transport.aclose()


def judge(protocol: Protocol, ask: ProbeRequest, received: Received, *, own: bool = False) -> list[Finding]:
    """Return everything that is wrong with a response."""
    if received.error:
        return [finding("L01", received.error)]
    if received.status not in _STATUSES[ask.expected]:
        return list(_wrong_status(protocol, ask, received, own))
    if received.status >= 400:
        return [*_content_type(received, _JSON), *_lint_error(protocol, received.body, own)]
    if ask.stream:
        linted = lint_stream(protocol, received.body, request=ask.body, own=own)
        return [*_content_type(received, _STREAM), *_framing(received), *linted, *_abilities(protocol, ask, received)]
    return [*_content_type(received, _JSON), *_lint_body(protocol, ask, received, own)]


def _wrong_status(protocol: Protocol, ask: ProbeRequest, received: Received, own: bool) -> Iterator[Finding]:
    if ask.expected == "refused_key" and received.status == 200:
        yield finding("L02", "a wrong key was accepted: the server checks no keys", "note")
        return
    wanted = " or ".join(map(str, _STATUSES[ask.expected]))
    reason = refusal(protocol, received)
    yield finding("L02", f"status {received.status} instead of {wanted}{reason and f' ({reason})'}")
    if received.status >= 400:
        yield from _lint_error(protocol, received.body, own)


def refusal(protocol: Protocol, received: Received) -> str:
    """Return the message of an error response, cut to one line; "" if there is none."""
    if received.status < 400 or parse_object(received.body) is None:
        return ""
    message = CODECS[protocol].decode_error(received.status, received.headers, received.body).message
    return " ".join(message.split())[:MOST_REASON]


def _content_type(received: Received, wanted: str) -> Iterator[Finding]:
    found = received.headers.get("content-type", "")
    if found.partition(";")[0].strip().lower() != wanted:
        shown = found.partition(";")[0].strip()[:60]
        yield finding("L03", f"the content type is {shown or 'missing'} instead of {wanted}")


def _framing(received: Received) -> Iterator[Finding]:
    """Yield what is wrong with the way in which a stream arrived."""
    if received.headers.get("x-accel-buffering", "").strip().lower() != "no":
        yield finding("L05", "the header X-Accel-Buffering: no is missing")
    silence = _longest_silence(received)
    if silence > SILENCE_SECONDS:
        yield finding("L06", f"the stream was silent for {silence:.1f} s, without a keep-alive")
    yield from _bursts(received)


def _longest_silence(received: Received) -> float:
    times = [0.0, *(at for at, _ in received.pieces)]
    return max((after - before for before, after in itertools.pairwise(times)), default=0.0)


def _bursts(received: Received) -> Iterator[Finding]:
    parser = SseParser()
    events = len([*parser.feed(received.body), *parser.close()])
    if events < JUDGED_EVENTS or received.ended_at < JUDGED_SECONDS or not received.pieces:
        return
    spread = received.pieces[-1][0] - received.pieces[0][0]
    if spread <= BURST_SHARE * received.ended_at:
        text = f"{events} events arrived within {spread * 1000:.0f} ms, after {received.pieces[0][0]:.1f} s"
        # A model that thinks for long and then says little looks the same, unless it is really one piece.
        yield finding("L04", text, "error" if len(received.pieces) == 1 else "note")


def _lint_error(protocol: Protocol, data: bytes, own: bool) -> list[Finding]:
    body = parse_object(data)
    if body is None:
        return [finding("L08", "the error is not a JSON object")]
    return lint_error(protocol, body, own=own)


def _lint_body(protocol: Protocol, ask: ProbeRequest, received: Received, own: bool) -> list[Finding]:
    try:
        body: dict[str, Json] = parse_upstream(received.body, whole=True)
    except UpstreamProtocolError as error:
        return [finding("L08", str(error))]
    return [*lint_response(protocol, body, request=ask.body, own=own), *_abilities(protocol, ask, received)]


def _abilities(protocol: Protocol, ask: ProbeRequest, received: Received) -> Iterator[Finding]:
    """Yield what was asked for and did not come."""
    response = _decoded(protocol, ask, received)
    if response is None:
        return
    calls = [block for block in response.blocks if isinstance(block, ToolCall)]
    if len(calls) < ask.calls:
        yield finding("L07", f"{len(calls)} of {ask.calls} tool calls came")
    if ask.reasoning and not any(isinstance(block, Reasoning) for block in response.blocks):
        thought = response.usage is not None and bool(response.usage.reasoning)
        yield finding("L07", "reasoning is counted but not shown" if thought else "no reasoning came")
    if ask.stop and (response.stop.reason not in (StopReason.STOP_SEQUENCE, StopReason.END) or _runs_on(response, ask)):
        yield finding("L07", "the response does not end at the stop sequence")


def _runs_on(response: Response, ask: ProbeRequest) -> bool:
    return any(ask.stop in getattr(block, "text", "") for block in response.blocks)


def _decoded(protocol: Protocol, ask: ProbeRequest, received: Received) -> Response | None:
    """Return the response, or None if it is not valid, which the linter has said already."""
    try:
        if not ask.stream:
            return CODECS[protocol].decode_response(parse_upstream(received.body, whole=True))
        collector = Collector()
        for event in decoded_events(protocol, [received.body]):
            collector.feed(event)
            if type(event) is Failed:
                return None
        return collector.response()
    except TrilogueError:
        return None
