"""Traces of a running gateway, as an OTLP receiver gets them, and the headers that upstreams get."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.process import Started, started, until
from tests.gateway.running import CLIENT_KEY
from tests.otlp import ReceivedSpan, Receiver, receiving
from tests.scripted import thread
from tests.scripted.ask import PATHS, body
from tests.scripted.server import ScriptedUpstream
from trilogue.model import Protocol

FIRST, SECOND = "first-up-key", "second-up-key"
CONFIG = """\
keys: [{key: env:TRILOGUE_KEY, name: alice}]
admin: {key: env:TRILOGUE_ADMIN, port: 0}
pool: {persist: false}
tracing: {enabled: true, endpoint: RECEIVER, headers: {x-collector-key: env:COLLECTOR}, MORE}
providers:
  chat: {protocol: openai_chat_completions, base_url: UPSTREAM/v1, accounts: [{name: one, key: env:UP_KEY}]}
  messages:
    protocol: anthropic_messages
    base_url: UPSTREAM
    vendor: moonshot
    accounts: [{name: first, key: env:FIRST}, {name: second, key: env:SECOND, priority: 2}]
"""
ENVIRON = {
    "COLLECTOR": "collector-canary",
    "TRILOGUE_ADMIN": "admin-key-0123456789",
    "FIRST": FIRST,
    "SECOND": SECOND,
    "OTEL_BSP_SCHEDULE_DELAY": "20",
    "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
C, M = Protocol.CHAT, Protocol.MESSAGES


class Traced:
    """A gateway, its upstream, and the receiver of its traces."""

    def __init__(self, gateway: Started, up: ScriptedUpstream, receiver: Receiver) -> None:
        self.gateway, self.up, self.receiver = gateway, up, receiver

    def ask(self, client: Protocol, model: str, headers: Any = (), *, stream: bool = False, **more: Any) -> int:
        """Send a request and return the status of its response, which is read to its end."""
        wire = body(client, model, stream=stream, tools=False) | more
        auth = [("authorization", f"Bearer {CLIENT_KEY}"), *dict(headers).items()]
        response = httpx2.post(f"{self.gateway.url}{PATHS[client]}", json=wire, headers=auth, timeout=20)
        return response.status_code

    def spans(self, count: int) -> dict[str, list[ReceivedSpan]]:
        """Return the spans of the last request by kind."""
        found: dict[str, list[ReceivedSpan]] = {"SERVER": [], "CLIENT": [], "INTERNAL": []}
        for span in sorted(self.receiver.take_all(count), key=lambda one: one.start):
            found[span.kind].append(span)
        return found

    def sent(self, name: str) -> str | None:
        """Return a header of the last request that the upstream got."""
        return self.up.last().header(name)


def config(receiver: Receiver, more: str) -> str:
    return CONFIG.replace("RECEIVER", receiver.url).replace(", MORE", more and f", {more}")


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with thread.running(ScriptedUpstream(["up-key", FIRST, SECOND])) as running:
        yield running


@pytest.fixture(scope="module")
def traced(up: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    with (
        receiving() as receiver,
        started(tmp_path_factory.mktemp("traces"), config(receiver, ""), up.url, environ=ENVIRON) as gateway,
    ):
        yield Traced(gateway, up, receiver)


def test_a_translated_request(traced: Traced) -> None:
    """All attributes, the place of each span in the client's trace, and what the upstream gets."""
    settings: dict[str, Any] = {"temperature": 0.5, "stop": ["END"], "max_completion_tokens": 50, "seed": 7}
    headers = {"traceparent": TRACEPARENT, "tracestate": "vendor=1", "baggage": "user=alice", "user-agent": "test"}
    assert traced.ask(C, "messages/text", headers, **settings) == 200
    found = traced.spans(3)
    (server,), (attempt,), (translation,) = found["SERVER"], found["CLIENT"], found["INTERNAL"]
    assert {span.trace_id for span in (server, attempt, translation)} == {TRACE}
    assert (server.parent_id, attempt.parent_id, translation.parent_id) == (PARENT, server.span_id, server.span_id)
    assert server.start <= translation.start <= translation.end <= attempt.start < attempt.end <= server.end
    assert not any(span.failed for span in (server, attempt, translation))
    request_id = server.attributes.pop("trilogue.request_id")
    assert request_id.startswith("req_")
    assert (server.name, server.attributes) == (
        "POST /v1/chat/completions",
        {
            "http.request.method": "POST",
            "http.response.status_code": 200,
            "http.route": "/v1/chat/completions",
            "trilogue.attempts": 1,
            "trilogue.client_protocol": "chat",
            "trilogue.key": "alice",
            "trilogue.losses": ["param.dropped"],
            "trilogue.model": "messages/text",
            "trilogue.provider": "messages",
            "trilogue.upstream_protocol": "messages",
            "url.path": "/v1/chat/completions",
            "url.scheme": "http",
            "user_agent.original": "test",
        },
    )
    assert (translation.name, translation.attributes) == (
        "translate chat>messages",
        {"trilogue.source": "chat", "trilogue.target": "messages"},
    )
    assert attempt.attributes.pop("gen_ai.response.id").startswith("msg_")
    port = int(traced.up.url.rpartition(":")[2])
    assert (attempt.name, attempt.attributes) == (
        "chat text",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "moonshot_ai",
            "gen_ai.request.max_tokens": 50,
            "gen_ai.request.model": "text",
            "gen_ai.request.stop_sequences": ["END"],
            "gen_ai.request.temperature": 0.5,
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.response.model": "text",
            "gen_ai.usage.cache_read.input_tokens": attempt.attributes["gen_ai.usage.cache_read.input_tokens"],
            "gen_ai.usage.cache_write.input_tokens": 0,
            "gen_ai.usage.input_tokens": attempt.attributes["gen_ai.usage.input_tokens"],
            "gen_ai.usage.output_tokens": attempt.attributes["gen_ai.usage.output_tokens"],
            "http.response.status_code": 200,
            "server.address": "127.0.0.1",
            "server.port": port,
            "trilogue.account": "first",
            "trilogue.action": "answered",
            "trilogue.provider": "messages",
        },
    )
    assert attempt.attributes["gen_ai.usage.input_tokens"] > 0 < attempt.attributes["gen_ai.usage.output_tokens"]
    assert traced.sent("traceparent") == f"00-{TRACE}-{attempt.span_id}-01"
    assert traced.sent("tracestate") == "vendor=1"
    assert traced.sent("baggage") is None


def test_what_all_exports_have(traced: Traced) -> None:
    """The service, what the environment adds, and the headers of the configuration."""
    traced.ask(C, "chat/text")
    server, *_ = traced.spans(2)["SERVER"]
    assert server.resource["service.name"] == server.scope == "trilogue"
    assert server.resource["deployment.environment.name"] == "test"
    assert {"service.version", "service.instance.id"} < server.resource.keys()
    assert set(traced.receiver.paths) == {"/v1/traces"}
    assert traced.receiver.headers[-1]["x-collector-key"] == "collector-canary"


def test_a_stream_that_is_passed_through(traced: Traced) -> None:
    """Its span ends with it. There is no translation, and the client's context is replaced."""
    headers = {"traceparent": TRACEPARENT, "baggage": "user=alice"}
    more = {"tools": body(C, "m", stream=True)["tools"], "reasoning_effort": "low", "seed": 7}
    assert traced.ask(C, "chat/tools", headers, stream=True, **more) == 200
    found = traced.spans(2)
    (server,), (attempt,) = found["SERVER"], found["CLIENT"]
    assert attempt.attributes["gen_ai.request.stream"] is True
    assert attempt.attributes["gen_ai.request.reasoning.level"] == "low"
    assert attempt.attributes["gen_ai.request.seed"] == 7
    assert attempt.attributes["gen_ai.provider.name"] == "chat"
    assert attempt.attributes["gen_ai.response.finish_reasons"] == ["tool_call"]
    duration = (attempt.end - attempt.start) / 1e9
    assert 0 < attempt.attributes["gen_ai.response.time_to_first_chunk"] <= duration
    assert server.attributes["trilogue.time_to_first_token"] > 0
    assert traced.sent("traceparent") == f"00-{TRACE}-{attempt.span_id}-01"
    assert traced.sent("baggage") is None


@pytest.mark.parametrize(
    "given",
    [
        f"00-{TRACE}-{PARENT}",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE.upper()}-{PARENT}-01",
    ],
)
def test_an_invalid_context_is_ignored(traced: Traced, given: str) -> None:
    """A new trace begins, and the state of the other one is not passed on."""
    assert traced.ask(C, "chat/text", {"traceparent": given, "tracestate": "vendor=1"}) == 200
    (server,), (attempt,) = list(traced.spans(2).values())[:2]
    assert server.trace_id != TRACE
    assert server.parent_id == ""
    # The last digit: recorded, and with newer versions of the SDK also that the id is random.
    sent = traced.sent("traceparent")
    assert sent in [f"00-{server.trace_id}-{attempt.span_id}-{flags}" for flags in ("01", "03")]
    assert traced.sent("tracestate") is None


def test_a_context_that_is_not_sampled(traced: Traced) -> None:
    """The client has decided that nothing is recorded. The upstream gets to know that."""
    assert traced.ask(C, "messages/text", {"traceparent": f"00-{TRACE}-{PARENT}-00", "tracestate": "a=1"}) == 200
    version, trace, span, flags = (traced.sent("traceparent") or "").split("-")
    assert (version, trace, flags, traced.sent("tracestate")) == ("00", TRACE, "00", "a=1")
    assert span != PARENT
    traced.ask(C, "chat/text")
    assert {span.trace_id for span in traced.receiver.take_all(2)}.isdisjoint({TRACE})


def test_a_retry(traced: Traced) -> None:
    """Each attempt is a span, and the failed one says why."""
    traced.up.by_key = {FIRST: "error-429"}
    try:
        assert traced.ask(M, "messages/text") == 200
    finally:
        traced.up.by_key = {}
    found = traced.spans(3)
    (server,), (failed, second) = found["SERVER"], found["CLIENT"]
    assert (failed.failed, second.failed, server.failed) == (True, False, False)
    assert failed.attributes["error.type"] == "rate_limit"
    assert failed.attributes["http.response.status_code"] == 429
    assert (failed.attributes["trilogue.action"], failed.attributes["trilogue.reason"]) == ("cooldown", "rate_limited")
    assert "http.request.resend_count" not in failed.attributes
    assert second.attributes["http.request.resend_count"] == 1
    assert second.attributes["trilogue.account"] == "second"
    assert server.attributes["trilogue.attempts"] == 2


def test_a_stream_that_breaks(traced: Traced) -> None:
    assert traced.ask(C, "chat/truncate-mid", stream=True) == 200
    found = traced.spans(2)
    (server,), (attempt,) = found["SERVER"], found["CLIENT"]
    assert server.failed
    assert attempt.failed
    assert attempt.attributes["error.type"] == server.attributes["error.type"] == "upstream_truncated"
    assert attempt.attributes["gen_ai.response.finish_reasons"] == ["error"]


def test_requests_without_an_attempt(traced: Traced) -> None:
    """A client's mistake is not an error of the server. A path that does not exist has no route."""
    assert traced.ask(C, "nowhere/x") == 404
    (server,) = traced.spans(1)["SERVER"]
    assert (server.failed, server.attributes["trilogue.error"]) == (False, "model_not_found")
    assert "error.type" not in server.attributes
    headers = {"authorization": f"Bearer {CLIENT_KEY}"}
    assert httpx2.get(f"{traced.gateway.url}/v1/nothing/here", headers=headers).status_code == 404
    (server,) = traced.spans(1)["SERVER"]
    assert server.name == "GET"
    assert "http.route" not in server.attributes


def test_a_request_that_cannot_be_translated(traced: Traced) -> None:
    """Nothing was sent: there is a translation that failed, and no attempt."""
    assert traced.ask(C, "messages/text", n=3) == 400
    found = traced.spans(2)
    assert found["CLIENT"] == []
    assert found["INTERNAL"][0].failed
    assert found["INTERNAL"][0].attributes["error.type"] == "refused"


def test_a_collector_that_fails(traced: Traced) -> None:
    """Requests go on, what is dropped is counted and logged once, and it recovers."""
    traced.receiver.status = 400
    before = traced.receiver.requests
    try:
        assert traced.ask(C, "chat/text") == 200
        until(lambda: traced.receiver.requests > before)
        assert traced.ask(C, "chat/text") == 200
        traced.gateway.wait_for_log("spans cannot be exported")
        until(lambda: traced.receiver.requests > before + 1)
    finally:
        traced.receiver.status = 200
    for _ in range(2):
        traced.ask(C, "chat/text")
        traced.receiver.take_all(2)
    traced.gateway.wait_for_log("spans are exported again")
    assert traced.gateway.log.count("spans cannot be exported") == 1
    assert "collector-canary" not in traced.gateway.log


def test_content_baggage_and_the_end(up: ScriptedUpstream, tmp_path: Path) -> None:
    """Messages are recorded if asked for, and a gateway that is stopped exports what it has, also from two workers."""
    tools = body(C, "m", stream=True)["tools"]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}, _image()]},
    ]
    environ = {**ENVIRON, "OTEL_BSP_SCHEDULE_DELAY": "60000", "OTEL_SERVICE_NAME": "by-name"}
    with (
        receiving() as receiver,
        started(
            tmp_path,
            config(receiver, "content: true, baggage: true"),
            up.url,
            options=("--workers", "2"),
            environ=environ,
        ) as gateway,
    ):
        traced = Traced(gateway, up, receiver)
        headers = {"baggage": "user=alice"}
        assert traced.ask(C, "messages/parallel-tools", headers, stream=True, messages=messages, tools=tools) == 200
        assert traced.sent("baggage") == "user=alice"
        gateway.signal(signal.SIGTERM)
        gateway.process.wait(30)
        (attempt,) = traced.spans(3)["CLIENT"]
    assert attempt.resource["service.name"] == "by-name"
    found = {name: json.loads(value) for name, value in attempt.attributes.items() if name in CONTENT}
    assert found == {
        "gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}],
        "gen_ai.tool.definitions": [
            {"type": "function", "name": "get_weather"},
            {"type": "function", "name": "get_time"},
        ],
        "gen_ai.input.messages": [
            {
                "role": "user",
                "parts": [
                    {"type": "text", "content": "Weather?"},
                    {"type": "blob", "modality": "image", "mime_type": "image/png", "content": ""},
                ],
            }
        ],
        "gen_ai.output.messages": [{"role": "assistant", "parts": found["gen_ai.output.messages"][0]["parts"]}],
    }
    calls = [part for part in found["gen_ai.output.messages"][0]["parts"] if part["type"] == "tool_call"]
    assert [call["name"] for call in calls] == ["get_weather", "get_time"]
    assert all(isinstance(call["arguments"], dict) and call["id"] for call in calls)


CONTENT = {"gen_ai.system_instructions", "gen_ai.tool.definitions", "gen_ai.input.messages", "gen_ai.output.messages"}


def _image() -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
