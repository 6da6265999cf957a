"""Finding out what a document is: a request, a response, an error or a stream, and in which protocol."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from trilogue.base.json_text import parse_object
from trilogue.base.sse import SseParser
from trilogue.model import Json, Protocol
from trilogue.protocols.registry import CODECS

HEAD_BYTES = 1024 * 1024
"""how much of a stream is searched for an event that shows its protocol"""


class DocumentKind(StrEnum):
    """What a document is, which decides how it is read and compared."""

    REQUEST = "request"
    RESPONSE = "response"
    ERROR = "error"
    STREAM = "stream"


# The short names of the protocols that a JSON document is recognised by. Other protocols must be given by the caller.
_CHAT, _MESSAGES, _RESPONSES = "chat", "messages", "responses"
_OUTPUT_FIELDS = frozenset({"choices", "output"})
_RESPONSES_FIELDS = frozenset({"input", "previous_response_id", "max_output_tokens"})
_CHAT_FIELDS = frozenset(
    {
        "max_completion_tokens",
        "response_format",
        "n",
        "stop",
        "seed",
        "stream_options",
        "logprobs",
        "logit_bias",
        "frequency_penalty",
        "presence_penalty",
        "reasoning_effort",
        "web_search_options",
        "modalities",
    }
)
_MESSAGES_FIELDS = frozenset({"system", "stop_sequences", "thinking", "output_config", "mcp_servers", "betas"})
_CHAT_ROLES = frozenset({"developer", "tool", "function"})
_MESSAGES_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"})
_CHAT_PARTS = frozenset({"image_url", "input_audio", "file", "refusal"})


def is_stream(data: bytes) -> bool:
    """Return whether the data is server-sent events instead of one JSON document."""
    # OpenRouter begins its streams with comments such as ": OPENROUTER PROCESSING".
    return data.lstrip()[:6] in (b"data: ", b"event:", b"data:{", b"data:[") or data[:1] == b":"


def kind_of(data: bytes, body: dict[str, Json] | None) -> DocumentKind:
    """Return what a document is. `body`: the object, if it is JSON."""
    if body is None or is_stream(data):
        return DocumentKind.STREAM
    if _OUTPUT_FIELDS & body.keys() or body.get("type") == "message":
        return DocumentKind.RESPONSE
    if body.get("error"):
        return DocumentKind.ERROR
    return DocumentKind.REQUEST


def protocol_of_body(body: dict[str, Json], kind: DocumentKind) -> Protocol | None:
    """Return the protocol of a JSON document, or None if it could be of several."""
    name = _NAMES[kind](body)
    return Protocol.parse(name) if name is not None else None


def _of_response(body: dict[str, Json]) -> str:
    if "choices" in body:
        return _CHAT
    return _RESPONSES if "output" in body else _MESSAGES


def _of_error(body: dict[str, Json]) -> str | None:
    return _MESSAGES if body.get("type") == "error" else None


def _of_request(body: dict[str, Json]) -> str | None:
    if _RESPONSES_FIELDS & body.keys():
        return _RESPONSES
    if "messages" not in body:
        return None
    chat = len(_CHAT_FIELDS & body.keys()) + _signs(body, _is_chat_message, "function")
    messages = len(_MESSAGES_FIELDS & body.keys()) + _signs(body, _is_messages_message, "input_schema")
    if chat == messages == 0:
        # Messages requires an output limit; Chat clients may send one too.
        if "max_tokens" not in body:
            return _CHAT
        return _MESSAGES if "claude" in str(body.get("model")) else None
    return _CHAT if chat > messages else _MESSAGES if messages > chat else None


_NAMES: dict[DocumentKind, Callable[[dict[str, Json]], str | None]] = {
    DocumentKind.RESPONSE: _of_response,
    DocumentKind.ERROR: _of_error,
    DocumentKind.REQUEST: _of_request,
    DocumentKind.STREAM: _of_request,
}


def _signs(body: dict[str, Json], is_one: Json, tool_field: str) -> int:
    """Return how many messages and tools have something that only one protocol has."""
    messages = [message for message in _objects(body.get("messages")) if is_one(message)]
    return len(messages) + len([tool for tool in _objects(body.get("tools")) if tool_field in tool])


def _is_chat_message(message: dict[str, Json]) -> bool:
    return (
        message.get("role") in _CHAT_ROLES
        or "tool_calls" in message
        or any(part.get("type") in _CHAT_PARTS for part in _objects(message.get("content")))
        or message.get("role") == "system"
    )


def _is_messages_message(message: dict[str, Json]) -> bool:
    return any(part.get("type") in _MESSAGES_BLOCKS for part in _objects(message.get("content")))


def _objects(value: Json) -> list[dict[str, Json]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def protocol_of_stream(data: bytes) -> Protocol | None:
    """Return the protocol of the first event that shows it, or None if no event does."""
    parser = SseParser()
    for event in [*parser.feed(data[:HEAD_BYTES]), *parser.close()]:
        body = parse_object(event.data) or {}
        for one in CODECS.values():
            if one.endpoint.is_event(body):
                return one.protocol
    return None
