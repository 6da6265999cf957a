"""The requests that a live server is asked, in each protocol, written down by hand.

They do not come from the codecs, because a mistake there would look like a mistake of the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from trilogue.errors import ClientError
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


class ProbeRequest(Struct, frozen=True, kw_only=True):
    """One request. `calls`: how many tool calls the response should have. `key`: instead of the server's own."""

    name: str
    body: dict[str, Json]
    expected: Expected = "success"
    calls: int = 0
    reasoning: bool = False
    stop: str = ""
    key: str | None = None

    @property
    def stream(self) -> bool:
        """Whether the response is streamed."""
        return bool(self.body.get("stream"))


def asks(protocol: Protocol, model: str) -> Iterator[ProbeRequest]:
    """Yield all requests: each kind of response plain and streamed, then those that must be refused.

    Raises `ClientError` for a protocol that no requests are written for.
    """
    name = protocol.short
    if name not in _WRITERS:
        known = ", ".join(_WRITERS)
        raise ClientError(f"the linter has no requests for {name}, only for {known}", code="no_lint_rules")
    write = _WRITERS[name]
    for stream in (False, True):
        how = "streamed" if stream else "plain"
        yield ProbeRequest(name=f"text, {how}", body=write(model, _HELLO, stream))
        yield ProbeRequest(name=f"tool call, {how}", body=write(model, _WEATHER, stream) | _tools(name), calls=1)
        yield ProbeRequest(
            name=f"parallel calls, {how}", body=write(model, _TWO_CITIES, stream) | _tools(name), calls=2
        )
        thinking = write(model, _THINK, stream) | _THINKING[name]
        yield ProbeRequest(name=f"reasoning, {how}", body=thinking, reasoning=True)
        if name in _STOP:
            yield ProbeRequest(name=f"stop sequence, {how}", body=write(model, _COUNT, stream) | _STOP[name], stop=STOP)
    for stream in (False, True):
        how = "streamed" if stream else "plain"
        refused = write(model, _HELLO, stream)
        yield ProbeRequest(name=f"refused key, {how}", body=refused, expected="refused_key", key=WRONG_KEY)
        yield ProbeRequest(name=f"bad request, {how}", body=refused | {_CONTENT[name]: 7}, expected="bad_request")


def _chat(model: str, text: str, stream: bool) -> dict[str, Json]:
    body: dict[str, Json] = {"model": model, "messages": [{"role": "user", "content": text}]}
    return body | ({"stream": True, "stream_options": {"include_usage": True}} if stream else {})


def _messages(model: str, text: str, stream: bool) -> dict[str, Json]:
    body: dict[str, Json] = {"model": model, "max_tokens": MAX_TOKENS, "messages": [{"role": "user", "content": text}]}
    return body | ({"stream": True} if stream else {})


def _responses(model: str, text: str, stream: bool) -> dict[str, Json]:
    body: dict[str, Json] = {"model": model, "input": text, "store": False}
    return body | ({"stream": True} if stream else {})


def _tools(protocol: str) -> dict[str, Json]:
    function = {"name": _NAME, "description": _DESCRIPTION, "parameters": _SCHEMA}
    tools: dict[str, Json] = {
        "chat": {"type": "function", "function": function},
        "messages": {"name": _NAME, "description": _DESCRIPTION, "input_schema": _SCHEMA},
        "responses": {"type": "function", "strict": False, **function},
    }
    return {"tools": [tools[protocol]]}


_WRITERS = {"chat": _chat, "messages": _messages, "responses": _responses}
_CONTENT = {"chat": "messages", "messages": "messages", "responses": "input"}
_THINKING: dict[str, dict[str, Json]] = {
    "chat": {"reasoning_effort": "low"},
    "messages": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "responses": {"reasoning": {"effort": "low", "summary": "auto"}},
}
_STOP: dict[str, dict[str, Json]] = {
    "chat": {"stop": [STOP]},
    "messages": {"stop_sequences": [STOP]},
}
"""Responses has no stop sequences"""
