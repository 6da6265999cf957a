"""Streams for these tests: written by hand, read back as events."""

import json
from collections.abc import Iterable
from typing import Any

from trilogue.model import Collector, Event, Failed, Failure, Response, Sequencer
from trilogue.protocols.responses import CODEC

RESPONSE: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 7, "model": "m", "output": []}


def sse(kind: str, **fields: Any) -> bytes:
    """One event as OpenAI frames it."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def created() -> bytes:
    return sse("response.created", response={**RESPONSE, "status": "in_progress"})


def completed(*output: Any, status: str = "completed", name: str = "response.completed", **more: Any) -> bytes:
    return sse(name, response={**RESPONSE, "status": status, "output": list(output), **more})


def events(*chunks: bytes) -> list[Event]:
    """Everything that a decoder makes of a stream, to its end."""
    decoder = CODEC.decoder()
    found = [event for chunk in chunks for event in decoder.feed(chunk)]
    return found + decoder.close()


def collect(found: Iterable[Event]) -> Response:
    """The answer that the events add up to."""
    collector = Collector()
    for event in Sequencer().feed(found):
        collector.feed(event)
    return collector.response()


def failure(found: list[Event]) -> Failure:
    """What a stream failed with."""
    last = found[-1]
    assert isinstance(last, Failed)
    return last.failure


def parse(stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream that we wrote."""
    blocks = [block.partition("\ndata: ") for block in stream.decode().split("\n\n") if block]
    return [json.loads(data) for _, _, data in blocks]
