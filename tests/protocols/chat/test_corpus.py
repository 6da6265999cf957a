"""Recorded traffic of some thirty vendors through the codec: everything is read, and read the same way twice."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from tests.each import each
from tests.recordings import recordings
from trilogue.base.sse import SseParser
from trilogue.errors import BadRequest, UpstreamFailure
from trilogue.model import Collector, Event, Failed, Ledger, Protocol, Response, Sequencer, events_of
from trilogue.protocols.chat import CODEC
from trilogue.protocols.codec import Target
from trilogue.protocols.stream.response_context import ResponseContext

RECORDINGS = recordings("chat-*.json")
BAD_REQUESTS = {"chat-n-llamacpp-rig-error-matrix-malformed-request-field-0-6ba280a0"}

pytestmark = pytest.mark.usefixtures("corpus")


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return loaded


LOADED = {path.stem: load(path) for path in RECORDINGS}
REQUESTS = sorted(name for name, recording in LOADED.items() if "messages" in (recording["request"] or {}))
BODIES = sorted(name for name, recording in LOADED.items() if isinstance(recording["response"], dict))
STREAMS = sorted(name for name, recording in LOADED.items() if recording["sse"])


def stream_bytes(recording: dict[str, Any]) -> bytes:
    if recording["raw_sse"]:
        return str(recording["raw_sse"]).encode()
    return b"".join(event_bytes(event) for event in recording["sse"])


def event_bytes(event: dict[str, Any]) -> bytes:
    data = event["data"] if isinstance(event["data"], str) else json.dumps(event["data"])
    name = f"event: {event['event']}\n" if event["event"] else ""
    return f"{name}data: {data}\n\n".encode()


def decode(data: bytes, size: int | None = None) -> list[Event]:
    decoder = CODEC.decoder()
    step = size or len(data) or 1
    events = [event for start in range(0, len(data), step) for event in decoder.feed(data[start : start + step])]
    return events + decoder.close()


def collect(events: list[Event]) -> Response:
    collector = Collector()
    for event in Sequencer().feed(events):
        collector.feed(event)
    return collector.response()


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def normalised(body: dict[str, Any]) -> dict[str, Any]:
    """What the codec writes in one way only: deprecated functions, empty lists, short forms."""
    body = without_nulls(body)
    body.setdefault("model", "")
    if not body.get("stream"):
        body.pop("stream", None)
    if isinstance(body.get("stop"), str):
        body["stop"] = [body["stop"]]
    if body.get("tool_choice") == "any":
        body["tool_choice"] = "required"
    if "functions" in body:
        body["tools"] = [{"type": "function", "function": function} for function in body.pop("functions")]
    if "function_call" in body:
        choice = body.pop("function_call")
        body["tool_choice"] = choice if isinstance(choice, str) else {"type": "function", "function": choice}
    body["tools"] = [{"type": "function", **tool} for tool in body.get("tools", [])]
    body["messages"] = [normal_message(message) for message in body["messages"]]
    return body


def normal_message(message: dict[str, Any]) -> dict[str, Any]:
    message = {name: value for name, value in message.items() if value != []}
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part.get("image_url"), str):
            part["image_url"] = {"url": part["image_url"]}
    return message


@each("name", REQUESTS)
def test_request_round_trip(name: str) -> None:
    """Nothing of a request is forgotten: written back it is the same JSON, and nothing is declared lost."""
    body = LOADED[name]["request"]
    if name in BAD_REQUESTS:
        with pytest.raises(BadRequest):
            CODEC.decode_request(body)
        return
    ledger = Ledger()
    request = CODEC.decode_request(body)
    written = CODEC.encode_request(request, Target.of(Protocol.CHAT, request.model), ledger)
    assert normalised(json.loads(json.dumps(written))) == normalised(json.loads(json.dumps(body)))
    assert ledger.losses == []


@each("name", BODIES)
def test_body_round_trip(name: str) -> None:
    """A body is an answer or a failure, and an answer survives being written and read again."""
    body = LOADED[name]["response"]
    if not body.get("choices") or body["choices"][0].get("error"):
        with pytest.raises(UpstreamFailure):
            CODEC.decode_response(body)
        return
    answer = CODEC.decode_response(body)
    written = CODEC.encode_response(answer, ResponseContext(source=Protocol.CHAT))
    again = CODEC.decode_response(json.loads(json.dumps(written)))
    assert CODEC.encode_response(again, ResponseContext(source=Protocol.CHAT)) == written
    assert written["choices"][0]["finish_reason"] in {"stop", "length", "tool_calls", "content_filter"}


def test_there_are_recordings() -> None:
    """The parametrised tests would pass without any."""
    assert len(REQUESTS) > 300
    assert len(BODIES) > 150
    assert len(STREAMS) > 150


@each("name", STREAMS)
def test_stream_is_read(name: str) -> None:
    """Every recorded stream ends well, but for those that end with an error; how it is cut makes no difference."""
    data = stream_bytes(LOADED[name])
    events = decode(data)
    assert isinstance(events[-1], Failed) == ("stream_error" in LOADED[name]["tags"])
    assert decode(data, 97) == events


@each("name", STREAMS)
def test_stream_adds_up(name: str) -> None:
    """The official accumulator takes what we write, and gets the same answer as a client that does not stream."""
    events = decode(stream_bytes(LOADED[name]))
    if isinstance(events[-1], Failed):
        written = CODEC.encoder(ResponseContext()).encode(Sequencer().feed(events))
        assert b"[DONE]" not in written
        assert b'"error"' in written
        return
    answer = collect(events)
    context = ResponseContext(source=Protocol.CHAT)
    streamed = accumulate(CODEC.encoder(context).encode(Sequencer().feed(events)))
    assert streamed == accumulate(CODEC.encoder(context).encode(events_of(answer)))
    whole = CODEC.encode_response(answer, context)["choices"][0]
    message = whole["message"]
    assert streamed["finish_reason"] == whole["finish_reason"]
    assert streamed["message"]["content"] == (message["content"] or "")
    for field in ("refusal", "reasoning_content", "annotations", "reasoning_details"):
        assert streamed["message"].get(field) == message.get(field)
    calls = [bare_call(call) for call in streamed["message"].get("tool_calls") or []]
    assert calls == [bare_call(call) for call in message.get("tool_calls", [])]


def bare_call(call: dict[str, Any]) -> dict[str, Any]:
    kind = call["type"]
    known = ("name", "arguments", "input")
    return {"id": call["id"], "type": kind, kind: {name: call[kind][name] for name in known if name in call[kind]}}


def accumulate(data: bytes) -> dict[str, Any]:
    """The first choice as the official SDK puts it together."""
    events = SseParser().feed(data)
    assert events[-1].data == b"[DONE]"
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    for event in events[:-1]:
        list(state.handle_chunk(ChatCompletionChunk.model_validate_json(event.data)))
    choice: dict[str, Any] = state.current_completion_snapshot.choices[0].to_dict()
    return choice
