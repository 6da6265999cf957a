"""Recorded traffic of OpenAI and of all who speak its protocol: everything decodes, and goes back as it came."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.load import GENERATION, Recording
from tests.each import each
from tests.judges import sdk
from tests.protocols.responses.streams import collect, parse
from tests.recordings import recordings
from trilogue.errors import UpstreamFailure
from trilogue.lint import lint_stream
from trilogue.model import Event, Failed, FailureKind, Ledger, Protocol, Sequencer, events_of
from trilogue.protocols.codec import Target
from trilogue.protocols.registry import CODECS
from trilogue.protocols.responses import CODEC
from trilogue.protocols.stream.response_context import ResponseContext

FILES = recordings("resp-*.json")
_ENDPOINTS = ("responses", "responses.retrieve")
_ENDS = ("response.completed", "response.incomplete")
_SHORTENED = "resp-s-openai-ai-fixtures-openai-shell-container-1-chunks"
"""Its deltas were shortened by hand, its snapshot was not."""


@cache
def load(path: Path) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return recording


def having(field: str) -> list[Any]:
    found = [path for path in FILES if load(path)["endpoint"] in _ENDPOINTS and load(path)[field]]
    if field != "request":
        found = [path for path in found if load(path)["status"] == 200]
    return [pytest.param(path, id=path.stem) for path in found]


def without_nulls(value: Any) -> Any:
    """Null and absent are the same."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def normal_request(body: dict[str, Any]) -> dict[str, Any]:
    """What may change: a message gets its type, its text its (empty) annotations; defaults may be left out."""
    body = without_nulls(body)
    if body.get("stream") is False:
        del body["stream"]
    if body.get("input") == []:
        del body["input"]
    for item in body["input"] if isinstance(body.get("input"), list) else []:
        if "role" in item:
            item.setdefault("type", "message")
        for part in item["content"] if isinstance(item.get("content"), list) else []:
            if part.get("type") == "output_text":
                part.setdefault("annotations", [])
    return body


@each("path", having("request"))
def test_requests_go_back_as_they_came(path: Path) -> None:
    """Same protocol: equal but for the documented normalisation, and nothing to declare."""
    body = load(path)["request"]
    ledger = Ledger()
    request = CODEC.decode_request(body)
    encoded = CODEC.encode_request(request, Target.of(Protocol.RESPONSES, request.model), ledger)
    assert normal_request(encoded) == normal_request(body)
    assert ledger.losses == []


_CERTAIN = {
    "metadata": {},
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "reasoning": {},
    "text": {"format": {"type": "text"}},
    "truncation": "disabled",
}


def normal_response(body: dict[str, Any]) -> dict[str, Any]:
    """What may change: required fields that the server left out are there; finished calls are not in progress."""
    body = {**_CERTAIN, **without_nulls(body)}
    body["created_at"] = int(body["created_at"])
    body["output"] = [normal_item(item) for item in body["output"]]
    if isinstance(body.get("usage"), dict):
        usage = body["usage"]
        usage["input_tokens_details"] = {
            "cached_tokens": 0,
            "cache_write_tokens": 0,
            **usage.get("input_tokens_details", {}),
        }
        usage["output_tokens_details"] = {"reasoning_tokens": 0, **usage.get("output_tokens_details", {})}
        usage["total_tokens"] = usage["input_tokens"] + usage["output_tokens"]
    return body


def normal_item(item: dict[str, Any]) -> dict[str, Any]:
    if item.get("type") == "message":
        parts = [
            {"annotations": [], "logprobs": [], **part} for part in item["content"] if part["type"] == "output_text"
        ]
        parts = [{**part, "annotations": [a.get("url") for a in part["annotations"]]} for part in parts]
        item = {**item, "content": parts + [part for part in item["content"] if part["type"] != "output_text"]}
    elif item.get("content") == []:
        item = {name: value for name, value in item.items() if name != "content"}
    return {**item, "status": "completed" if item.get("status") in (None, "in_progress") else item["status"]}


@each("path", having("response"))
def test_bodies_go_back_as_they_came(path: Path) -> None:
    """An answer of the same protocol keeps ids, extras, natives and numbers."""
    body = load(path)["response"]
    encoded = CODEC.encode_response(CODEC.decode_response(body), ResponseContext(source=Protocol.RESPONSES))
    assert normal_response(encoded) == normal_response(body)


def raw(recording: dict[str, Any]) -> bytes:
    """The bytes of a recorded stream, or what its events look like on the wire."""
    if recording["raw_sse"]:
        text: str = recording["raw_sse"]
        return text.encode()
    lines = []
    for event in recording["sse"]:
        data = event["data"] if isinstance(event["data"], str) else json.dumps(event["data"])
        lines.append((f"event: {event['event']}\n" if event["event"] else "") + f"data: {data}\n\n")
    return "".join(lines).encode()


def decoded(recording: dict[str, Any]) -> list[Event]:
    decoder = CODEC.decoder()
    return Sequencer().feed(decoder.feed(raw(recording)) + decoder.close())


def texts(output: list[dict[str, Any]]) -> list[str]:
    parts = [part for item in output for part in item.get("content") or [] if item["type"] == "message"]
    return [part.get("text") or part.get("refusal") or "" for part in parts]


@each("path", having("sse"))
def test_streams_are_read_and_written(path: Path) -> None:
    """Read: what the server streamed. Written: valid for the linter and the SDK, and equal to the whole answer."""
    recording = load(path)
    events = decoded(recording)
    context = ResponseContext(body=recording["request"] or {}, model="alias", source=None)
    encoder = CODEC.encoder(context)
    sent = encoder.encode(events)
    if isinstance(events[-1], Failed) and path.stem.startswith(_SHORTENED):
        assert events[-1].failure.kind is FailureKind.UPSTREAM_PROTOCOL
        return
    if isinstance(events[-1], Failed):
        assert "error" in recording["tags"]
        assert events[-1].failure.kind in (FailureKind.RATE_LIMIT, FailureKind.SERVER)
        return
    errors = [finding for finding in lint_stream(Protocol.RESPONSES, sent) if finding.severity == "error"]
    assert errors == []
    assert sdk.accumulate(Protocol.RESPONSES, sent).error is None
    response = collect(events)
    whole = CODEC.encode_response(
        response, ResponseContext(body=recording["request"] or {}, model="alias", source=None)
    )
    assert whole == parse(sent)[-1]["response"]


_ANSWERS = [
    pytest.param(path, id=path.stem)
    for path in recordings()
    if load(path)["status"] == 200 and load(path)["response"] and load(path)["endpoint"] in GENERATION
]


@each("path", _ANSWERS)
def test_a_whole_response_is_what_its_stream_ends_with(path: Path) -> None:
    """Of all protocols, as an answer of its own protocol and as a foreign one, with what each of them lost."""
    recording = Recording(path.stem, load(path))
    try:
        response = CODECS[recording.protocol].decode_response(load(path)["response"])
    except UpstreamFailure:
        assert load(path)["response"]["choices"][0]["error"]
        return
    body = (recording.request or {}) if recording.protocol is Protocol.RESPONSES else {}
    for source in (recording.protocol, None):
        whole_reply, context = (ResponseContext(body=body, model="alias", created=1, source=source) for _ in range(2))
        sent = CODEC.encoder(context).encode(events_of(response))
        assert CODEC.encode_response(response, whole_reply) == parse(sent)[-1]["response"]
        assert whole_reply.ledger.losses == context.ledger.losses


def snapshot(recording: dict[str, Any]) -> dict[str, Any]:
    """The response that the stream ends with, or nothing."""
    ends = [e["data"] for e in recording["sse"] if isinstance(e["data"], dict) and e["data"].get("type") in _ENDS]
    return ends[-1]["response"] if ends else {}


_WITH_SNAPSHOT = [
    case
    for case in having("sse")
    if snapshot(load(case.values[0])).get("output") and not case.values[0].stem.startswith(_SHORTENED)
]


@each("path", _WITH_SNAPSHOT)
def test_streams_say_what_their_snapshot_says(path: Path) -> None:
    """Deltas, done items and the terminal snapshot are one answer; blobs are encrypted anew each time."""
    recording = load(path)
    streamed = collect(decoded(recording))
    whole = CODEC.decode_response(snapshot(recording))
    assert [type(block) for block in streamed.blocks] == [type(block) for block in whole.blocks]
    assert streamed.stop == whole.stop
    assert streamed.usage == whole.usage
    own = CODEC.encode_response(streamed, ResponseContext(source=Protocol.RESPONSES))
    assert texts(own["output"]) == texts(snapshot(recording)["output"])


@pytest.mark.parametrize("size", [1, 17, 1024])
@pytest.mark.parametrize("path", having("sse")[::20])
def test_chunk_boundaries_do_not_matter(path: Path, size: int) -> None:
    """However the network cut it."""
    recording = load(path)
    data = raw(recording)
    decoder = CODEC.decoder()
    cut = [event for n in range(0, len(data), size) for event in decoder.feed(data[n : n + size])]
    assert Sequencer().feed(cut + decoder.close()) == decoded(recording)


def test_recordings_are_there(corpus: Path) -> None:
    """Skipped with a message where there are none, instead of passing by having nothing to do."""
    assert FILES
    assert all(path.parent == corpus for path in FILES)
