"""Read the meaning of Messages responses, as Anthropic defines them and as other servers send them."""

import copy
from typing import Any

from tests.judges.answers import (
    END,
    FILTER,
    LENGTH,
    PAUSE,
    TOOL_CALLS,
    Answer,
    Call,
    Usage,
    arguments,
    error_of,
    items,
    mapping,
    number,
    string,
)
from tests.judges.sse import Event

STOPS = {
    "end_turn": END,
    "stop_sequence": END,
    "max_tokens": LENGTH,
    "model_context_window_exceeded": LENGTH,
    "tool_use": TOOL_CALLS,
    "pause_turn": PAUSE,
    "refusal": FILTER,
    "compaction": "compaction",
}


def answer(body: dict[str, Any]) -> Answer:
    """Return the meaning of a complete response."""
    found = Answer()
    if body.get("type") == "error" or "error" in body:
        found.error = error_of(body)
        return found.settle()
    for block in items(body.get("content")):
        _block(mapping(block), found)
    found.stop = STOPS.get(string(body.get("stop_reason")))
    if found.stop == FILTER:
        found.refusal = string(mapping(body.get("stop_details")).get("explanation"))
    found.usage = usage(body.get("usage"))
    return found.settle()


def _block(block: dict[str, Any], found: Answer) -> None:
    kind = string(block.get("type"))
    if kind == "text":
        found.say(string(block.get("text")))
        for citation in items(block.get("citations")):
            if mapping(citation).get("url"):
                found.citations.append((string(citation["url"]), string(citation.get("title"))))
            else:
                found.natives.append(f"citation:{mapping(citation).get('type')}")
    elif kind == "thinking":
        found.reasoning += string(block.get("thinking"))
        found.opaque.append(string(block.get("signature")))
    elif kind == "redacted_thinking":
        found.opaque.append(string(block.get("data")))
    elif kind == "tool_use":
        found.call(Call(string(block.get("id")), string(block.get("name")), arguments(block.get("input"))))
    elif kind == "server_tool_use" and block.get("name") == "web_search":
        found.searches.append(string(mapping(arguments(block.get("input"))).get("query")))
    elif kind != "mcp_tool_result":
        # Other protocols have one item for an MCP call and its result.
        found.natives.append(kind)


def stream(events: list[Event]) -> Answer:
    """Return the meaning of a stream: its blocks are assembled and read like a complete response."""
    message: dict[str, Any] = {"content": []}
    blocks: dict[int, dict[str, Any]] = {}
    complete = False
    failure: tuple[str, str] | None = None
    for event in events:
        data = mapping(event.json)
        kind = data.get("type") or event.name
        if kind == "error" or event.name == "error":
            failure = error_of(data)
            break
        if kind == "message_start" and _another(message, data):
            failure = ("server", "")
            break
        complete = complete or kind == "message_stop"
        _fold(str(kind), data, message, blocks)
    message["content"] = items(message.get("content")) + [_closed(blocks[index]) for index in sorted(blocks)]
    found = answer(message)
    found.error, found.complete = failure, complete
    return found.settle()


def _another(message: dict[str, Any], data: dict[str, Any]) -> bool:
    """Return whether another message begins inside the stream. The same one again is harmless."""
    return "id" in message and message["id"] != mapping(data.get("message")).get("id")


def _fold(kind: str, data: dict[str, Any], message: dict[str, Any], blocks: dict[int, dict[str, Any]]) -> None:
    index = number(data.get("index"))
    if kind == "message_start" and "id" not in message:
        message.update(copy.deepcopy(mapping(data.get("message"))))
    elif kind == "content_block_start":
        blocks[index] = copy.deepcopy(mapping(data.get("content_block")))
    elif kind == "content_block_delta":
        _extend(blocks.setdefault(index, {"type": "text", "text": ""}), mapping(data.get("delta")))
    elif kind == "message_delta":
        delta = mapping(data.get("delta"))
        message.update({name: value for name, value in delta.items() if value is not None})
        given = {name: value for name, value in mapping(data.get("usage")).items() if value is not None}
        message["usage"] = {**mapping(message.get("usage")), **given}


_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def _extend(block: dict[str, Any], delta: dict[str, Any]) -> None:
    kind = string(delta.get("type"))
    if kind in _PIECES:
        name = _PIECES[kind]
        block[name] = string(block.get(name)) + string(delta.get(name))
    elif kind == "input_json_delta":
        block["partial"] = block.get("partial", "") + string(delta.get("partial_json"))
    elif kind == "citations_delta":
        block["citations"] = [*items(block.get("citations")), delta.get("citation")]


def _closed(block: dict[str, Any]) -> dict[str, Any]:
    """Return a finished block. Deltas, if any, replace the input that the block started with."""
    return {**block, "input": arguments(block["partial"])} if block.get("partial") else block


def usage(value: Any) -> Usage | None:
    """Return the usage. The input is the sum of fresh tokens, cache reads and cache writes."""
    fields = mapping(value)
    if not fields:
        return None
    read, written = number(fields.get("cache_read_input_tokens")), number(fields.get("cache_creation_input_tokens"))
    return Usage(
        input=number(fields.get("input_tokens")) + read + written,
        cached=read,
        cache_write=written,
        output=number(fields.get("output_tokens")),
        reasoning=number(mapping(fields.get("output_tokens_details")).get("thinking_tokens")),
    )
