"""Invented traffic of every listed shape, in the form in which recorded traffic is judged."""

from collections.abc import Callable
from typing import Any

from tests.corpus.load import Recording
from tests.shapes import requests_chat, requests_messages, requests_responses, write_bodies
from tests.shapes.repeats import expand
from tests.shapes.streams import silent
from tests.shapes.write_chat import ChatWriter
from tests.shapes.write_messages import MessagesWriter
from tests.shapes.write_responses import ResponsesWriter
from trilogue import Protocol

Body = dict[str, Any]
_NAMES = {
    Protocol.CHAT: "openai_chat",
    Protocol.MESSAGES: "anthropic_messages",
    Protocol.RESPONSES: "openai_responses",
}
_WRITERS: dict[Protocol, Callable[[list[str]], ChatWriter | MessagesWriter | ResponsesWriter]] = {
    Protocol.CHAT: ChatWriter,
    Protocol.MESSAGES: MessagesWriter,
    Protocol.RESPONSES: ResponsesWriter,
}
PLAIN = {
    Protocol.CHAT: "role content finish:stop usage [DONE]",
    Protocol.MESSAGES: "message_start start:text text_delta stop end:end_turn message_stop",
    Protocol.RESPONSES: "created in_progress added:message content_part.added:output_text output_text.delta"
    " output_text.done content_part.done:output_text done:message completed",
}
"""the shapes of streams of nothing but text"""
REQUESTS: dict[Protocol, dict[str, Body]] = {
    Protocol.CHAT: requests_chat.CASES,
    Protocol.MESSAGES: requests_messages.CASES,
    Protocol.RESPONSES: requests_responses.CASES,
}


def stream(protocol: Protocol, line: str) -> bytes:
    """Return an invented stream of that shape."""
    return _WRITERS[protocol](expand(line, silent)).write()


def as_recorded(protocol: Protocol, **fields: Any) -> Recording:
    """Return invented traffic as a recording: `raw_sse`, `response` or `request`."""
    events: list[Body] = [{}] if "raw_sse" in fields else []
    data = {"protocol": _NAMES[protocol], "status": 200, "tags": [], "sse": events, **fields}
    return Recording(f"invented-{protocol.short}", data)


def streamed(protocol: Protocol, data: bytes) -> Recording:
    """Return an invented stream as a recording."""
    return as_recorded(protocol, raw_sse=data.decode())


def responded(protocol: Protocol, line: str) -> Recording:
    """Return an invented whole response of that shape as a recording."""
    return as_recorded(protocol, response=write_bodies.write(protocol, line))
