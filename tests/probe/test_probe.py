"""`trilogue lint --url` against real servers on loopback: a good one passes, and each fault on the wire is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import run
from tests.gateway.process import started
from tests.scripted.http import chunk, head, stream_head, whole
from tests.scripted.server import KEY, ScriptedUpstream
from tests.scripted.thread import running
from trilogue import Protocol
from trilogue.app.cli.probe import LIVE_RULES, ProbeRequest, asks, judge, live_rules_table
from trilogue.app.cli.probe_client import Received
from trilogue.lint import lint_request

DOC = Path(__file__).resolve().parents[2] / "docs" / "lint.md"
DEMO = "providers: {demo: {protocol: openai_responses, base_url: 'demo:'}}\n"
AT_ONCE = "import trilogue.upstreams.demo.transport as demo\ndemo.DemoTransport.__init__.__kwdefaults__['pace'] = 0.0"
"""the demo writes as slowly as a model, which takes a minute here"""
PROTOCOLS = [protocol.short for protocol in Protocol]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with started(tmp_path_factory.mktemp("demo"), DEMO, patch=AT_ONCE) as gateway:
        yield gateway.url


@pytest.fixture
def up() -> Iterator[ScriptedUpstream]:
    with running() as upstream:
        yield upstream


def lint(url: str, protocol: str, model: str, *more: str) -> tuple[int, str]:
    done = run("lint", "--protocol", protocol, "--url", url, "--model", model, *more)
    assert b"Traceback" not in done.stderr
    return done.returncode, done.stdout.decode() + done.stderr.decode()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_our_own_gateway_breaks_no_rule(demo: str, protocol: str) -> None:
    """Not even the stricter ones for gateways. The demo makes one call where two were asked for."""
    code, out = lint(demo, protocol, "demo", "--own")
    assert code == 0, out
    assert " error: " not in out
    assert "text, streamed: 200, " in out
    assert "bad request, plain: 400 in " in out
    assert "bad request, streamed: 400 in " in out
    assert "L02 note: a wrong key was accepted" in out


def test_two_calls_at_once(demo: str) -> None:
    code, out = lint(demo, "messages", "demo-parallel-tools")
    assert code == 0
    assert "parallel calls, plain: 200" in out
    assert "of 2 tool calls" not in out


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_server_with_keys(up: ScriptedUpstream, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong key is refused, the right one never shows."""
    monkeypatch.setenv("PROBE_KEY", KEY)
    _, out = lint(up.url, protocol, "text", "--key-env", "PROBE_KEY")
    assert "refused key, plain: 401 in " in out
    assert "refused key, streamed: 401 in " in out
    assert KEY not in out
    keys = {request.header("authorization") or request.header("x-api-key") for request in up.requests}
    assert len(keys) == 2


def test_notes_about_headers_and_abilities(up: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE_KEY", KEY)
    _, out = lint(up.url, "chat", "text", "--key-env", "PROBE_KEY")
    assert "L05 note: the header X-Accel-Buffering: no is missing" in out
    assert "L07 note: 0 of 1 tool calls came" in out
    assert "L07 note: no reasoning came" in out


@pytest.mark.parametrize(
    ("model", "finding"),
    [
        ("html-200", "L03 error: the content type is text/html instead of application/json"),
        ("malformed", "L08 error: "),
        ("truncate-mid", "L01 error: "),
        ("truncate-clean", "A15 error: "),
        ("reset-mid", "L01 error: "),
        ("error-429", "L02 error: status 429 instead of 200"),
    ],
)
def test_faults_of_a_server(up: ScriptedUpstream, model: str, finding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE_KEY", KEY)
    code, out = lint(up.url, "chat", model, "--key-env", "PROBE_KEY")
    assert code == 1
    assert finding in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--url", "http://127.0.0.1:9", "--model", "m"], "the server cannot be asked"),
        (["--url", "ftp://x", "--model", "m"], "must be an http or https URL"),
        (["--url", "http://127.0.0.1:9"], "--url needs --model"),
        (["--model", "m"], "--model and --key-env need --url"),
        (["--url", "http://127.0.0.1:9", "--model", "m", "--key-env", "NOT_SET_AT_ALL"], "NOT_SET_AT_ALL is not set"),
    ],
)
def test_what_cannot_be_asked(arguments: list[str], message: str) -> None:
    done = run("lint", "--protocol", "chat", *arguments)
    assert done.returncode == 2
    assert message in done.stderr.decode()


@pytest.mark.parametrize(
    ("path", "model", "key", "message"),
    [
        ("", "text", "another-key", "the server refuses the key (status 401: "),
        ("", "text", "", "name the variable with its key: --key-env"),
        ("/elsewhere/v1", "text", KEY, "the server has no /elsewhere/v1/chat/completions, or no such model"),
        ("", "no-such-model", KEY, "check --url and --model"),
    ],
)
def test_what_every_request_would_fail_with(
    up: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch, path: str, model: str, key: str, message: str
) -> None:
    """One line says so, instead of a finding for each request."""
    monkeypatch.setenv("PROBE_KEY", key)
    code, out = lint(f"{up.url}{path}", "chat", model, *(["--key-env", "PROBE_KEY"] if key else []))
    assert (code, out.count("\n"), len(up.requests)) == (2, 1, 1)
    assert message in out
    assert not key or key not in out


STREAM_ASK = next(ask for ask in asks(Protocol.CHAT, "m") if ask.name == "text, streamed")
GOOD_HEADERS = {"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"}


def piece(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    body: dict[str, Any] = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }
    return b"data: %b\n\n" % json.dumps(body).encode()


PIECES = [piece(str(number)) for number in range(8)]


def live(times: list[float], pieces: list[bytes] | None = None, headers: dict[str, str] | None = None) -> list[str]:
    """Return the live rules that a stream breaks, with their severities, if its pieces arrive at these times."""
    received = Received(
        status=200,
        headers=GOOD_HEADERS if headers is None else headers,
        pieces=list(zip(times, PIECES if pieces is None else pieces, strict=True)),
        ended_at=times[-1],
    )
    found = judge(Protocol.CHAT, STREAM_ASK, received)
    return [f"{one.rule} {one.severity}" for one in found if one.rule in LIVE_RULES]


STEADY = [0.5 + number / 4 for number in range(8)]


def test_when_the_pieces_arrive() -> None:
    """Steady is good; everything at once after a long time is buffered; a quick stream says nothing."""
    assert live(STEADY) == []
    assert live([3.0], [b"".join(PIECES)]) == ["L04 error"]
    assert live([3.0 + number / 1000 for number in range(8)]) == ["L04 note"]
    assert live([0.2], [b"".join(PIECES)]) == []
    assert live([3.0], [PIECES[0]]) == []


def test_silence() -> None:
    """Before the first byte, too; a keep-alive ends it."""
    assert live([16.0, *(16 + at for at in STEADY[1:])]) == ["L06 error"]
    keepalive = [b": keepalive\n\n", *PIECES]
    assert live([10.0, *(20 + at for at in STEADY)], keepalive) == []


def test_headers_of_a_stream() -> None:
    assert live(STEADY, headers={"content-type": "application/json", "x-accel-buffering": "no"}) == ["L03 error"]
    assert live(STEADY, headers={"content-type": "text/event-stream"}) == ["L05 note"]
    assert live(STEADY, headers={}) == ["L03 error", "L05 note"]


def test_a_buffering_server_over_a_real_connection(up: ScriptedUpstream) -> None:
    """The first stream comes in one write, a second after the headers."""
    headers = [("content-type", "text/event-stream")]
    body = b"".join([*PIECES, b"data: [DONE]\n\n"])
    for _ in range(5):
        up.say(whole(200, [], b"{}"))
    for seconds in (1.2, *[0.0] * 8):
        up.say(stream_head(headers[1:]), seconds, chunk(body), b"0\r\n\r\n")
    code, out = lint(up.url, "chat", "m")
    assert code == 1
    assert "L04 error: 9 events arrived within 0 ms, after 1." in out
    assert head(200, headers)


@pytest.mark.parametrize("protocol", list(Protocol))
def test_the_requests_are_valid(protocol: Protocol) -> None:
    """Except for the one that must not be."""
    for ask in asks(protocol, "some-model"):
        findings = [finding for finding in lint_request(protocol, ask.body) if finding.severity == "error"]
        assert bool(findings) == (ask.expected == "bad_request"), ask.name


def test_each_kind_is_asked_plain_and_streamed() -> None:
    names = [ask.name for ask in asks(Protocol.MESSAGES, "m")]
    kinds = ("text", "tool call", "parallel calls", "reasoning", "stop sequence", "refused key", "bad request")
    assert all(f"{kind}, {how}" in names for kind in kinds for how in ("plain", "streamed"))
    assert not any("stop" in ask.name for ask in asks(Protocol.RESPONSES, "m"))
    assert isinstance(STREAM_ASK, ProbeRequest)


def test_the_page_has_the_live_rules() -> None:
    assert live_rules_table() in DOC.read_text("utf-8")
