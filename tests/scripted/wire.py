"""The three protocols behind one interface: the path, reading a request, and writing a response."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.scripted import chat, messages, responses
from tests.scripted.asked import Asked, read_chat, read_messages, read_responses
from tests.scripted.errors import Refused
from tests.scripted.scenario import Answer
from tests.scripted.tokens import Ids


@dataclass(frozen=True)
class Wire:
    """What the scripted upstream needs of one protocol."""

    path: str
    anthropic: bool
    read: Callable[[dict[str, Any]], Asked]
    headers: Callable[[Ids], list[tuple[str, str]]]
    whole: Callable[[Answer, Asked, Ids], dict[str, Any]]
    stream: Callable[[Answer, Asked, Ids], Iterator[bytes]]
    error_events: Callable[[Refused, Asked, Ids, int], list[bytes]]


CHAT = Wire("/v1/chat/completions", False, read_chat, chat.headers, chat.whole, chat.stream, chat.error_events)
MESSAGES = Wire(
    "/v1/messages", True, read_messages, messages.headers, messages.whole, messages.stream, messages.error_events
)
RESPONSES = Wire(
    "/v1/responses", False, read_responses, responses.headers, responses.whole, responses.stream, responses.error_events
)
WIRES = {wire.path: wire for wire in (CHAT, MESSAGES, RESPONSES)}
