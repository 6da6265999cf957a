"""An upstream that fails in every way: each client gets a complete answer or an error of its own protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.gateway.process import PATIENT, QUICK, Started, started
from tests.gateway.wire import CASES, Outcome, exchange, name, outcome, outcomes, request
from tests.scripted import thread
from tests.scripted.server import ScriptedUpstream
from tests.timing import TooSlowError, eventually
from trilogue.lint import lint_stream
from trilogue.model import Protocol


@dataclass(frozen=True)
class Class:
    """A kind of failure: the status for clients of each vendor, OpenAI's code, Anthropic's type."""

    openai_status: int
    code: str
    anthropic_status: int
    kind: str


CONNECT = Class(502, "upstream_connect", 502, "api_error")
TRUNCATED = Class(502, "upstream_truncated", 502, "api_error")
NONSENSE = Class(502, "upstream_protocol_error", 502, "api_error")
TIMEOUT = Class(504, "upstream_timeout", 504, "timeout_error")
OVERLOADED = Class(503, "server_is_overloaded", 529, "overloaded_error")

FAULTS: dict[str, tuple[Class, str, Class]] = {
    # scenario: what a stream ends with and where it is told; what a whole answer ends with
    "reset-before-headers": (CONNECT, "http", CONNECT),
    "hang-before-headers": (TIMEOUT, "http", TIMEOUT),
    "hang-after-headers": (TIMEOUT, "http", TIMEOUT),
    "hang-mid": (TIMEOUT, "stream", TIMEOUT),
    "drip": (TIMEOUT, "http", TIMEOUT),
    "truncate-mid": (TRUNCATED, "stream", TRUNCATED),
    "truncate-clean": (TRUNCATED, "stream", NONSENSE),
    "reset-mid": (CONNECT, "stream", CONNECT),
    "malformed": (NONSENSE, "stream", NONSENSE),
    "html-200": (NONSENSE, "http", NONSENSE),
    "stream-error-first": (OVERLOADED, "http", OVERLOADED),
    "stream-error-mid": (OVERLOADED, "stream", OVERLOADED),
    "error-529": (OVERLOADED, "http", OVERLOADED),
}
GOOD = ("text", "refusal", "length", "empty", "parallel-tools", "search")


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    with thread.running() as running:
        yield running


@pytest.fixture(scope="module")
def quick(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A gateway with short clocks."""
    with started(tmp_path_factory.mktemp("quick"), QUICK, upstream.url) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def patient(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A gateway with clocks that no busy machine misses. Its upstreams have worked until now."""
    with started(tmp_path_factory.mktemp("patient"), PATIENT, upstream.url) as gateway:
        asyncio.run(outcomes(gateway.url, "text"))
        yield gateway


def last_line(gateway: Started, model: str) -> dict[str, Any]:
    """Return the line of the last request for a model. It is written a moment after the response."""

    def found() -> list[dict[str, Any]]:
        return [line for line in gateway.lines if line.get("model") == model]

    return eventually(found)[-1]


def check(found: Outcome, client: Protocol, expected: Class, how: str) -> None:
    """The right error in the right place."""
    status = expected.anthropic_status if client is Protocol.MESSAGES else expected.openai_status
    assert (found.how, found.status) == (how, status if how == "http" else 200)
    if client is Protocol.MESSAGES:
        assert found.kind == expected.kind
    else:
        assert found.code == expected.code
        assert found.kind in ("server_error", "")  # `response.failed` has no type


@pytest.mark.parametrize("scenario", FAULTS)
def test_every_client_gets_the_error_of_a_failing_upstream(quick: Started, patient: Started, scenario: str) -> None:
    """Rows 5-14, 25-27: 3 clients, 3 upstreams, streamed or not."""
    in_stream, how, in_whole = FAULTS[scenario]
    found = asyncio.run(outcomes(quick.url if in_stream is TIMEOUT else patient.url, scenario))
    for case in CASES:
        client, upstream, stream = case
        expected = (in_stream, how) if stream else (in_whole, "http")
        if expected == (OVERLOADED, "stream") and client is Protocol.RESPONSES and upstream is not client:
            # Codex gives up at server_is_overloaded and tries again at this.
            expected = (replace(OVERLOADED, code="server_error"), "stream")
        if expected[1] == "stream" and found[name(case)].status == 504:
            raise TooSlowError("the first byte did not come in time either")
        check(found[name(case)], client, *expected)


@pytest.mark.parametrize("protocol", Protocol, ids=lambda protocol: protocol.short)
def test_responses_clients_get_a_full_context_inside_the_stream(patient: Started, protocol: Protocol) -> None:
    """Codex makes its history shorter when it reads it there; at an HTTP error it is stuck."""
    data = request(Protocol.RESPONSES, f"{protocol.short}/error-400-context", stream=True)
    answer = asyncio.run(exchange(patient.url, data))
    assert answer.status == 200
    assert lint_stream(Protocol.RESPONSES, answer.body) == []
    events = [json.loads(line[5:]) for line in answer.body.split(b"\n") if line.startswith(b"data:")]
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "error",
        "response.failed",
    ]
    assert events[-1]["response"]["error"]["code"] == events[-2]["code"] == "context_length_exceeded"
    assert "prompt is too long" in events[-1]["response"]["error"]["message"]
    line = last_line(patient, f"{protocol.short}/error-400-context")
    assert line["error"].startswith("context_length")
    assert line["status"] == 200


def test_a_full_context_is_an_http_error_elsewhere(patient: Started) -> None:
    """Whole answers have no stream to tell it in, and clients of the other protocols know it by its status."""
    for case, found in asyncio.run(outcomes(patient.url, "error-400-context")).items():
        streamed = case.startswith("responses") and case.endswith("stream")
        assert (found.how, found.status) == (("stream", 200) if streamed else ("http", 400))


@pytest.mark.parametrize("scenario", GOOD)
def test_what_is_no_fault_is_complete(patient: Started, scenario: str) -> None:
    """Row 28: a refusal, a limit and an empty answer are successes."""
    assert {found.how for found in asyncio.run(outcomes(patient.url, scenario)).values()} == {"complete"}


def test_a_bad_request_is_the_clients(patient: Started) -> None:
    """Row 18: an upstream's 400 stays a 400 with its text, and is not tried again."""
    for found in asyncio.run(outcomes(patient.url, "error-400")).values():
        assert (found.how, found.status, found.kind) == ("http", 400, "invalid_request_error")
        assert found.message == "max_tokens: must be positive"


def test_faults_are_logged_as_one_line_each_and_none_is_a_bug(patient: Started) -> None:
    """One structured line per request with its error; a client's or an upstream's fault is never an exception here."""

    async def fail() -> None:
        data = request(Protocol.CHAT, "messages/reset-mid", stream=True)
        assert outcome(await exchange(patient.url, data), Protocol.CHAT).how == "stream"

    asyncio.run(fail())
    line = last_line(patient, "messages/reset-mid")
    assert (line["event"], line["error"], line["status"]) == ("request", "upstream_connect", 200)
    assert line["provider"] == "messages"
    assert [line for line in patient.lines if line["event"] == "bug" or "exception" in line] == []
