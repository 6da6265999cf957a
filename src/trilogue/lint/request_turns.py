"""The calls and results of a conversation, in order, in one form for all protocols.

A `Mark` is a call, a result, or a turn that goes on without them ("turn"): before one, every call must have its result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from trilogue.lint.shape import arr, obj, objects, text
from trilogue.model import Json


class Mark(Struct, frozen=True, kw_only=True):
    """`is_open`: its other half may be elsewhere (earlier responses, or a provider's own tools)."""

    kind: Literal["call", "result", "turn"]
    path: str
    id: str = ""
    has_arguments: bool = True
    is_open: bool = False


def chat_marks(body: dict[str, Json]) -> Iterator[Mark]:
    """Calls are in assistant messages, results are messages."""
    for number, message in enumerate(objects(body.get("messages"))):
        path = f"messages[{number}]"
        if message.get("role") == "tool":
            yield Mark(kind="result", path=path, id=text(message.get("tool_call_id")))
            continue
        yield Mark(kind="turn", path=path)
        for position, call in enumerate(objects(message.get("tool_calls"))):
            kind = call.get("type")
            inner = obj(call.get("custom" if kind == "custom" else "function"))
            value = inner.get("input" if kind == "custom" else "arguments")
            where = f"{path}.tool_calls[{position}]"
            yield Mark(kind="call", path=where, id=text(call.get("id")), has_arguments=isinstance(value, str))


def messages_marks(body: dict[str, Json]) -> Iterator[Mark]:
    """Calls and results are blocks; the results are in the next turn of the user."""
    for number, message in enumerate(objects(body.get("messages"))):
        path = f"messages[{number}]"
        blocks = objects(message.get("content"))
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if not results:
            yield Mark(kind="turn", path=path)
        for position, block in enumerate(blocks):
            where, kind = f"{path}.content[{position}]", block.get("type")
            if kind == "tool_use":
                has_arguments = isinstance(block.get("input"), dict)
                yield Mark(kind="call", path=where, id=text(block.get("id")), has_arguments=has_arguments)
            elif kind == "tool_result":
                yield Mark(kind="result", path=where, id=text(block.get("tool_use_id")))
        if results:
            yield Mark(kind="turn", path=path)


_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})


def responses_marks(body: dict[str, Json]) -> Iterator[Mark]:
    """Calls and results are items; earlier responses may hold the other half."""
    items = arr(body.get("input"))
    has_state = any(body.get(name) for name in ("previous_response_id", "conversation", "prompt")) or any(
        obj(item).get("type") in ("item_reference", None) and "id" in obj(item) and "role" not in obj(item)
        for item in items
    )
    for number, entry in enumerate(items):
        item, path = obj(entry), f"input[{number}]"
        kind = text(item.get("type"))
        if kind in _CALLS:
            has_arguments = isinstance(item.get(_CALLS[kind]), str)
            yield Mark(
                kind="call", path=path, id=text(item.get("call_id")), has_arguments=has_arguments, is_open=has_state
            )
        elif kind in _RESULTS:
            yield Mark(kind="result", path=path, id=text(item.get("call_id")), is_open=has_state)
    # Items may lie between a call and its result, so only the end of the input closes the calls.
    if items:
        yield Mark(kind="turn", path=f"input[{len(items) - 1}]")
