"""The capture file: what the writer writes, the reader reads; broken and newer files are refused clearly."""

from __future__ import annotations

import json

import pytest

from tests.capture.making import REQUEST_ID, STARTED
from tests.capture.samples import BODY, REQUEST, STREAM, plain, streamed
from trilogue import Protocol
from trilogue.capture import (
    VERSION,
    CaptureError,
    CaptureHead,
    CapturePhase,
    CaptureWriter,
    Sent,
    is_capture,
    read_capture,
)
from trilogue.policies import Record

PHASES = ["inbound_request", "provider_request", "upstream_response", "outbound_response"]


def lines(data: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in data.splitlines()]


def test_four_phases_in_order_of_time() -> None:
    found = lines(streamed().file())
    assert found[0] | {"started": 0} == {
        "format": "trilogue-capture",
        "version": 1,
        "request_id": REQUEST_ID,
        "started": 0,
        "redacted": False,
        "trilogue": "0.1.0",
    }
    named = [line["phase"] for line in found if "phase" in line]
    assert sorted(set(named), key=named.index) == PHASES == [phase.value for phase in CapturePhase]
    assert found[-1]["end"] is True
    assert found[-1]["record"] == {"status": 200}


def test_what_was_written_is_read() -> None:
    """Bodies byte for byte, with a time for each piece."""
    capture = streamed().capture()
    assert capture.complete
    assert capture.inbound is not None
    assert capture.inbound.protocol is Protocol.MESSAGES
    assert json.loads(capture.inbound.body) == REQUEST | {"stream": True}
    [attempt] = capture.attempts
    assert attempt.response.body == STREAM
    assert attempt.response.status == 200
    assert [at for at, _ in attempt.response.pieces] == sorted(at for at, _ in attempt.response.pieces)
    assert attempt.response.pieces[1][0] == pytest.approx(1.01, abs=1e-4)
    assert capture.outbound.body.startswith(b"event: message_start\n")
    assert (attempt.plan.provider, attempt.plan.account, attempt.plan.model) == ("local", "a", "up")
    assert [(loss.code, loss.path) for loss in attempt.plan.losses] == [("param.dropped", "top_k")]
    assert attempt.plan.profile["max_tokens_field"] == "max_tokens"


def test_every_attempt_is_kept() -> None:
    traffic = plain()
    traffic.failures = [(429, b'{"error": {"message": "slow down"}}'), (500, b"oops")]
    capture = traffic.capture()
    assert [attempt.response.status for attempt in capture.attempts] == [429, 500, 200]
    assert [attempt.response.body for attempt in capture.attempts[:2]] == [body for _, body in traffic.failures]


def test_bytes_that_are_not_text() -> None:
    """A character that is cut between two pieces, and plain garbage."""
    writer = CaptureWriter(CaptureHead(started=STARTED))
    writer.inbound(STARTED, Protocol.CHAT, ("POST", "/v1/chat/completions"), {}, b"{}")
    writer.attempt(STARTED, Sent(protocol=Protocol.CHAT, url="http://x/"))
    writer.upstream_start(STARTED, 200, {})
    for piece in (b"data: \xc3", b"\xa9\n\n", b"\xff\x00"):
        writer.upstream_chunk(STARTED + 1, piece)
    writer.finished(STARTED + 2)
    capture = read_capture(writer.take())
    assert [data for _, data in capture.attempts[0].response.pieces] == [b"data: \xc3", b"\xa9\n\n", b"\xff\x00"]


def test_a_failed_connection() -> None:
    writer = CaptureWriter(CaptureHead(started=STARTED))
    writer.attempt(STARTED, Sent(protocol=Protocol.CHAT, url="http://x/"))
    writer.upstream_failed(STARTED + 1, "could not be reached")
    writer.finished(STARTED + 1)
    [attempt] = read_capture(writer.take()).attempts
    assert attempt.response.error == "could not be reached"


def test_the_size_is_limited() -> None:
    """What does not fit is counted, and the file still has its end."""
    data = streamed().file(most_bytes=3000)
    capture = read_capture(data)
    assert len(data) < 3000 + 300
    assert capture.complete
    assert capture.omitted > 0
    assert len(streamed().file()) > 3000 + capture.omitted


def test_lines_can_be_taken_as_they_come() -> None:
    writer = CaptureWriter(CaptureHead(started=STARTED))
    first = writer.take()
    assert is_capture(first)
    assert writer.take() == b""
    writer.finished(STARTED)
    assert not is_capture(writer.take())


def test_a_file_without_its_end_is_read_as_far_as_it_goes() -> None:
    data = streamed().file()
    capture = read_capture(data[: len(data) * 2 // 3])
    assert not capture.complete
    assert capture.attempts


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a capture file"),
        (b"hello\n", "not a capture file"),
        (b'{"model": "m"}\n', "not a capture file"),
        (b'{"format": "trilogue-capture", "version": 99}\n', "version 99, and this Trilogue reads versions up to 2"),
        (b'{"format": "trilogue-capture", "version": "x"}\n', "line 1: version"),
    ],
)
def test_not_a_capture(data: bytes, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        read_capture(data)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{nonsense", "line 2 is not a JSON object"),
        (b'{"phase": "inbound_request", "at": "soon"}', r"line 2: Expected `float`, got `str` - at `\$.at`"),
        (b'{"phase": "upstream_response", "at": 1, "attempt": 3}', "no provider_request of attempt 3"),
        (b'{"phase": "provider_request", "at": 1, "attempt": 2}', "attempt 2 follows attempt 0"),
        (b'{"phase": "inbound_request", "at": 1, "base64": "\xe2\x82\xac"}', "line 2: base64 is not valid"),
        (b'{"phase": "provider_request", "at": 1, "attempt": 1, "plan": {"fit": 7}}', "line 2: "),
    ],
)
def test_a_damaged_line_is_named(line: bytes, message: str) -> None:
    head = b'{"format": "trilogue-capture", "version": 1}\n'
    with pytest.raises(CaptureError, match=message):
        read_capture(head + line + b"\n" + b'{"end": true}\n')


def test_fields_and_phases_of_later_versions_are_ignored() -> None:
    head = b'{"format": "trilogue-capture", "version": 1, "colour": "blue"}\n'
    more = (
        b'{"phase": "mood", "at": 1}\n{"phase": "inbound_request", "at": 1, "text": "{}", "mood": 1}\n{"end": true}\n'
    )
    capture = read_capture(head + more)
    assert capture.inbound is not None
    assert capture.inbound.body == b"{}"
    assert capture.complete


def test_a_plain_response() -> None:
    capture = plain().capture()
    assert capture.attempts[0].response.body == BODY
    assert json.loads(capture.outbound.body)["type"] == "message"


def test_decisions_of_policies_have_lines_of_their_own() -> None:
    """In a file of version 2. A file without them stays one that older versions read."""
    writer = CaptureWriter(CaptureHead(version=VERSION, started=STARTED))
    decided = Record(
        policy="guard", stage="block", verdict="drop", reason="a rule", block=2, kind="ToolCall", seconds=0.5
    )
    writer.policy(STARTED + 1.5, decided)
    writer.finished(STARTED + 2)
    data = writer.take()
    assert lines(data)[0]["version"] == VERSION == 2
    [found] = read_capture(data).policies
    assert (found.at, found.policy, found.verdict, found.reason) == (1.5, "guard", "drop", "a rule")
    assert (found.stage, found.block, found.kind, found.seconds) == ("block", 2, "ToolCall", 0.5)
    with pytest.raises(CaptureError, match="line 2: Object missing required field `verdict`"):
        read_capture(data.replace(b'"verdict":"drop",', b""))
