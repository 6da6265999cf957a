"""The requests that a live server is asked, in each protocol, written down by hand.

They do not come from the codecs, because a mistake there would look like a mistake of the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field

from trilogue.model import Json, Protocol

Expected = Literal["success", "refused_key", "bad_request"]
WRONG_KEY = "wrong-key-of-trilogue-lint"
MAX_TOKENS = 2048

_HELLO = "Say hello in one short sentence."
_WEATHER = "What is the weather in Paris? Use the tool."
_TWO_CITIES = "What is the weather in Paris, and what in Rome? Call the tool once for each city, both calls at once."
_THINK = "Think about it first: which number is larger, 9.11 or 9.9? Then answer with that number."
_COUNT = "Count from 1 to 9 in digits, separated by spaces."
STOP = "5"

_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
_NAME, _DESCRIPTION = "get_weather", "Returns the weather in a city."


class Ask(Struct, frozen=True, kw_only=True):
    """One request. `calls`: how many tool calls the response should have. `key`: instead of the server's own."""

    name: str
    body: dict[str, Json]
    expected: Expected = "success"
    calls: int = 0
    reasoning: bool = False
    stop: str = ""
    key: str | None = None
    skipped: str = field(default="")
    """why the protocol has no such request"""

    @property
    def stream(self) -> bool:
        """Whether the response is streamed."""
        return bool(self.body.get("stream"))


def asks(protocol: Protocol, model: str) -> Iterator[Ask]:
    """Yield all requests: each kind of response plain and streamed, then those that must be refused."""
    write = _WRITERS[protocol]
    for stream in (False, True):
        how = "streamed" if stream else "plain"
        yield Ask(name=f"text, {how}", body=write(model, _HELLO, stream))
        yield Ask(name=f"tool call, {how}", body=write(model, _WEATHER, stream) | _tools(protocol), calls=1)
        yield Ask(name=f"parallel calls, {how}", body=write(model, _TWO_CITIES, stream) | _tools(protocol), calls=2)
        thinking = write(model, _THINK, stream) | _THINKING[protocol]
        yield Ask(name=f"reasoning, {how}", body=thinking, reasoning=True)
        if protocol in _STOP:
            yield Ask(name=f"stop sequence, {how}", body=write(model, _COUNT, stream) | _STOP[protocol], stop=STOP)
    yield Ask(name="refused key", body=write(model, _HELLO, False), expected="refused_key", key=WRONG_KEY)
    yield Ask(name="refused key, streamed", body=write(model, _HELLO, True), expected="refused_key", key=WRONG_KEY)
    yield Ask(name="bad request", body={"model": model, _CONTENT[protocol]: 7}, expected="bad_request")


def _chat(model: str, text: str, stream: bool) -> dict[str, Json]:
    body: dict[str, Json] = {"model": model, "messages": [{"role": "user", "content": text}]}
    return body | ({"stream": True, "stream_options": {"include_usage": True}} if stream else {})


def _messages(model: str, text: str, stream: bool) -> dict[str, Json]:
    body: dict[str, Json] = {"model": model, "max_tokens": MAX_TOKENS, "messages": [{"role": "user", "content": text}]}
    return body | ({"stream": True} if stream else {})


def _responses(model: str, text: str, stream: bool) -> dict[str, Json]:
    body: dict[str, Json] = {"model": model, "input": text, "store": False}
    return body | ({"stream": True} if stream else {})


def _tools(protocol: Protocol) -> dict[str, Json]:
    function = {"name": _NAME, "description": _DESCRIPTION, "parameters": _SCHEMA}
    tools: dict[Protocol, Json] = {
        Protocol.CHAT: {"type": "function", "function": function},
        Protocol.MESSAGES: {"name": _NAME, "description": _DESCRIPTION, "input_schema": _SCHEMA},
        Protocol.RESPONSES: {"type": "function", "strict": False, **function},
    }
    return {"tools": [tools[protocol]]}


_WRITERS = {Protocol.CHAT: _chat, Protocol.MESSAGES: _messages, Protocol.RESPONSES: _responses}
_CONTENT = {Protocol.CHAT: "messages", Protocol.MESSAGES: "messages", Protocol.RESPONSES: "input"}
_THINKING: dict[Protocol, dict[str, Json]] = {
    Protocol.CHAT: {"reasoning_effort": "low"},
    Protocol.MESSAGES: {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    Protocol.RESPONSES: {"reasoning": {"effort": "low", "summary": "auto"}},
}
_STOP: dict[Protocol, dict[str, Json]] = {
    Protocol.CHAT: {"stop": [STOP]},
    Protocol.MESSAGES: {"stop_sequences": [STOP]},
}
"""Responses has no stop sequences"""
