"""The linter reports findings for any input and never raises."""

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lint.golden_responses import RESPONSES_REQUEST, responses_body, responses_stream
from tests.lint.goldens import (
    CHAT_REQUEST,
    MESSAGES_REQUEST,
    chat_body,
    chat_stream,
    chat_text_stream,
    frames,
    messages_body,
    messages_stream,
)
from trilogue.lint import lint_error, lint_request, lint_response, lint_stream
from trilogue.model import Protocol

JUNK: list[Any] = [None, True, 0, -1, 1.5, "", "x", [], [[]], [None], {}, {"type": []}, {"a": {}}, 10**30]
STREAMS = {Protocol.CHAT: chat_stream, Protocol.MESSAGES: messages_stream, Protocol.RESPONSES: responses_stream}
BODIES = {Protocol.CHAT: chat_body, Protocol.MESSAGES: messages_body, Protocol.RESPONSES: responses_body}
REQUESTS = {
    Protocol.CHAT: CHAT_REQUEST,
    Protocol.MESSAGES: MESSAGES_REQUEST,
    Protocol.RESPONSES: RESPONSES_REQUEST,
}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container with each of its keys."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield value, key
        yield from places(inner)


def spoiled(value: Any, seed: int) -> Any:
    """Return a copy with junk in one to three places."""
    chance = random.Random(seed)
    value = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        container, key = chance.choice(list(places(value)))
        container[key] = copy.deepcopy(chance.choice(JUNK))
    return value


@pytest.mark.parametrize("protocol", list(Protocol))
def test_no_junk_in_a_stream_raises(protocol: Protocol) -> None:
    """Wrong types at any depth are findings."""
    for seed in range(300):
        events = spoiled(STREAMS[protocol](), seed)
        data = frames([event for event in events if isinstance(event, dict)], named=protocol is not Protocol.CHAT)
        request = spoiled(REQUESTS[protocol], seed)
        assert isinstance(lint_stream(protocol, data, request=request), list)


@pytest.mark.parametrize("protocol", list(Protocol))
def test_no_junk_in_a_body_raises(protocol: Protocol) -> None:
    """Junk in responses, errors and requests is a finding."""
    for seed in range(300):
        body, request = spoiled(BODIES[protocol](), seed), spoiled(REQUESTS[protocol], seed)
        assert isinstance(lint_response(protocol, body, request=request), list)
        assert isinstance(lint_request(protocol, request), list)
        assert lint_error(protocol, body)


@pytest.mark.parametrize("protocol", list(Protocol))
@pytest.mark.parametrize("junk", JUNK)
def test_junk_for_a_whole_field_of_a_request(protocol: Protocol, junk: Any) -> None:
    """Junk in any top-level field is a finding."""
    for name in REQUESTS[protocol]:
        assert isinstance(lint_request(protocol, {**REQUESTS[protocol], name: junk}), list)


@pytest.mark.parametrize(
    "data",
    [
        b"data: " + b"[" * 5000 + b"\n\n",
        b"data: 1e999\n\n",
        b"data: \xff\n\n",
        b'data: {"a": "\\ud800"}\n\n',
        b"\x00\r\r\n\n\r",
        b"data",
        b":",
        b"\xef\xbb",
        b'data: {"type": {"a": 1}}\n\n',
    ],
)
@pytest.mark.parametrize("protocol", list(Protocol))
def test_hostile_bytes_do_not_raise(protocol: Protocol, data: bytes) -> None:
    """Deep nesting, huge numbers, bad UTF-8, half a surrogate pair and stray line ends do not raise."""
    assert lint_stream(protocol, data)


def test_long_arguments_stay_linear() -> None:
    """Many small deltas do not take quadratic time."""
    events = chat_text_stream()
    delta = events[1]
    delta["choices"][0]["logprobs"] = None
    many = [events[0], *[delta] * 20_000, *events[3:]]
    assert lint_stream(Protocol.CHAT, frames(many, named=False)) == []
