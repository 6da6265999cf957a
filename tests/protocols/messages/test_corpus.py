"""Recorded Messages traffic through the codec: everything decodes, and the same protocol gives it back."""

import json
from typing import Any

import pytest

from tests.each import each
from tests.protocols.messages.official import accumulated
from tests.protocols.messages.wire_samples import native, without_nulls
from tests.recordings import recordings
from trilogue.model import Collector, Event, Failed, FailureKind, Protocol, Sequencer
from trilogue.protocols.messages import CODEC
from trilogue.protocols.stream.response_context import ResponseContext

RECORDINGS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text("utf-8")) for path in recordings("msgs-*.json")
}
pytestmark = pytest.mark.usefixtures("corpus")

REQUESTS = [name for name, recording in RECORDINGS.items() if recording["request"]]
BODIES = [name for name, recording in RECORDINGS.items() if "content" in (recording["response"] or {})]
STREAMS = [name for name, recording in RECORDINGS.items() if recording["sse"]]
ERRORS = [name for name, recording in RECORDINGS.items() if recording["status"] not in (200, None)]

SPLICED = "spliced-message-start"
"""a second message inside the stream: the one recording that must fail"""
LATE_FIGURES = "gateway-message-delta-metadata"
"""a reseller that adds usage fields at the end, which the SDK does not collect"""


def normal_request(body: dict[str, Any]) -> Any:
    """A request without the differences that mean nothing: nulls, empty lists, a stream that is off, an old name."""
    plain = without_nulls(body)
    old = plain.pop("output_format", None)
    if old is not None:
        plain.setdefault("output_config", {})["format"] = old
    plain.setdefault("model", "claude-opus-5")
    harmless: tuple[tuple[str, Any], ...] = (("stream", False), ("tools", []), ("system", []))
    for name, value in harmless:
        if plain.get(name) == value:
            del plain[name]
    return plain


def events_of(recording: dict[str, Any]) -> list[Event]:
    decoder = CODEC.decoder()
    if recording["raw_sse"]:
        events = decoder.feed(recording["raw_sse"].encode())
    else:
        events = []
        for event in recording["sse"]:
            data = event["data"] if isinstance(event["data"], str) else json.dumps(event["data"])
            events += decoder.feed_event(event["event"] or "", data.encode())
    return Sequencer().feed([*events, *decoder.close()])


@each("name", REQUESTS)
def test_requests_come_back(name: str) -> None:
    """Nothing that a real client sent is lost or changed, and nothing is declared lost."""
    body = RECORDINGS[name]["request"]
    written, losses = native({"model": "claude-opus-5", **body})
    assert normal_request(written) == normal_request(body)
    assert not losses


@each("name", BODIES)
def test_bodies_come_back(name: str) -> None:
    """Nothing that a real upstream answered is lost or changed."""
    body = RECORDINGS[name]["response"]
    context = ResponseContext(source=Protocol.MESSAGES)
    written = CODEC.encode_response(CODEC.decode_response(body), context)
    assert without_nulls(written) == without_nulls(body)
    assert not context.ledger.losses


@each("name", ERRORS)
def test_errors_have_a_kind_and_a_message(name: str) -> None:
    """Real error bodies are understood, and answered with the status that they came with."""
    recording = RECORDINGS[name]
    body = recording["raw_body"] if recording.get("raw_body") else json.dumps(recording["response"])
    failure = CODEC.decode_error(recording["status"], recording["response_headers"] or {}, body.encode())
    assert failure.message
    assert failure.kind is not FailureKind.SERVER
    assert CODEC.encode_error(failure, "r").status == recording["status"]


@each("name", STREAMS)
@pytest.mark.parametrize("source", [Protocol.MESSAGES, Protocol.CHAT], ids=["native", "foreign"])
def test_streams_are_what_the_sdk_collects(name: str, source: Protocol) -> None:
    """Written again, every real stream gives the official SDK the object that the whole answer is.

    Written as if it came from another protocol, it must hold all the more to the rules.
    """
    events = events_of(RECORDINGS[name])
    if SPLICED in name:
        assert isinstance(events[-1], Failed)
        return
    collector = Collector()
    for event in events:
        collector.feed(event)
    whole = without_nulls(CODEC.encode_response(collector.response(), ResponseContext(source=source)))
    collected = accumulated(CODEC.encoder(ResponseContext(source=source)).encode(events))
    if LATE_FIGURES in name:
        whole.pop("usage"), collected.pop("usage")
    assert collected == whole
