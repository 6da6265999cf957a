"""The shape of a stream: which events follow each other, without their words.

In: the bytes of a stream. Out: one line of tokens, such as `role content finish:stop usage [DONE]`. Two streams of the
same shape take the same way through the code, whatever they say.
"""

import json
from collections.abc import Callable
from typing import Any

from tests.judges import sse
from tests.shapes.repeats import collapse
from trilogue import Protocol

Body = dict[str, Any]
PIECES = frozenset(
    {"role", "name", "content", "refusal", "reasoning", "reasoning_content", "args", "args(id)", "audio", "channel"}
    | {"reasoning_details", "reasoning_encrypted", "token_id", "logprobs", "usage", "function_call"}
)
"""the parts of Chat chunks that come many times in a row"""


def shape(protocol: Protocol, stream: bytes) -> str:
    """Return the shape of a stream."""
    reader = _READERS[protocol]()
    tokens = [_token(event.data, reader) for event in sse.read(stream)]
    return collapse(tokens, silent)


def silent(token: str) -> bool:
    """Return whether a token repeated in a row is only another piece of the same thing."""
    if token == "ping" or "delta" in token:
        return True
    return all(part.removeprefix("#1.").partition("[")[0] in PIECES for part in token.split("+"))


def _token(data: str, reader: Callable[[Body], str]) -> str:
    if data.strip() == "[DONE]":
        # OpenRouter has sent it with a space behind.
        return data.replace(" ", "_")
    try:
        event = json.loads(data)
    except ValueError:
        return "unreadable"
    return reader(event) if isinstance(event, dict) else "unreadable"


def kinds(values: list[Any]) -> str:
    """Return the types of a list's objects, each once."""
    found = {str(value.get("type")) if isinstance(value, dict) else "text" for value in values}
    return ",".join(sorted(found))


class ChatReader:
    """The tokens of Chat chunks: the fields of a chunk, joined by a plus sign."""

    def __init__(self) -> None:
        self._calls: set[tuple[Any, Any]] = set()

    def __call__(self, chunk: Body) -> str:
        """Return the token of one chunk."""
        parts: list[str] = []
        for choice in chunk.get("choices") or []:
            index = choice.get("index") or 0
            parts += [part if not index else f"#{index}.{part}" for part in self._choice(choice)]
        parts += [name for name in ("usage", "error") if chunk.get(name)]
        return "+".join(sorted(parts)) or "empty"

    def _choice(self, choice: Body) -> list[str]:
        parts = []
        for name, value in (choice.get("delta") or {}).items():
            if name == "tool_calls":
                parts += [self._call(choice, call) for call in value or []]
            elif value not in (None, "", [], {}):
                parts.append(f"{name}[{kinds(value)}]" if isinstance(value, list) else name)
        if choice.get("logprobs"):
            parts.append("logprobs")
        if choice.get("finish_reason"):
            parts.append(f"finish:{choice['finish_reason']}")
        return parts

    def _call(self, choice: Body, call: Body) -> str:
        key = (choice.get("index"), call["index"] if "index" in call else call.get("id"))
        inner = call.get("function") or call.get("custom") or {}
        filled = bool(inner.get("arguments") or inner.get("input"))
        if key in self._calls:
            return "args(id)" if call.get("id") or inner.get("name") else "args"
        self._calls.add(key)
        kind = "call.custom" if call.get("type") == "custom" else "call"
        return f"{kind}(args)" if filled else kind


class MessagesReader:
    """The tokens of Messages events."""

    def __call__(self, event: Body) -> str:
        """Return the token of one event."""
        kind = event.get("type", "?")
        if kind == "content_block_start":
            return f"start:{block(event['content_block'])}"
        if kind == "content_block_delta":
            delta = event["delta"]
            cited = delta.get("citation") or {}
            return f"{delta.get('type', '?')}:{cited['type']}" if cited.get("type") else str(delta.get("type", "?"))
        if kind == "message_delta":
            return f"end:{event['delta'].get('stop_reason')}"
        if kind == "message_start":
            content = event["message"].get("content")
            return f"message_start({kinds(content)})" if content else kind
        return "stop" if kind == "content_block_stop" else str(kind)


def block(value: Body) -> str:
    """Return the type of a block, with what its start already holds."""
    kind = str(value.get("type"))
    if kind == "server_tool_use":
        kind = f"{kind}({value.get('name')})"
    if value.get("input") or value.get("text") or value.get("thinking"):
        return f"{kind}(filled)"
    content = value.get("content")
    failed = isinstance(content, dict) and str(content.get("type", "")).endswith("_error")
    return f"{kind}(error)" if failed or value.get("is_error") else kind


class ResponsesReader:
    """The tokens of Responses events."""

    def __call__(self, event: Body) -> str:
        """Return the token of one event."""
        kind = str(event.get("type", "?")).removeprefix("response.")
        if kind in ("output_item.added", "output_item.done"):
            return f"{kind.removeprefix('output_item.')}:{item(event['item'])}"
        if kind in ("content_part.added", "content_part.done"):
            return f"{kind}:{event['part'].get('type')}"
        if kind.endswith("annotation.added"):
            return f"{kind}:{event['annotation'].get('type')}"
        if kind == "incomplete":
            return f"{kind}:{(event['response'].get('incomplete_details') or {}).get('reason')}"
        return f"{kind}(no_output)" if kind == "completed" and not event["response"].get("output") else kind


def item(value: Body) -> str:
    """Return the type of an item, with what decides how it is translated."""
    kind = str(value.get("type"))
    if kind == "reasoning":
        names = ("summary", "content", "encrypted_content")
        held = [name for name in names if value.get(name)]
        return f"{kind}({','.join(held)})" if held else kind
    action = value.get("action")
    if kind == "web_search_call" and isinstance(action, dict):
        return f"{kind}({action.get('type')})"
    return f"{kind}(failed)" if value.get("status") == "failed" or value.get("error") else kind


_READERS: dict[Protocol, Callable[[], Callable[[Body], str]]] = {
    Protocol.CHAT: ChatReader,
    Protocol.MESSAGES: MessagesReader,
    Protocol.RESPONSES: ResponsesReader,
}
