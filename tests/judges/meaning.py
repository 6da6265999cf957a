"""The common meaning of bodies and streams of all three protocols, so that they can be compared."""

from collections.abc import Callable
from typing import Any

from tests.judges import ask_chat, ask_messages, ask_responses, chat, messages, responses, sse
from tests.judges.answers import Answer
from tests.judges.asks import Ask
from trilogue.model import Protocol

_BODIES: dict[Protocol, Callable[[dict[str, Any]], Answer]] = {
    Protocol.CHAT: chat.answer,
    Protocol.MESSAGES: messages.answer,
    Protocol.RESPONSES: responses.answer,
}
_STREAMS: dict[Protocol, Callable[[list[sse.Event]], Answer]] = {
    Protocol.CHAT: chat.stream,
    Protocol.MESSAGES: messages.stream,
    Protocol.RESPONSES: responses.stream,
}
_ASKS: dict[Protocol, Callable[[dict[str, Any]], Ask]] = {
    Protocol.CHAT: ask_chat.ask,
    Protocol.MESSAGES: ask_messages.ask,
    Protocol.RESPONSES: ask_responses.ask,
}
_COVERED: dict[Protocol, frozenset[str]] = {
    Protocol.CHAT: ask_chat.COVERED,
    Protocol.MESSAGES: ask_messages.COVERED,
    Protocol.RESPONSES: ask_responses.COVERED,
}


def of_body(protocol: Protocol, body: dict[str, Any]) -> Answer:
    """Return the meaning of a complete response."""
    return _BODIES[protocol](body)


def of_stream(protocol: Protocol, stream: bytes) -> Answer:
    """Return the meaning of a stream."""
    return _STREAMS[protocol](sse.read(stream))


def of_request(protocol: Protocol, body: dict[str, Any]) -> Ask:
    """Return the meaning of a request."""
    return _ASKS[protocol](body)


def covered(protocol: Protocol) -> frozenset[str]:
    """Return the top-level request fields that `of_request` reads."""
    return _COVERED[protocol]
