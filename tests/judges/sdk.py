"""Verdicts of the official SDKs.

Request bodies are checked against their parameter types, responses against their models, streams by their accumulators,
and errors by their exceptions. Apart from the names of the protocols, nothing here knows Trilogue.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import anthropic
import httpx2
import openai
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from anthropic.types.beta.message_create_params import MessageCreateParams as BetaMessageParams
from anthropic.types.message_create_params import MessageCreateParams
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from tests.judges import sse
from trilogue.model import Protocol

Check = Callable[[str], object]
"""raises ValidationError if a JSON text does not fit"""

CHAT, MESSAGES, RESPONSES = Protocol.CHAT, Protocol.MESSAGES, Protocol.RESPONSES

RAISED = (openai.APIError, anthropic.APIError)
"""what the official clients raise for an error that the provider reports"""

_PARAMS: dict[Protocol, tuple[Any, ...]] = {
    CHAT: (CompletionCreateParams,),
    MESSAGES: (MessageCreateParams, BetaMessageParams),
    RESPONSES: (ResponseCreateParams,),
}
_ANSWERS: dict[Protocol, tuple[Any, ...]] = {
    CHAT: (ChatCompletion,),
    MESSAGES: (Message, BetaMessage),
    RESPONSES: (Response,),
}
_EVENTS: dict[Protocol, tuple[Any, ...]] = {
    CHAT: (ChatCompletionChunk,),
    MESSAGES: (RawMessageStreamEvent, BetaRawMessageStreamEvent),
    RESPONSES: (ResponseStreamEvent,),
}

# The newest SDK has no sampling parameters, but the older API version accepts them. Compatible servers accept top_k,
# and some require earlier reasoning to be sent back.
_EXTENSIONS: dict[Protocol, frozenset[str]] = {
    CHAT: frozenset({"top_k", "reasoning_content", "reasoning_details"}),
    MESSAGES: frozenset({"temperature", "top_p", "top_k"}),
    RESPONSES: frozenset(),
}


def request_problems(protocol: Protocol, body: dict[str, Any]) -> list[str]:
    """Return what the SDK's parameter types find wrong with a request body, including unknown keys at any depth."""
    plain = json.dumps(_without(body, _EXTENSIONS[protocol]))
    return _fewest(_problems(_params(params), plain) for params in _PARAMS[protocol])


def body_problems(protocol: Protocol, body: dict[str, Any]) -> list[str]:
    """Return what the SDK's models find wrong with a response."""
    text = json.dumps(body)
    return _fewest(_problems(_model(model), text) for model in _ANSWERS[protocol])


def event_problems(protocol: Protocol, stream: bytes) -> list[str]:
    """Return what the SDK's event types find wrong with the events of a stream, each problem once."""
    found: dict[str, None] = {}
    for event in sse.read(stream):
        if event.data.startswith("[DONE]") or (protocol is CHAT and '"error"' in event.data):
            continue
        if event.name == "ping" or (event.name == "error" and protocol is not CHAT):
            continue
        problems = _fewest(_problems(_model(model), event.data) for model in _EVENTS[protocol])
        found.update(dict.fromkeys(f"{event.name or 'chunk'}: {problem}" for problem in problems))
    return list(found)


def _without(body: dict[str, Any], extensions: frozenset[str]) -> dict[str, Any]:
    plain = {name: value for name, value in body.items() if name not in extensions}
    if "reasoning_content" in extensions and isinstance(plain.get("messages"), list):
        plain["messages"] = [
            {name: value for name, value in message.items() if name not in extensions}
            if isinstance(message, dict)
            else message
            for message in plain["messages"]
        ]
    return plain


def _fewest(candidates: Iterator[list[str]]) -> list[str]:
    """Return the shortest list of problems. The beta types are tried only if the plain ones do not fit."""
    best: list[str] | None = None
    for problems in candidates:
        if not problems:
            return []
        best = problems if best is None or len(problems) < len(best) else best
    return best or []


def _problems(check: Check, text: str) -> list[str]:
    try:
        check(text)
    except ValidationError as error:
        return _readable(error.errors(include_url=False, include_input=False))
    return []


def _readable(problems: Sequence[Any]) -> list[str]:
    """Return the problems without those of union members that the value is not, by its type or role."""
    others = {p["loc"][:-1] for p in problems if p["type"] == "literal_error" and p["loc"][-1] in ("type", "role")}
    close = list(problems)
    for other in sorted(others, key=len):
        # The remaining member may have a wrong type inside, and that is then the problem.
        close = [p for p in close if p["loc"][: len(other)] != other] or close
    deepest = max(len(problem["loc"]) for problem in close)
    chosen = [problem for problem in close if len(problem["loc"]) >= deepest - 1]
    return list(dict.fromkeys(_line(problem) for problem in chosen))


def _line(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"] if len(str(part)) < _LONGEST_PART)
    return f"{where}: {problem['msg']}"


_LONGEST_PART = 60
"""names of unions, which list all members and add nothing to the rest of the path"""


@cache
def _params(params: Any) -> Check:
    """Return a validator of a parameter type that reads every list completely and allows no unknown key."""
    validator = SchemaValidator(_eager(TypeAdapter(params).core_schema))
    return lambda text: validator.validate_json(text, strict=True)


@cache
def _model(model: Any) -> Check:
    adapter = TypeAdapter(model)
    adapter.rebuild()
    return lambda text: adapter.validate_json(text, strict=True)


def _eager(schema: Any) -> Any:
    """Return a core schema in which lazy iterables are lists and typed dicts are closed."""
    if isinstance(schema, list | tuple):
        return type(schema)(_eager(part) for part in schema)
    if not isinstance(schema, dict):
        return schema
    changed = {name: _eager(value) for name, value in schema.items()}
    if changed.get("type") == "generator":
        changed["type"] = "list"
    if changed.get("type") == "typed-dict" and "extras_schema" not in changed:
        changed["extra_behavior"] = "forbid"
    return changed


@dataclass
class Accumulated:
    """What the official accumulator made of a stream: its final object, or the exception that it raised."""

    final: dict[str, Any] | None
    error: Exception | None = None


class _Canned(httpx2.BaseTransport):
    """A transport that responds to every request with the same bytes."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = b""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(self.status, headers=self.headers, content=self.body)


@cache
def _openai() -> tuple[openai.OpenAI, _Canned]:
    transport = _Canned()
    http = httpx2.Client(transport=transport)
    return openai.OpenAI(api_key="k", base_url="http://sdk.test", http_client=http, max_retries=0), transport


@cache
def _anthropic() -> tuple[anthropic.Anthropic, _Canned]:
    transport = _Canned()
    http = httpx2.Client(transport=transport)
    return anthropic.Anthropic(api_key="k", base_url="http://sdk.test", http_client=http, max_retries=0), transport


def accumulate(protocol: Protocol, stream: bytes) -> Accumulated:
    """Run a stream through the official client of a protocol. Exceptions of the SDK are part of the result."""
    try:
        with warnings.catch_warnings():
            # pydantic warns about values outside of the types; `event_problems` checks those.
            warnings.simplefilter("ignore", UserWarning)
            return Accumulated(_ACCUMULATORS[protocol](stream))
    except RAISED as error:
        return Accumulated(None, error)
    except (RuntimeError, AssertionError, LookupError, TypeError, ValueError, AttributeError) as error:
        return Accumulated(None, error)


def _serve(transport: _Canned, stream: bytes) -> None:
    transport.status, transport.body = 200, stream
    transport.headers = {"content-type": "text/event-stream"}


def _accumulate_chat(stream: bytes) -> dict[str, Any]:
    client, transport = _openai()
    _serve(transport, stream)
    with client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "x"}]) as events:
        # get_final_completion would raise for responses that are merely cut off by a limit.
        snapshot = events.until_done().current_completion_snapshot
        return cast("dict[str, Any]", snapshot.to_dict(mode="json"))


def _accumulate_messages(stream: bytes) -> dict[str, Any]:
    client, transport = _anthropic()
    _serve(transport, stream)
    asked: Any = [{"role": "user", "content": "x"}]
    with client.messages.stream(model="m", max_tokens=9, messages=asked) as events:
        return cast("dict[str, Any]", events.get_final_message().to_dict(mode="json"))


def _accumulate_responses(stream: bytes) -> dict[str, Any]:
    """Accumulate a stream. The helper only returns completed responses; others are taken from their event."""
    client, transport = _openai()
    _serve(transport, stream)
    final: Any = None
    with client.responses.stream(model="m", input="x") as events:
        for event in events:
            if event.type in ("response.completed", "response.incomplete", "response.failed"):
                final = cast("Any", event).response
    if final is None:
        raise RuntimeError("no terminal event")
    return cast("dict[str, Any]", final.to_dict(mode="json"))


_ACCUMULATORS: dict[Protocol, Callable[[bytes], dict[str, Any]]] = {
    CHAT: _accumulate_chat,
    MESSAGES: _accumulate_messages,
    RESPONSES: _accumulate_responses,
}


def raised(protocol: Protocol, status: int, body: dict[str, Any], headers: dict[str, str]) -> Exception | None:
    """Return the exception that the official client raises for an error response, or None if it sees a success."""
    client, transport = _anthropic() if protocol is MESSAGES else _openai()
    transport.status, transport.body = status, json.dumps(body).encode()
    transport.headers = {"content-type": "application/json", **headers}
    try:
        _ask(protocol, client)
    except RAISED as error:
        return error
    return None


def _ask(protocol: Protocol, client: Any) -> None:
    if protocol is RESPONSES:
        client.responses.create(model="m", input="x")
    elif protocol is CHAT:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    else:
        client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}])
