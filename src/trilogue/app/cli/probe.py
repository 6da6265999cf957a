"""Ask a live server the requests of `trilogue lint --url`, and judge its responses.

Responses go through the linter of their protocol and through rules that only a live server can break: statuses,
headers, and when the pieces of a stream arrive.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from trilogue.app.cli.probe_client import ProbedServer, Received, ask_server
from trilogue.base.json_text import parse_object, parse_upstream
from trilogue.base.sse import SseParser
from trilogue.errors import ClientError, TrilogueError, UpstreamProtocolError
from trilogue.lint import Finding, Rule, Severity, lint_error, lint_response, lint_stream
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
Expected = Literal["success", "refused_key", "bad_request"]
WRONG_KEY = "wrong-key-of-trilogue-lint"
MAX_TOKENS = 2048
_HELLO = "Say hello in one short sentence."
_WEATHER = "What is the weather in Paris? Use the tool."
_TWO_CITIES = "What is the weather in Paris, and what in Rome? Call the tool once for each city, both calls at once."
_THINK = "Think about it first: which number is larger, 9.11 or 9.9? Then answer with that number."
_COUNT = "Count from 1 to 9 in digits, separated by spaces."
STOP = "5"
_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
_NAME, _DESCRIPTION = "get_weather", "Returns the weather in a city."
_CONTENT = {"chat": "messages", "messages": "messages", "responses": "input"}
_THINKING: dict[str, dict[str, Json]] = {
    "chat": {"reasoning_effort": "low"},
    "messages": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "responses": {"reasoning": {"effort": "low", "summary": "auto"}},
}
_STOP: dict[str, dict[str, Json]] = {
    "chat": {"stop": [STOP]},
    "messages": {"stop_sequences": [STOP]},
}
"""Responses has no stop sequences"""
_RULES = (
    Rule(
        id="L01",
        meaning="the response is complete",
        breaks="The client waits until its timeout, or shows a response that is cut off.",
    ),
    Rule(
        id="L02",
        meaning=(
            "a valid request gets status 200, a wrong key 401 (or 403), an invalid request 400 (or 422), also if the "
            "response would be streamed"
        ),
        breaks="SDKs choose their exception and whether to retry by the status.",
    ),
    Rule(
        id="L03",
        meaning="a stream has the content type text/event-stream, everything else application/json",
        breaks="Clients that choose their parser by the content type show an empty response.",
    ),
    Rule(
        id="L04",
        meaning="each event is flushed when it is written, and nothing in between buffers the stream",
        breaks="The client shows nothing, and then the whole response at once.",
    ),
    Rule(
        id="L05",
        meaning="a stream has the header X-Accel-Buffering: no",
        breaks="nginx in front of the server buffers the stream unless it is configured otherwise.",
        severity="note",
    ),
    Rule(
        id="L06",
        meaning="a stream is never silent for more than 15 s: a keep-alive comes instead",
        breaks="Claude Code gives up after 20 s of silence, and load balancers after 60 s.",
    ),
    Rule(
        id="L07",
        meaning="the response has what was asked for: tool calls, reasoning, or an end at the stop sequence",
        breaks="The model may not have the ability, or the server does not pass it on.",
        severity="note",
    ),
    Rule(
        id="L08",
        meaning="a response that is not streamed is one JSON object",
        breaks="SDKs raise an error without the reason.",
    ),
)
LIVE_RULES: Mapping[str, Rule] = MappingProxyType({rule.id: rule for rule in _RULES})
"""the rules by id"""


class ProbeRequest(Struct, frozen=True, kw_only=True):
    """One request. `calls`: how many tool calls the response should have. `key`: instead of the server's own."""

    name: str
    body: dict[str, Json]
    expected: Expected = "success"
    calls: int = 0
    reasoning: bool = False
    stop: str = ""
    key: str | None = None

    @property
    def stream(self) -> bool:
        """Whether the response is streamed."""
        return bool(self.body.get("stream"))


def asks(protocol: Protocol, model: str) -> Iterator[ProbeRequest]:
    """Yield all requests: each kind of response plain and streamed, then those that must be refused.

    Raises `ClientError` for a protocol that no requests are written for.
    """
    name = protocol.short
    if name not in _WRITERS:
        known = ", ".join(_WRITERS)
        raise ClientError(f"the linter has no requests for {name}, only for {known}", code="no_lint_rules")
    write = _WRITERS[name]
    for stream in (False, True):
        how = "streamed" if stream else "plain"
        yield ProbeRequest(name=f"text, {how}", body=write(model, _HELLO, stream))
        yield ProbeRequest(name=f"tool call, {how}", body=write(model, _WEATHER, stream) | _tools(name), calls=1)
        yield ProbeRequest(
            name=f"parallel calls, {how}", body=write(model, _TWO_CITIES, stream) | _tools(name), calls=2
        )
        thinking = write(model, _THINK, stream) | _THINKING[name]
        yield ProbeRequest(name=f"reasoning, {how}", body=thinking, reasoning=True)
        if name in _STOP:
            yield ProbeRequest(name=f"stop sequence, {how}", body=write(model, _COUNT, stream) | _STOP[name], stop=STOP)
    for stream in (False, True):
        how = "streamed" if stream else "plain"
        refused = write(model, _HELLO, stream)
        yield ProbeRequest(name=f"refused key, {how}", body=refused, expected="refused_key", key=WRONG_KEY)
        yield ProbeRequest(name=f"bad request, {how}", body=refused | {_CONTENT[name]: 7}, expected="bad_request")


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


def refusal(protocol: Protocol, received: Received) -> str:
    """Return the message of an error response, cut to one line; "" if there is none."""
    if received.status < 400 or parse_object(received.body) is None:
        return ""
    message = CODECS[protocol].decode_error(received.status, received.headers, received.body).message
    return " ".join(message.split())[:MOST_REASON]


def finding(rule: str, message: str, severity: Severity | None = None) -> Finding:
    """Return a finding of one of these rules."""
    row = LIVE_RULES[rule]
    return Finding(rule, None, message, row.breaks, severity or row.severity)


def live_rules_table() -> str:
    """Return the rules as a Markdown table, for docs/lint.md."""
    rows = [f"| {rule.id} | {rule.meaning} | {_kind(rule)} | {rule.breaks} |" for rule in _RULES]
    return "\n".join(["| rule | must hold | kind | otherwise |", "|---|---|---|---|", *rows])


def _kind(rule: Rule) -> str:
    return "note" if rule.severity == "note" else ""


def _chat(model: str, text: str, stream: bool) -> dict[str, Json]:
    body: dict[str, Json] = {"model": model, "messages": [{"role": "user", "content": text}]}
    return body | ({"stream": True, "stream_options": {"include_usage": True}} if stream else {})


def _messages(model: str, text: str, stream: bool) -> dict[str, Json]:
    body: dict[str, Json] = {"model": model, "max_tokens": MAX_TOKENS, "messages": [{"role": "user", "content": text}]}
    return body | ({"stream": True} if stream else {})


def _responses(model: str, text: str, stream: bool) -> dict[str, Json]:
    body: dict[str, Json] = {"model": model, "input": text, "store": False}
    return body | ({"stream": True} if stream else {})


def _tools(protocol: str) -> dict[str, Json]:
    function = {"name": _NAME, "description": _DESCRIPTION, "parameters": _SCHEMA}
    tools: dict[str, Json] = {
        "chat": {"type": "function", "function": function},
        "messages": {"name": _NAME, "description": _DESCRIPTION, "input_schema": _SCHEMA},
        "responses": {"type": "function", "strict": False, **function},
    }
    return {"tools": [tools[protocol]]}


_WRITERS = {"chat": _chat, "messages": _messages, "responses": _responses}
