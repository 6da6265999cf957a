"""Protocols by name: every function of the library takes them, and says which there are."""

from collections.abc import Callable
from typing import Any

import pytest

import trilogue
from trilogue import Protocol, Target
from trilogue.lint import lint_error, lint_request, lint_response, lint_stream

ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
ANSWER = {
    "id": "1",
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}],
}
STREAM = (
    b'data: {"id":"1","model":"m","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
    b'data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


def _streamed(source: Any, target: Any) -> bytes:
    stream = trilogue.StreamTranslator(source=source, target=target)
    return stream.feed(STREAM) + stream.close()


USES: dict[str, Callable[[Any], object]] = {
    "request from": lambda name: trilogue.translate_request(ASKED, source=name, target=Protocol.MESSAGES).body,
    "request to": lambda name: trilogue.translate_request(ASKED, source=Protocol.CHAT, target=name).body,
    "response from": lambda name: trilogue.translate_response(ANSWER, source=name, target=Protocol.CHAT).body,
    "response to": lambda name: trilogue.translate_response(ANSWER, source=Protocol.CHAT, target=name).body,
    "stream from": lambda name: _streamed(name, Protocol.MESSAGES),
    "stream to": lambda name: _streamed(Protocol.CHAT, name),
    "collect": lambda name: trilogue.collect_stream(STREAM, protocol=name),
    "codec": trilogue.codec,
    "target": lambda name: Target.of(name, "m"),
    "profile": lambda name: trilogue.profile_for(name, "m"),
    "lint stream": lambda name: lint_stream(name, STREAM),
    "lint response": lambda name: lint_response(name, ANSWER),
    "lint error": lambda name: lint_error(name, ANSWER),
    "lint request": lambda name: lint_request(name, ASKED),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", ["chat", "openai_chat_completions"])
def test_a_name_is_as_good_as_the_protocol(use: str, name: str) -> None:
    """The short and the long one: the same comes out, also where both sides are the same protocol."""
    assert USES[use](name) == USES[use](Protocol.CHAT)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", ["openai", "", None, ["chat"]], ids=repr)
def test_an_unknown_name_is_refused_with_the_known_ones(use: str, name: Any) -> None:
    """An error of the library, not a KeyError."""
    with pytest.raises(
        trilogue.ClientError, match=r"there is no protocol .*chat \(openai_chat_completions\), messages"
    ):
        USES[use](name)
